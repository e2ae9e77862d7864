//! Do clients that wait for a change get it, and only then?

use relayer_rest_host::module::{DEFAULT_MODULE, Module};
use relayer_rest_host::registry::{Mount, Mounts};
use relayer_rest_host::state::{Object, StatePublisher, Worker};
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::{lower_priority, thread_priorities};
use relayer_rest_tests::program::Program;
use relayer_rest_tests::relayer;
use relayer_rest_tests::server::{TestServer, any_dialect, engine, extension, patient};
use relayer_rest_tests::wait::{until, until_async, within};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The longest preference to wait.
pub(super) const WAIT: (&str, &str) = ("prefer", "wait=300");

/// Adds a worker with this id to the state.
pub(super) fn add_worker(publisher: &StatePublisher, id: u64) {
    let object = Object::Wallet { chain_id: "ibc-0".into() };
    publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

/// Removes a chain, which also changes the list of chains.
pub(super) fn remove_chain(publisher: &StatePublisher) {
    let snapshot = publisher.reader().snapshot();
    let first = snapshot.chain_ids().value().as_ref().unwrap()[0].clone();
    publisher.remove_chain(&first);
}

/// Returns a module whose response is a text that does not depend on the request.
pub(super) fn same() -> Vec<u8> {
    component::of_response(200, &[("content-type", b"text/plain")], b"same")
}

/// Opens streams of that module for these queries.
pub(super) async fn streams_of_same(
    server: &TestServer,
    queries: impl IntoIterator<Item = usize>,
) -> Vec<(Client, Events)> {
    let mut streams = Vec::new();
    for query in queries {
        let mut client = server.connect().await;
        let mut events = Events::open(&mut client, &format!("/a?{query}"), &[]).await;
        assert_eq!(events.next().await.unwrap().data, "same");
        streams.push((client, events));
    }
    streams
}

pub(super) async fn waiters(server: &TestServer, count: u64) {
    until("clients wait", || server.live.status().waiters == count).await;
}

/// Sends a request that waits for another response than the current one.
pub(super) async fn wait_for_change(
    mut client: Client,
    path: &'static str,
) -> JoinHandle<Response> {
    let etag = client.get(path).await.header("etag").to_owned();
    tokio::spawn(async move {
        client.request_with("GET", path, &[("if-none-match", &etag), WAIT]).await
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_until_its_response_differs() {
    let server = TestServer::start().await;
    for (number, client) in
        [Client::http1(server.address).await, Client::http2(server.address).await]
            .into_iter()
            .enumerate()
    {
        let waiting = wait_for_change(client, "/state").await;
        waiters(&server, 1).await;
        assert!(!waiting.is_finished());
        add_worker(&server.publisher, 1_000 + number as u64);
        let response = within("the change", waiting).await.unwrap();
        let now = server.get("/state").await;
        assert_eq!((response.status, &response.body), (now.status, &now.body));
        assert_eq!(response.header("etag"), now.header("etag"));
        assert_eq!(response.header("preference-applied"), "wait=300");
        waiters(&server, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_gets_304_when_the_time_is_over() {
    // A waiting client is neither idle nor stalled.
    let second = Duration::from_secs(1);
    let http = HttpLimits { idle: second, stalled: second, ..HttpLimits::default() };
    let server = TestServer::builder().http(http).start().await;
    let mut client = server.connect().await;
    let etag = client.get("/state").await.header("etag").to_owned();
    let start = Instant::now();
    let headers = [("if-none-match", &*etag), ("prefer", "wait=4")];
    let response = client.request_with("GET", "/state", &headers).await;
    assert_eq!((response.status.as_u16(), response.body.len()), (304, 0));
    assert_eq!(response.header("preference-applied"), "wait=4");
    // Less a sixteenth at most.
    assert!(start.elapsed() >= Duration::from_millis(3_750), "{:?}", start.elapsed());
    let zero = [("if-none-match", &*etag), ("prefer", "wait=0")];
    assert_eq!(client.request_with("GET", "/state", &zero).await.status, 304);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_wait_is_a_limit() {
    let live = LiveLimits { max_wait: Duration::from_secs(1), ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let response = within("the end of the wait", wait_for_change(server.connect().await, "/state"));
    let response = within("a response", response.await).await.unwrap();
    assert_eq!((response.status.as_u16(), response.header("preference-applied")), (304, "wait=1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_has_nothing_to_wait_for_gets_its_response_at_once() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let etag = client.get("/state").await.header("etag").to_owned();
    for (method, path, headers, status) in [
        ("GET", "/state", &[WAIT][..], 200),
        ("GET", "/state", &[WAIT, ("if-none-match", "\"other\"")], 200),
        ("GET", "/chain/absent", &[WAIT, ("if-none-match", "*")], 404),
        ("GET", "/state", &[("if-none-match", &*etag), ("prefer", "wait=x")], 304),
        ("POST", "/state", &[("if-none-match", &*etag), WAIT], 405),
    ] {
        let request = client.request_with(method, path, headers);
        let response = within("a response", request).await;
        assert_eq!(response.status, status, "{method} {path} {headers:?}");
        let is_applied = response.headers.contains_key("preference-applied");
        assert_eq!(is_applied, headers.contains(&WAIT) && method == "GET", "{headers:?}");
    }
    assert_eq!(server.live.status().runs, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_runs_the_module_once_for_each_response_that_read_a_change() {
    let server = TestServer::start().await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(wait_for_change(server.connect().await, "/state").await);
        waiting.push(wait_for_change(server.connect().await, "/chains").await);
    }
    waiters(&server, 40).await;
    assert_eq!((server.live.status().entries, server.live.status().runs), (2, 0));
    // An equal response of a client that joins is not a run.
    assert_eq!(server.live.status().unchanged_runs, 0);
    for _ in 0..100 {
        // Nothing of this is read.
        server.publisher.set_components(Vec::new());
        server.publisher.set_telemetry(Vec::new(), std::time::SystemTime::now());
    }
    remove_chain(&server.publisher);
    for _ in 0..20 {
        let response = within("the change", waiting.remove(1)).await.unwrap();
        assert_eq!(response.status, 200);
        if waiting.len() > 20 {
            waiting.rotate_left(1);
        }
    }
    assert!(waiting.iter().all(|request| !request.is_finished()));
    assert_eq!(server.live.status().runs, 1);
    add_worker(&server.publisher, 1_000);
    for request in waiting {
        assert_eq!(within("the change", request).await.unwrap().status, 200);
    }
    assert_eq!(server.live.status().runs, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_joins_a_run_for_waiting_clients() {
    let slow = component::live(*b"slowly", 0);
    let server = TestServer::builder().component(&slow).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/", &[]).await;
    events.next().await.unwrap();
    let runs = || server.api().status().module().unwrap().runs;
    for worker in 1_000..1_003 {
        let before = runs();
        add_worker(&server.publisher, worker);
        until("the run begins", || runs() > before).await;
        let response = server.get("/").await;
        assert_eq!(events.next().await.unwrap().data, response.text());
        assert!(response.text().contains(&worker.to_string()));
        assert_eq!(runs(), before + 1, "runs for one response");
    }
}

#[tokio::test]
async fn responses_to_waiting_clients_are_made_at_a_lower_priority() {
    let serving = Program::server().start().await;
    assert_eq!(thread_priorities(serving.id(), "live"), [""; 0]);
    let mut client = serving.connect().await;
    let _waiting = Events::open(&mut client, "/state", &[]).await;
    // The thread begins with its name, and then lowers its priority.
    until("it has a lower priority", || {
        thread_priorities(serving.id(), "live") == [lower_priority()]
    })
    .await;
}

/// A cache must not send a stream, or the response to a request that waited, to other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_vary_by_the_headers_that_choose_a_stream_or_a_wait() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let mut client = server.connect().await;
    let etag = client.get("/state").await.header("etag").to_owned();
    let known = ("if-none-match", &*etag);
    let gzip = ("accept-encoding", "gzip");
    for (method, headers, status) in [
        ("GET", &[][..], 200),
        ("GET", &[("accept", "*/*")], 200),
        ("GET", &[gzip], 200),
        ("HEAD", &[], 200),
        ("GET", &[known], 304),
        ("GET", &[known, ("prefer", "wait=0")], 304),
        ("GET", &[("prefer", "wait=1")], 200),
    ] {
        let response = client.request_with(method, "/state", headers).await;
        assert_eq!(response.status, status, "{headers:?}");
        let vary: Vec<_> = response.headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["accept, prefer, accept-encoding"], "{method} {headers:?}");
    }
    for headers in [&[][..], &[gzip], &[("prefer", "patch")]] {
        let mut client = server.connect().await;
        let events = Events::open(&mut client, "/state", headers).await;
        let vary: Vec<_> = events.headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["accept, prefer, accept-encoding"], "{headers:?}");
    }
    assert_eq!(client.get("/openapi.json").await.header("vary"), "");
    assert_eq!(client.request_with("POST", "/state", &[]).await.header("vary"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_fails_is_repeated_after_a_time() {
    let server = TestServer::builder().component(&component::that_traps_at_a_header(1));
    let server = server.start().await;
    let start = Instant::now();
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[("x-mode", "a")]).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, &failed.json()["status"]), ("failed", &json!(500)));
    until("the request is repeated", || server.live.status().runs >= 2).await;
    // After a second, and after half a second at least.
    assert!(start.elapsed() >= Duration::from_millis(1_500), "{:?}", start.elapsed());
    assert_eq!(server.live.status().wakeups, 0);
}

/// A module that reads more than is recorded may depend on any value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_with_unknown_reads_is_evaluated_after_each_publication_only() {
    let server = TestServer::builder().component(&component::that_reads_headers(80));
    let server = server.start().await;
    let mut client = server.connect().await;
    let etag = client.get("/a").await.header("etag").to_owned();
    let headers = [("if-none-match", &*etag), ("prefer", "wait=2")];
    assert_eq!(client.request_with("GET", "/a", &headers).await.status, 304);
    assert_eq!(server.live.status().runs, 0);
    let waiting = wait_for_change(server.connect().await, "/a").await;
    waiters(&server, 1).await;
    server.publisher.set_components(Vec::new());
    until("it is evaluated", || server.live.status().unchanged_runs == 1).await;
    assert_eq!((server.live.status().runs, waiting.is_finished()), (1, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_wakes_clients_only_if_their_response_differs() {
    // Each swap is an evaluation of its own.
    let live = LiveLimits { min_interval: Duration::from_millis(1), ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let other = component::noted(DEFAULT_MODULE, "another");
    assert!(server.swap_as(any_dialect(other)).await.is_accepted());
    let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
    assert!(server.swap(component::of_response(200, text, b"new")).await.is_accepted());
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, &*event.data), ("change", "new"));
    until("one change is counted", || server.live.status().wakeups == 1).await;
}

/// A reload replaces the mounts. Nothing is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_wakes_clients_only_if_their_response_differs() {
    let responds = |text: &str| {
        component::of_response(200, &[("content-type", b"text/plain")], text.as_bytes())
    };
    let api = |component: Vec<u8>| {
        let name = component::noted(&component, "reloaded");
        Arc::new(Mount::api(Module::from_bytes(&engine(&patient()), "new", &name).unwrap()))
    };
    let server = TestServer::builder().component(&responds("old")).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[]).await;
    assert_eq!(events.next().await.unwrap().data, "old");
    let polling = wait_for_change(server.connect().await, "/a").await;
    let mut of_other = server.connect().await;
    let mut others = Events::open(&mut of_other, "/ext/tool/", &[]).await;
    assert_eq!(others.next().await.unwrap().data, "old");
    waiters(&server, 3).await;

    server.registry.exchange(Mounts::new(api(responds("old"))));
    until("both responses are evaluated", || server.live.status().unchanged_runs == 2).await;
    assert_eq!((server.live.status().wakeups, polling.is_finished()), (0, false));
    server.registry.exchange(Mounts::new(api(responds("new"))));
    for events in [&mut events, &mut others] {
        assert_eq!(events.next().await.unwrap().data, "new");
    }
    assert_eq!(within("the change", polling).await.unwrap().text(), "new");
    // Swaps of the new mount are noticed, too, and another mount takes its paths over.
    assert!(server.swap(responds("swapped")).await.is_accepted());
    for events in [&mut events, &mut others] {
        assert_eq!(events.next().await.unwrap().data, "swapped");
    }
    let tool = extension("/ext/tool", &engine(&patient()), &responds("of an extension"));
    let mounts = Mounts::new(server.api()).with(Arc::new(tool)).unwrap();
    server.registry.exchange(mounts);
    assert_eq!(others.next().await.unwrap().data, "of an extension");
    assert_eq!(server.live.status().waiters, 2);
}

/// The requests of an entry may read other headers after a swap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_responses_of_their_own_when_a_module_begins_to_tell_them_apart() {
    let server = TestServer::builder().component(&same()).start().await;
    let mut streams = streams_of_same(&server, 1..=3).await;
    assert_eq!(server.live.status().entries, 1);
    assert!(server.swap(component::that_returns_its_query()).await.is_accepted());
    for (number, (_, events)) in streams.iter_mut().enumerate() {
        assert_eq!(events.next().await.unwrap().data, (number + 1).to_string());
    }
    until("each has its own", || server.live.status().entries == 3).await;
}

/// Commands are executed for the request that recorded them, which the client sends again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_response_has_commands_is_asked_to_send_its_request_again() {
    // The second client moves to a response of its own, the only one does not.
    for queries in [1..=2, 2..=2] {
        let server = TestServer::builder().component(&same()).start().await;
        let mut streams = streams_of_same(&server, queries.clone()).await;
        let new = component::that_clears_packets_for_a_query();
        assert!(server.swap(new).await.is_accepted(), "{queries:?}");
        let (_, events) = streams.last_mut().unwrap();
        assert_eq!(events.next().await, None, "{queries:?}");
        assert!(events.retry.is_some(), "{queries:?}");
        assert_eq!(server.get("/a?2").await.error_name(), "CommandDisabled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_share_an_entry_if_they_have_the_headers_that_the_module_read() {
    let module = component::that_returns("X-A");
    let server = TestServer::builder().component(&module).start().await;
    let requests = [
        (&[("x-a", "one")][..], 1),
        (&[("x-a", "one"), ("x-b", "one")], 1),
        (&[("x-a", "two"), ("x-b", "one")], 2),
        (&[("x-b", "two")], 3),
    ];
    for ((headers, entries), count) in requests.into_iter().zip(1..) {
        let mut client = server.connect().await;
        let etag = client.request_with("GET", "/x", headers).await.header("etag").to_owned();
        tokio::spawn(async move {
            let headers = [headers, &[("if-none-match", &*etag), WAIT]].concat();
            client.request_with("GET", "/x", &headers).await
        });
        waiters(&server, count).await;
        assert_eq!(server.live.status().entries, entries, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_count_clients_that_wait() {
    let files = Folder::new();
    let state = |clients| relayer::state(&["ibc-0"], clients, true).to_string();
    let file = files.write("state.json", state(1));
    let config = files.write("config.toml", include_str!("../../fixtures/hermes-0.7.toml"));
    let sources = ["--relayer-config", &config, "--state", &file];
    let serving = Program::server().args(sources).start().await;
    let mut clients = [serving.connect().await, serving.connect().await];
    let [one, other] = &mut clients;
    let mut streams =
        [Events::open(one, "/state", &[]).await, Events::open(other, "/state", &[]).await];
    for events in &mut streams {
        events.next().await.unwrap();
    }
    files.replace("state.json", state(2));
    for events in &mut streams {
        assert_eq!(events.next().await.unwrap().name, "change");
    }
    let control = serving.control_client();
    let metrics = async || control.metrics().await.unwrap();
    let has =
        |metrics: &str, sample: &str| metrics.contains(&format!("\nrelayer_rest_live_{sample}\n"));
    // A client may have its event before it is counted.
    let both = async || has(&metrics().await, "wakeups_total 2");
    until_async("both changes are counted", both).await;
    let metrics = metrics().await;
    for sample in [
        "waiters 2",
        "entries 1",
        "runs_total 1",
        "runs_without_change_total 0",
        "wakeups_total 2",
        "refused_total 0",
    ] {
        assert!(has(&metrics, sample), "{sample}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_count_runs_without_a_change() {
    let files = Folder::new();
    let state = |clients| relayer::state(&["ibc-0"], clients, true).to_string();
    let file = files.write("state.json", state(1));
    let config = files.write("config.toml", include_str!("../../fixtures/hermes-0.7.toml"));
    // Its reads do not fit into their record: it may depend on any value.
    let module = files.write("headers.wasm", component::that_reads_headers(80));
    let args =
        ["--relayer-config", &config, "--state", &file, "--module", &module, "--dialect", "any"];
    let serving = Program::server().args(args).start().await;
    let waiting = wait_for_change(serving.connect().await, "/a").await;
    let control = serving.control_client();
    let has = async |sample| {
        let sample = format!("\nrelayer_rest_live_{sample}\n");
        control.metrics().await.unwrap().contains(&sample)
    };
    until_async("the client waits", async || has("waiters 1").await).await;
    files.replace("state.json", state(2));
    until_async("the run is counted", async || has("runs_without_change_total 1").await).await;
    assert!(has("wakeups_total 0").await && !waiting.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_gone_does_not_wait() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let events = Events::open(&mut client, "/state", &[]).await;
    let polling = wait_for_change(server.connect().await, "/chains").await;
    waiters(&server, 2).await;
    assert!(server.live.status().bytes > 0);
    polling.abort();
    drop((client, events));
    waiters(&server, 0).await;
    // The threads of the clients drop the rest after that.
    let held = || {
        let status = server.live.status();
        (status.entries, status.bytes)
    };
    until("entries and bytes are dropped", || held() == (0, 0)).await;
}
