//! Do clients that wait for a change get it, and only then?

use std::time::{Duration, Instant};

use bytesize::ByteSize;
use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::state::{ChainConfig, ChainKind, Object, Stale, StatePublisher, Worker};
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::thread_priorities;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::relayer;
use relayer_rest_tests::server::{TestServer, any_dialect, engine, extension, patient};
use relayer_rest_tests::wait::{until, until_async, within};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The longest preference to wait.
const WAIT: (&str, &str) = ("prefer", "wait=300");

/// Adds a worker with this id to the state.
fn add_worker(publisher: &StatePublisher, id: u64) {
    let object = Object::Wallet { chain_id: "ibc-0".into() };
    publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

/// Removes a chain, which also changes the list of chains.
fn remove_chain(publisher: &StatePublisher) {
    let snapshot = publisher.reader().snapshot();
    let first = snapshot.chain_ids().value().as_ref().unwrap()[0].clone();
    publisher.remove_chain(&first);
}

/// Returns a module whose response is a text that does not depend on the request.
fn same() -> Vec<u8> {
    component::of_response(200, &[("content-type", b"text/plain")], b"same")
}

/// Opens streams of that module for these queries.
async fn streams_of_same(
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

async fn waiters(server: &TestServer, count: u64) {
    until("clients wait", || server.live.status().waiters == count).await;
}

/// Sends a request that waits for another response than the current one.
async fn wait_for_change(mut client: Client, path: &'static str) -> JoinHandle<Response> {
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
    until("it has a lower priority", || thread_priorities(serving.id(), "live") == ["10"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_each_version_as_an_event() {
    let server = TestServer::start().await;
    for mut client in [Client::http1(server.address).await, Client::http2(server.address).await] {
        let mut events = Events::open(&mut client, "/state", &[]).await;
        assert_eq!(events.headers["cache-control"], "no-cache, no-transform");
        assert_eq!(events.headers["x-accel-buffering"], "no");
        assert!(events.headers.contains_key("x-request-id"));
        for id in 1_000..1_005 {
            let event = events.next().await.unwrap();
            let now = server.get("/state").await;
            assert_eq!((&*event.name, &*event.data), ("change", now.text()));
            assert_eq!(event.id.as_deref(), Some(now.header("etag")));
            add_worker(&server.publisher, id);
        }
        drop((events, client));
        waiters(&server, 0).await;
        server.publisher.update_state(|state| state.workers.retain(|worker| worker.id < 1_000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_stream_has_each_event_when_it_happens() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    for mut client in [Client::http1(server.address).await, Client::http2(server.address).await] {
        let gzip = [("accept-encoding", "br, gzip"), ("prefer", "patch")];
        let mut events = Events::open(&mut client, "/state", &gzip).await;
        assert_eq!(events.headers["content-encoding"], "gzip");
        assert_eq!(events.headers["preference-applied"], "patch");
        let mut state = events.next().await.unwrap().json();
        for id in 1_000..1_005 {
            add_worker(&server.publisher, id);
            let event = events.next().await.unwrap();
            assert_eq!(event.name, "patch");
            apply(&mut state, event.json());
            let now = server.get("/state").await;
            assert_eq!(state, serde_json::from_slice::<Value>(&now.body).unwrap());
            assert_eq!(event.id.as_deref(), Some(now.header("etag")));
        }
        drop((events, client));
        waiters(&server, 0).await;
        server.publisher.update_state(|state| state.workers.retain(|worker| worker.id < 1_000));
    }
    let mut client = server.connect().await;
    for accepted in ["br, zstd", "gzip;q=0", "identity, gzip;q=0.5"] {
        let events = Events::open(&mut client, "/state", &[("accept-encoding", accepted)]).await;
        assert!(!events.headers.contains_key("content-encoding"), "{accepted}");
        drop(events);
        client = server.connect().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_continues_after_the_last_event_that_the_client_has() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let before = server.get("/state").await;
    let last = [("last-event-id", before.header("etag"))];
    let mut events = Events::open(&mut client, "/state", &last).await;
    // A comment tells that the client is connected.
    assert_eq!(events.next_block().await.unwrap(), ":");
    add_worker(&server.publisher, 1_000);
    let event = events.next().await.unwrap();
    assert_eq!(event.data, server.get("/state").await.text());
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &last).await;
    assert_eq!(events.next().await.unwrap(), event);
    // A state that is not confirmed begins with its age, also for a client that has it.
    let since = Instant::now();
    server.publisher.set_stale(Some(Stale { since, chains: false }));
    assert_eq!(events.next().await.unwrap().name, "stale");
    let last = [("last-event-id", &*event.id.unwrap())];
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &last).await;
    assert_eq!(events.next().await.unwrap().name, "stale");
    server.publisher.set_stale(None);
    assert_eq!(events.next().await.unwrap().name, "confirmed");
}

/// The entity tag of a response that the client got compressed is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_continues_after_a_response_in_any_encoding() {
    let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
    let tagged = [text, &[("etag", &b"\"mine\""[..])]].concat();
    let server = TestServer::start().await;
    let body = [b'a'; 5_000];
    for (headers, changed) in [(text, text), (&tagged, text)] {
        server.swap(component::of_response(200, headers, &body)).await;
        let mut tags = Vec::new();
        for encoding in ["identity", "gzip", "br", "zstd"] {
            let mut client = server.connect().await;
            let accept = [("accept-encoding", encoding)];
            let response = client.request_with("GET", "/", &accept).await;
            let tag = response.header("etag").to_owned();
            let mut events = Events::open(&mut client, "/", &[("last-event-id", &tag)]).await;
            assert_eq!(events.next_block().await.unwrap(), ":", "{tag}");
            tags.push((client, events, tag));
        }
        // The client of another one gets the body.
        for tag in ["\"other-gzip\"", "\"mine-gzip\"", "W/\"other\""] {
            let mut client = server.connect().await;
            let mut events = Events::open(&mut client, "/", &[("last-event-id", tag)]).await;
            assert_eq!(events.next().await.unwrap().name, "change", "{tag}");
        }
        server.swap(component::of_response(200, changed, b"new")).await;
        for (_, events, tag) in &mut tags {
            assert_eq!(events.next().await.unwrap().data, "new", "{tag}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_text_is_sent_as_events_and_an_error_of_the_client_as_it_is() {
    let server = TestServer::start().await;
    let accept = [("accept", "text/event-stream")];
    let mut client = server.connect().await;
    let absent = client.request_with("GET", "/chain/absent", &accept).await;
    assert_eq!((absent.status.as_u16(), absent.header("content-type")), (404, "application/json"));
    let head = client.request_with("HEAD", "/state", &accept).await;
    assert_eq!(head.header("content-type"), "application/json");
    for (kind, body) in [("image/png", &b"a"[..]), ("text/plain", b"\xff")] {
        let component = component::of_response(200, &[("content-type", kind.as_bytes())], body);
        server.swap(component).await;
        let response = client.request_with("GET", "/", &accept).await;
        let msg =
            "the response is not text, which events are; request it without text/event-stream";
        response.check_error(406, "NotAcceptable", msg);
        assert_eq!(response.header("vary"), "accept, prefer");
    }
    // If a stream has begun, it is an event.
    let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
    server.swap(component::of_response(200, text, b"a")).await;
    let mut events = Events::open(&mut client, "/", &[]).await;
    assert_eq!(events.next().await.unwrap().data, "a");
    server.swap(component::of_response(200, text, b"\xff")).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, &failed.json()["status"]), ("failed", &json!(406)));
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
async fn a_failure_is_an_event_and_ends_no_stream() {
    let server = TestServer::builder().without_state().start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, failed.id.as_deref()), ("failed", Some("")));
    assert_eq!(failed.json()["status"], 503);
    assert_eq!(failed.json()["body"]["status"], "error");
    add_worker(&server.publisher, 1);
    assert_eq!(events.next().await.unwrap().data, server.get("/state").await.text());
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
async fn a_stream_tells_that_its_state_is_stale() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let since = Instant::now().checked_sub(Duration::from_secs(7)).unwrap();
    server.publisher.set_stale(Some(Stale { since, chains: false }));
    let stale = events.next().await.unwrap();
    assert_eq!(stale.name, "stale");
    assert!(stale.json()["age"].as_u64().unwrap() >= 7, "{stale:?}");
    // Of a stream that begins with it, the client learns before the state that it is stale.
    let mut other = server.connect().await;
    let mut begun = Events::open(&mut other, "/state", &[]).await;
    assert_eq!(begun.next().await.unwrap().name, "stale");
    assert_eq!(begun.next().await.unwrap().name, "change");
    server.publisher.set_stale(None);
    assert_eq!(events.next().await.unwrap().name, "confirmed");
    // No module was run for this.
    assert_eq!(server.live.status().runs, 0);
}

/// Streams do not count as idle or stalled either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_outlives_the_limit_of_idle_connections() {
    let second = Duration::from_secs(1);
    let http = HttpLimits { idle: second, stalled: second, ..HttpLimits::default() };
    let server = TestServer::builder().http(http).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    events.next().await.unwrap();
    let mut idle = server.connect().await;
    idle.get("/version").await;
    idle.closed().await;
    let mut later = server.connect().await;
    later.get("/version").await;
    later.closed().await;
    add_worker(&server.publisher, 1_000);
    assert_eq!(events.next().await.unwrap().name, "change");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_budget_of_runs_delays_responses_in_their_order() {
    const COUNT: usize = 6;
    let live = LiveLimits {
        runs_per_second: 2,
        min_interval: Duration::from_millis(1),
        ..LiveLimits::default()
    };
    let server = TestServer::builder().live(live).start().await;
    let ids: Vec<_> = (0..COUNT).map(|number| format!("chain-{number}")).collect();
    let publish = |max_gas| {
        let chain = |id: &String| ChainConfig {
            max_gas: Some(max_gas),
            ..ChainConfig::new(&**id, ChainKind::CosmosSdk)
        };
        server.publisher.set_chains(ids.iter().map(chain).collect()).unwrap();
    };
    publish(0);
    let mut streams = Vec::new();
    for id in &ids {
        let mut client = server.connect().await;
        let mut events = Events::open(&mut client, &format!("/chain/{id}"), &[]).await;
        events.next().await.unwrap();
        streams.push((client, events));
    }
    let start = Instant::now();
    // The budget has two runs at once, and one each half second after that; no response waits for
    // more than the others.
    publish(1);
    for (_, events) in &mut streams {
        assert_eq!(events.next().await.unwrap().name, "change");
    }
    assert_eq!(server.live.status().runs, COUNT as u64);
    assert!(start.elapsed() >= Duration::from_millis(1_900), "{:?}", start.elapsed());
}

/// The budget is also the limit of clients that look for responses of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_for_responses_of_their_own_are_within_the_budget() {
    const COUNT: usize = 6;
    let live = LiveLimits { runs_per_second: 2, ..LiveLimits::default() };
    let server = TestServer::builder().component(&same()).live(live).start().await;
    let mut streams = streams_of_same(&server, 0..COUNT).await;
    assert!(server.swap(component::that_returns_its_query()).await.is_accepted());
    let start = Instant::now();
    for (number, (_, events)) in streams.iter_mut().enumerate() {
        assert_eq!(events.next().await.unwrap().data, number.to_string());
    }
    assert!(start.elapsed() >= Duration::from_millis(1_400), "{:?}", start.elapsed());
}

/// Clients that wait for a run of their own would not get one before the server ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_waits_for_the_budget() {
    const COUNT: usize = 40;
    let live = LiveLimits { runs_per_second: 1, ..LiveLimits::default() };
    let server = TestServer::builder().component(&same()).live(live).grace(Duration::from_secs(24));
    let server = server.start().await;
    let mut streams = streams_of_same(&server, 0..COUNT).await;
    assert!(server.swap(component::that_returns_its_query()).await.is_accepted());
    until("clients look for responses of their own", || server.live.status().runs > 0).await;
    let stopped = server.stop();
    for (_, events) in &mut streams {
        while events.next().await.is_some() {}
        assert!(events.retry.is_some(), "a client was not told to connect again");
    }
    drop(streams);
    within("the end of the server", stopped).await.unwrap();
}

/// Memory that is free again is used without another change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_without_memory_is_sent_when_there_is_some() {
    let live = LiveLimits { memory: ByteSize::kib(64), ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    events.next().await.unwrap();
    // Requests with large headers take nearly all memory.
    let large = "a".repeat(8 << 10);
    let mut others = Vec::new();
    loop {
        let mut client = server.connect().await;
        let headers = [("accept", "text/event-stream"), ("x-large", &*large)];
        let response = client.begin("GET", "/version", &headers).await.unwrap();
        if response.status() == 503 {
            break;
        }
        others.push((client, response));
    }
    assert!((1..=8).contains(&others.len()), "{}", others.len());
    // At once: fewer workers would fit.
    server.publisher.update_state(|state| {
        let object = Object::Wallet { chain_id: "ibc-0".into() };
        let worker = |id| Worker { id, object: object.clone(), data: None };
        state.workers.extend((10_000..10_060).map(worker));
    });
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, &failed.json()["status"]), ("failed", &json!(503)), "{failed:?}");
    drop(others);
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, &*event.data), ("change", server.get("/state").await.text()));
}

/// A wait that is over does not last until the end of the shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_makes_no_wait_longer() {
    let server = TestServer::builder().grace(Duration::from_hours(1)).start().await;
    let mut client = server.connect().await;
    let etag = client.get("/state").await.header("etag").to_owned();
    let polling = tokio::spawn(async move {
        let headers = [("if-none-match", &*etag), ("prefer", "wait=2")];
        client.request_with("GET", "/state", &headers).await
    });
    waiters(&server, 1).await;
    let stopped = server.stop();
    assert_eq!(within("the end of the wait", polling).await.unwrap().status, 304);
    within("the end of the server", stopped).await.unwrap();
}

/// Applies a patch of an event to a document.
pub(crate) fn apply(document: &mut Value, patch: Value) {
    if patch.is_array() {
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        json_patch::patch(document, &patch).unwrap();
    } else {
        json_patch::merge(document, &patch);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_patches_if_the_client_prefers_them() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let mut client = server.connect().await;
    let mut other = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[("prefer", "patch")]).await;
    let mut whole = Events::open(&mut other, "/state", &[]).await;
    let mut document = events.next().await.unwrap().json();
    assert_eq!(whole.next().await.unwrap().json(), document);
    for id in [10_300, 9_999, 10_150] {
        server.publisher.update_state(|state| {
            if state.workers.iter().any(|worker| worker.id == id) {
                state.workers.retain(|worker| worker.id != id);
            } else {
                let object = Object::Wallet { chain_id: "ibc-0".into() };
                state.workers.push(Worker { id, object, data: None });
            }
        });
        let event = events.next().await.unwrap();
        let body = server.get("/state").await;
        assert_eq!((&*event.name, event.id.as_deref()), ("patch", Some(body.header("etag"))));
        assert!(event.data.len() < body.body.len() / 20, "{}", event.data);
        apply(&mut document, event.json());
        assert_eq!(document, serde_json::from_slice::<Value>(&body.body).unwrap());
        assert_eq!(whole.next().await.unwrap().json(), document);
    }
    // A patch that is not much shorter than the body is not sent.
    server.publisher.update_state(|state| state.workers.clear());
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, event.json()), ("change", whole.next().await.unwrap().json()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_wakes_clients_only_if_their_response_differs() {
    let server = TestServer::start().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_and_a_response_with_the_same_tag_are_two_versions() {
    let module = |status, body: &[u8]| {
        let headers: &[(&str, &[u8])] = &[("content-type", b"text/plain"), ("etag", b"\"1\"")];
        component::of_response(status, headers, body)
    };
    let server = TestServer::builder().component(&module(500, b"no")).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "failed");
    assert!(server.swap(module(200, b"yes")).await.is_accepted());
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, event.id.as_deref(), &*event.data), ("change", Some("\"1\""), "yes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_are_between_texts_only() {
    let module = |content_type: &[u8], number| {
        let body = format!("{{\"number\":{number},\"rest\":\"{}\"}}", "a".repeat(1_000));
        component::of_response(200, &[("content-type", content_type)], body.as_bytes())
    };
    let json = b"application/json";
    let server = TestServer::builder().component(&module(json, 1)).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[("prefer", "patch")]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let binary = b"application/octet-stream";
    for (module, name) in [
        (module(json, 2), "patch"),
        (module(binary, 3), "failed"),
        (module(json, 4), "change"),
        (module(json, 5), "patch"),
    ] {
        assert!(server.swap(module).await.is_accepted());
        assert_eq!(events.next().await.unwrap().name, name);
    }
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
async fn waits_end_at_shutdown_within_the_grace_period() {
    let grace = Duration::from_secs(8);
    let server = TestServer::builder().grace(grace).start().await;
    let polling = wait_for_change(server.connect().await, "/state").await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    waiters(&server, 2).await;
    let stopped = server.stop();
    assert_eq!(within("the last event", events.next()).await, None);
    assert!(events.retry.is_some_and(|time| (500..=3_000).contains(&time)), "{:?}", events.retry);
    assert_eq!(within("the end of the wait", polling).await.unwrap().status, 304);
    within("the end of the server", stopped).await.unwrap();
}

/// A client may send another request on its connection while the server shuts down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_wait_during_the_shutdown_has_its_end_at_once() {
    let hour = Duration::from_hours(1);
    let server = TestServer::builder().grace(hour).drain(hour).start().await;
    let mut clients = Vec::new();
    let mut etag = String::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        client.get("/state").await.header("etag").clone_into(&mut etag);
        clients.push(client);
    }
    let mut client = server.connect().await;
    let mut before = Events::open(&mut client, "/state", &[]).await;
    before.next().await.unwrap();
    let live = server.live.clone();
    let stopped = server.stop();
    until("the waits are ended", || live.status().wakeups == 1).await;
    let mut polling = clients.pop().unwrap();
    let headers = [("if-none-match", &*etag), WAIT];
    let response = within("the response", polling.request_with("GET", "/state", &headers)).await;
    assert_eq!(
        (response.status.as_u16(), response.header("preference-applied")),
        (304, "wait=300")
    );
    for headers in [&[][..], &[("accept-encoding", "gzip")], &[("last-event-id", &*etag)]] {
        let mut client = clients.pop().unwrap();
        let mut events = Events::open(&mut client, "/state", headers).await;
        assert_eq!(events.next().await, None);
        assert!(events.retry.is_some_and(|time| (500..=3_000).contains(&time)), "{headers:?}");
    }
    drop((before, client));
    within("the end of the server", stopped).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_refuses_the_client_that_exceeds_it() {
    let limits = LiveLimits::default;
    for (name, live) in [
        ("waiters", LiveLimits { waiters: 1, ..limits() }),
        ("waiters-per-peer", LiveLimits { waiters_per_peer: 1, ..limits() }),
        ("waiters-per-mount", LiveLimits { waiters_per_mount: 1, ..limits() }),
        ("entries", LiveLimits { entries: 1, ..limits() }),
        // Room for one response with its encodings.
        ("memory", LiveLimits { memory: ByteSize::kb(5), ..limits() }),
    ] {
        let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
        let tool = component::of_response(200, text, b"a");
        let tool = extension("/ext/tool", &engine(&patient()), &tool);
        let server = TestServer::builder().live(live).extension(tool).start().await;
        let mut client = server.connect().await;
        let mut events = Events::open(&mut client, "/version", &[]).await;
        assert_eq!(events.next().await.unwrap().name, "change", "{name}");
        let mut other = server.connect().await;
        let accept = [("accept", "text/event-stream")];
        let refused = other.request_with("GET", "/state", &accept).await;
        let msg = "too many requests are being handled; try again";
        refused.check_error(503, "Overloaded", msg);
        assert!(refused.headers.contains_key("retry-after"), "{name}");
        assert_eq!(server.live.status().refused, 1, "{name}");
        let etag = other.get("/state").await.header("etag").to_owned();
        let wait = [("if-none-match", &*etag), WAIT];
        let refused = other.request_with("GET", "/state", &wait).await;
        refused.check_error(503, "Overloaded", msg);
        // The limits of a client or of a mount do not limit others.
        let status = async |mut client: Client, path| {
            client.begin("GET", path, &accept).await.unwrap().status().as_u16()
        };
        let elsewhere = Client::http1_from([127, 0, 0, 2], server.address).await;
        let of_peer = if name == "waiters-per-peer" { 200 } else { 503 };
        assert_eq!(status(elsewhere, "/state").await, of_peer, "{name}");
        let of_mount = if name == "waiters-per-mount" { 200 } else { 503 };
        assert_eq!(status(server.connect().await, "/ext/tool/").await, of_mount, "{name}");
        // There is room again.
        drop((client, events));
        waiters(&server, 0).await;
        Events::open(&mut other, "/version", &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_publications_is_one_change() {
    let min_interval = Duration::from_millis(300);
    let live = LiveLimits { min_interval, ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    let start = Instant::now();
    (0..1_000).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let last = server.get("/state").await;
    let mut count = 0_u128;
    while events.next().await.unwrap().data != last.text() {
        count += 1;
    }
    let most = start.elapsed().as_millis() / min_interval.as_millis() + 2;
    assert!(count <= most, "{count} events");
    assert!(u128::from(server.live.status().runs) <= most, "{:?}", server.live.status());
}

/// A client that does not read is sent the newest state when it does, and none between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_skips_states() {
    const COUNT: u64 = 200;
    let live = LiveLimits { min_interval: Duration::from_millis(1), ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    (0..5_000).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let mut slow = server.connect().await;
    let mut slow = Events::open(&mut slow, "/state", &[]).await;
    let mut fast = server.connect().await;
    let mut fast = Events::open(&mut fast, "/state", &[]).await;
    for id in 0..COUNT {
        let before = fast.next().await.unwrap();
        add_worker(&server.publisher, 1_000 + id);
        assert_ne!(before.data, "");
    }
    let last = server.get("/state").await;
    while fast.next().await.unwrap().data != last.text() {}
    // It holds one event, and the other client has taken its last one, or is about to.
    let event = last.body.len() as u64 + 1_024;
    let status = server.connections.status();
    assert!((1..=2 * event).contains(&status.unsent), "{} of {event}", status.unsent);
    let mut count = 1;
    while slow.next().await.unwrap().data != last.text() {
        count += 1;
    }
    // The system has buffered this many.
    assert!(count < COUNT / 2, "{count} of {COUNT}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_waiting_clients_are_evicted_last() {
    let http = HttpLimits { connections: 2, ..HttpLimits::default() };
    let server = TestServer::builder().http(http).start().await;
    let mut waiting = server.connect().await;
    let mut events = Events::open(&mut waiting, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let mut idle = server.connect().await;
    idle.get("/version").await;
    // A connection is idle when its client has taken the response.
    let is_taken = || server.connections.status().unsent == 0;
    until("the responses are taken", is_taken).await;
    let mut new = server.connect().await;
    assert_eq!(new.get("/version").await.status, 200);
    idle.closed().await;
    add_worker(&server.publisher, 1_000);
    assert_eq!(events.next().await.unwrap().name, "change");
    // Nothing else is left to evict.
    let mut other = Events::open(&mut new, "/chains", &[]).await;
    assert_eq!(other.next().await.unwrap().name, "change");
    until("the events are taken", is_taken).await;
    assert_eq!(server.get("/version").await.status, 200);
    until("one stream is closed", || server.live.status().waiters == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_long_polls_are_evicted_last() {
    let http = HttpLimits { connections: 2, ..HttpLimits::default() };
    let server = TestServer::builder().http(http).start().await;
    let polling = wait_for_change(server.connect().await, "/state").await;
    waiters(&server, 1).await;
    let mut idle = server.connect().await;
    idle.get("/version").await;
    until("the response is taken", || server.connections.status().unsent == 0).await;
    let mut new = server.connect().await;
    assert_eq!(new.get("/version").await.status, 200);
    idle.closed().await;
    add_worker(&server.publisher, 1_000);
    assert_eq!(within("the change", polling).await.unwrap().status, 200);
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
    let status = server.live.status();
    assert_eq!((status.entries, status.bytes), (0, 0), "{:?}", json!(status));
}
