//! Are clients that wait within their limits, and do they end with the server?

use super::live::{WAIT, add_worker, same, streams_of_same, wait_for_change, waiters};
use bytesize::ByteSize;
use futures_util::FutureExt;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use relayer_rest_host::module::Limits;
use relayer_rest_host::state::{ChainConfig, ChainKind, Object, Worker};
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{TestServer, engine, extension, patient};
use relayer_rest_tests::wait::{until, within};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Streams do not count as idle or stalled either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_outlives_the_limit_of_idle_connections() {
    let second = Duration::from_secs(1);
    let http = HttpLimits { idle: second, stalled: second, ..HttpLimits::default() };
    let server = TestServer::builder().http(http).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    events.next().await.unwrap();
    let mut multiplexed = Client::http2(server.address).await;
    let mut others = Events::open(&mut multiplexed, "/state", &[]).await;
    others.next().await.unwrap();
    let mut idle = server.connect().await;
    idle.get("/version").await;
    idle.closed().await;
    let mut later = server.connect().await;
    later.get("/version").await;
    later.closed().await;
    add_worker(&server.publisher, 1_000);
    assert_eq!(events.next().await.unwrap().name, "change");
    assert_eq!(others.next().await.unwrap().name, "change");
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

/// The wait of a client that looks for a response of its own is not longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_the_budget_is_part_of_the_time_of_a_request() {
    const COUNT: usize = 20;
    let live = LiveLimits { runs_per_second: 1, ..LiveLimits::default() };
    let server = TestServer::builder().component(&same()).live(live).start().await;
    let mut polls = Vec::new();
    for query in 0..COUNT {
        let mut client = server.connect().await;
        let path = format!("/a?{query}");
        let etag = client.get(&path).await.header("etag").to_owned();
        let headers = [("if-none-match", etag), ("prefer", "wait=2".to_owned())];
        polls.push(tokio::spawn(async move {
            let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
            client.request_with("GET", &path, &headers).await.status.as_u16()
        }));
    }
    waiters(&server, COUNT as u64).await;
    assert!(server.swap(component::that_returns_its_query()).await.is_accepted());
    let mut statuses = Vec::new();
    for poll in polls {
        statuses.push(within("the end of the wait", poll).await.unwrap());
    }
    // The budget has a run for each after 20 seconds.
    assert!(statuses.contains(&304), "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 304].contains(status)), "{statuses:?}");
}

/// Requests of one entry need one each when the module begins to tell them apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_refused_if_there_is_no_room_for_a_response_of_its_own() {
    let live = LiveLimits { entries: 1, ..LiveLimits::default() };
    let server = TestServer::builder().component(&same()).live(live).start().await;
    let polls = [
        wait_for_change(server.connect().await, "/a?1").await,
        wait_for_change(server.connect().await, "/a?2").await,
    ];
    let mut streams = streams_of_same(&server, 3..=4).await;
    waiters(&server, 4).await;
    assert_eq!(server.live.status().entries, 1);
    assert!(server.swap(component::that_returns_its_query()).await.is_accepted());
    for (poll, query) in polls.into_iter().zip(["1", "2"]) {
        let response = within("the end of the wait", poll).await.unwrap();
        if response.status == 503 {
            response.check_error(
                503,
                "Overloaded",
                "too many requests are being handled; try again",
            );
            assert!(response.headers.contains_key("retry-after"));
        } else {
            assert_eq!((response.status.as_u16(), response.text()), (200, query));
        }
    }
    let mut refused = 0;
    for (number, (_, events)) in streams.iter_mut().enumerate() {
        if let Some(event) = events.next().await {
            assert_eq!(event.data, (3 + number).to_string());
        } else {
            assert!(events.retry.is_some());
            refused += 1;
        }
    }
    assert!(refused > 0 && server.live.status().refused >= refused, "{refused}");
}

/// Failures are not cached, and neither are responses whose reads do not fit into their record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_reconnect_cause_one_run_in_each_interval() {
    const COUNT: u32 = 5;
    let min_interval = Duration::from_millis(400);
    let live = LiveLimits { min_interval, ..LiveLimits::default() };
    for (module, status) in
        [(component::that_traps_at_a_header(1), 500), (component::that_reads_headers(80), 204)]
    {
        let server = TestServer::builder().component(&module).live(live.clone()).start().await;
        let runs = || server.api().status().module().unwrap().runs;
        for header in [("accept", "text/event-stream"), ("prefer", "wait=10")] {
            let headers = [header, ("x-mode", header.0), ("if-none-match", "\"other\"")];
            let (start, before) = (Instant::now(), runs());
            for number in 0..COUNT {
                // On the same state, it would get the response to the one before.
                add_worker(&server.publisher, u64::from(number));
                let mut client = server.connect().await;
                let response = client.begin("GET", "/a", &headers).await.unwrap();
                let is_stream = response.headers().get("content-type");
                let is_stream = is_stream.is_some_and(|kind| kind == "text/event-stream");
                assert!(is_stream || response.status() == status || response.status() == 406);
                drop((client, response));
            }
            // Of these, some may be of the evaluator, after a publication or a failure.
            let time = start.elapsed();
            let most = time.as_millis() / min_interval.as_millis() + 1;
            assert!(u128::from(runs() - before) <= most, "{} runs in {time:?}", runs() - before);
            assert!(time >= min_interval * (COUNT - 1), "{time:?}");
        }
        // Other clients are not delayed.
        let before = runs();
        let mut client = server.connect().await;
        for _ in 0..3 {
            let headers = [("x-mode", "accept")];
            assert_eq!(client.request_with("GET", "/a", &headers).await.status, status);
        }
        assert!(runs() >= before + 3);
    }
}

/// Their responses are not cached, and none is known when the first of them begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_at_once_cause_one_run() {
    // The next run would be after the test.
    let min_interval = Duration::from_hours(1);
    let live = LiveLimits { min_interval, ..LiveLimits::default() };
    let without_cache = Limits { response_cache: ByteSize::b(0), ..patient() };
    for module in [component::that_traps_at_a_header(1), same()] {
        let server = TestServer::builder().component(&module).limits(&without_cache);
        let server = server.live(live.clone()).start().await;
        let runs = || server.api().status().module().unwrap().runs;
        let before = runs();
        let clients = (0..16).map(async |_| {
            let mut client = server.connect().await;
            let headers = [("accept", "text/event-stream"), ("x-mode", "accept")];
            let response = client.begin("GET", "/a", &headers).await.unwrap();
            (client, response)
        });
        let clients = within("the responses", join_all(clients)).await;
        assert_eq!(runs(), before + 1);
        // Also if all clients have left, and the next one has an id of its own.
        drop(clients);
        waiters(&server, 0).await;
        let mut client = server.connect().await;
        let headers =
            [("accept", "text/event-stream"), ("x-mode", "accept"), ("last-event-id", "other")];
        client.begin("GET", "/a", &headers).await.unwrap();
        assert_eq!(runs(), before + 1);
    }
}

/// Their answers take more than a quarter of `memory`, and the next run is after the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_run_would_be_after_its_wait_is_refused() {
    let live = LiveLimits {
        min_interval: Duration::from_hours(1),
        memory: ByteSize::mib(1),
        ..LiveLimits::default()
    };
    let body = vec![b'a'; 400 << 10];
    let large = component::of_response(200, &[("content-type", b"text/plain")], &body);
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let server = TestServer::builder().component(&large).limits(&limits).live(live);
    let server = server.start().await;
    let runs = || server.api().status().module().unwrap().runs;
    let before = runs();
    let mut client = server.connect().await;
    let first = client.request_with("GET", "/a", &[WAIT]).await;
    assert_eq!((first.status.as_u16(), first.body.len()), (200, body.len()));
    let refused = client.request_with("GET", "/a", &[WAIT]).await;
    refused.check_error(503, "Overloaded", "too many requests are being handled; try again");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.header("vary"), "accept, prefer");
    assert_eq!(server.live.status().refused, 1);
    // Requests that do not wait are not delayed.
    for prefer in ["wait=0", "wait=0", "other"] {
        let response = client.request_with("GET", "/a", &[("prefer", prefer)]).await;
        assert_eq!(response.status, 200, "{prefer}");
    }
    assert_eq!(runs(), before + 4);
}

/// There is no memory for their answers, so that each of them needs a run of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_refused_after_too_many_runs_for_others() {
    const COUNT: usize = 24;
    let live = LiveLimits {
        min_interval: Duration::from_millis(1),
        memory: ByteSize::b(0),
        ..LiveLimits::default()
    };
    // A run takes long enough for the requests to come during the first ones.
    let slow = component::of_handler(
        "(local $count i32)
         (loop $again
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $count) (i32.const 50000000))))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0",
    );
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let server = TestServer::builder().component(&slow).limits(&limits).live(live);
    let server = server.start().await;
    let runs = || server.api().status().module().unwrap().runs;
    let before = runs();
    let client = Client::http2(server.address).await;
    let requests = (0..COUNT).map(|_| {
        let mut client = client.on_same_connection();
        async move { client.request_with("GET", "/a", &[WAIT]).await }
    });
    let responses = within("the responses", join_all(requests)).await;
    let (refused, answered): (Vec<_>, Vec<_>) =
        responses.iter().partition(|response| response.status == 503);
    assert!(answered.iter().all(|response| response.status == 204));
    assert_eq!(runs(), before + answered.len() as u64);
    assert!(answered.len() >= 8, "{}", answered.len());
    assert!(!refused.is_empty());
    for response in &refused {
        response.check_error(503, "Overloaded", "too many requests are being handled; try again");
    }
    assert_eq!(server.live.status().refused, refused.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_a_run_is_part_of_the_wait_for_a_change() {
    // More than half of the shorter wait.
    let live = LiveLimits { min_interval: Duration::from_millis(2_500), ..LiveLimits::default() };
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let server = TestServer::builder().component(&same()).limits(&limits).live(live);
    let server = server.start().await;
    let mut client = server.connect().await;
    let etag = client.get("/").await.header("etag").to_owned();
    let poll = async |path: &str, wait: &str| {
        let mut client = server.connect().await;
        let headers = [("if-none-match", &*etag), ("prefer", wait)];
        let response = client.request_with("GET", path, &headers).await;
        assert_eq!((response.status.as_u16(), response.header("preference-applied")), (304, wait));
    };
    let mut before = Box::pin(poll("/a", "wait=3"));
    tokio::select! {
        () = &mut before => panic!("it has no time to wait"),
        () = waiters(&server, 1) => {}
    }
    // On the same state, an equal request would get the response to the one before.
    add_worker(&server.publisher, 1_000);
    // The second one waits for no run, and ends within 5 s. If the wait began after the run, the first one
    // would end after 5.3 s at least.
    tokio::select! {
        biased;
        () = poll("/a", "wait=3") => {}
        () = poll("/other", "wait=5") => panic!("the first wait is longer"),
    }
}

/// Returns a request that waits for a later run than that of the failure before.
async fn paced(server: &TestServer) -> JoinHandle<Response> {
    let mut client = Client::http2(server.address).await;
    let headers = [("prefer", "wait=172800"), ("x-mode", "a")];
    assert_eq!(client.request_with("GET", "/a", &headers).await.status, 500);
    // On the same state, it would get the response to the one before.
    add_worker(&server.publisher, 1_000);
    let mut other = client.on_same_connection();
    let mut paced = Box::pin(async move { client.request_with("GET", "/a", &headers).await });
    assert!((&mut paced).now_or_never().is_none());
    // Once this response arrives, the server has received the request before it.
    assert_eq!(other.get("/").await.status, 204);
    tokio::spawn(paced)
}

/// It would wait for a day otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_a_later_run_gets_a_response_of_a_new_module_or_at_the_shutdown() {
    let day = Duration::from_hours(24);
    let live = LiveLimits { min_interval: day, max_wait: 2 * day, ..LiveLimits::default() };
    for is_swapped in [true, false] {
        let failing = component::that_traps_at_a_header(1);
        let server = TestServer::builder().component(&failing).live(live.clone()).start().await;
        let paced = paced(&server).await;
        let status = if is_swapped {
            assert!(server.swap(same()).await.is_accepted());
            200
        } else {
            drop(server.stop());
            500
        };
        assert_eq!(within("the response", paced).await.unwrap().status, status);
    }
}

/// The module returns the id, which is another one for each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_share_no_response_that_shows_an_id() {
    let live = LiveLimits { min_interval: Duration::from_hours(1), ..LiveLimits::default() };
    let module = component::that_returns("X-Request-Id");
    let server = TestServer::builder().component(&module).live(live).start().await;
    for interest in [WAIT, ("accept", "text/event-stream")] {
        let clients = (0..8).map(async |number| {
            let id = format!("{}-{number}", interest.0);
            let mut client = server.connect().await;
            let headers = [interest, ("x-request-id", &id)];
            let response = client.begin("GET", "/a", &headers).await.unwrap();
            if interest == WAIT {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body, id);
            } else {
                assert_eq!(Events::of(response).next().await.unwrap().data, id);
            }
        });
        within("the responses", join_all(clients)).await;
    }
}

/// The cache tells requests apart by each header that was read; the reads of a failure are not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_another_header_does_not_get_the_failure_of_an_equal_request() {
    let live = LiveLimits { min_interval: Duration::from_hours(1), ..LiveLimits::default() };
    let module = component::that_traps_at("range", 1);
    let server = TestServer::builder().component(&module).live(live).start().await;
    let status = async |more: &[(&str, &str)]| {
        let mut client = server.connect().await;
        let headers = [&[("accept", "text/event-stream")], more].concat();
        let response = within("the response", client.begin("GET", "/a", &headers)).await;
        response.unwrap().status().as_u16()
    };
    // A stream begins with the failure, and 204 is not text.
    assert_eq!(status(&[("range", "bytes=0-1")]).await, 200);
    assert_eq!(status(&[]).await, 406);
    assert_eq!(status(&[("range", "bytes=0-1"), ("x-request-id", "other")]).await, 200);
}

/// There is nothing to wait for, and so no limit to exceed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_of_no_time_is_not_limited() {
    let live = LiveLimits { waiters: 0, ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let mut client = server.connect().await;
    let etag = client.get("/state").await.header("etag").to_owned();
    for (wait, status) in [("wait=0", 304), ("wait=1", 503)] {
        let headers = [("if-none-match", &*etag), ("prefer", wait)];
        assert_eq!(client.request_with("GET", "/state", &headers).await.status, status);
    }
}

/// Each client of a proxy is a peer of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_a_peer_is_that_of_the_client_behind_a_trusted_proxy() {
    let files = Folder::new();
    let text = "[http]\ntrusted-proxies = ['127.0.0.0/8']\n[live]\nwaiters-per-peer = 1\n";
    let settings = files.write("relayer-rest.toml", text);
    let serving = Program::server().args(["--config", &settings]).start().await;
    let mut kept = Vec::new();
    for (peer, status) in
        [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 503), ("192.0.2.2", 503)]
    {
        let mut client = serving.connect().await;
        let headers = [("accept", "text/event-stream"), ("x-forwarded-for", peer)];
        let response = client.begin("GET", "/version", &headers).await.unwrap();
        assert_eq!(response.status(), status, "{peer}");
        kept.push((client, response));
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_end_at_shutdown_within_the_grace_period() {
    let grace = Duration::from_secs(8);
    let server = TestServer::builder().grace(grace).start().await;
    let mut waits = Vec::new();
    for [polling, mut streaming] in [
        [Client::http1(server.address).await, Client::http1(server.address).await],
        [Client::http2(server.address).await, Client::http2(server.address).await],
    ] {
        let polling = wait_for_change(polling, "/state").await;
        let mut events = Events::open(&mut streaming, "/state", &[]).await;
        assert_eq!(events.next().await.unwrap().name, "change");
        waits.push((polling, streaming, events));
    }
    waiters(&server, 4).await;
    let stopped = server.stop();
    for (polling, _, mut events) in waits {
        assert_eq!(within("the last event", events.next()).await, None);
        let retry = events.retry;
        assert!(retry.is_some_and(|time| (500..=3_000).contains(&time)), "{retry:?}");
        assert_eq!(within("the end of the wait", polling).await.unwrap().status, 304);
    }
    within("the end of the server", stopped).await.unwrap();
}

/// Clients that connect again all at once would overload the next server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_do_not_all_end_when_the_shutdown_begins() {
    let day = Duration::from_hours(24);
    let server = TestServer::builder().grace(day).drain(day).start().await;
    let polling = wait_for_change(server.connect().await, "/state").await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    waiters(&server, 2).await;
    let live = server.live.clone();
    let _stopped = server.stop();
    until("both know that they end", || live.status().wakeups == 2).await;
    // That one of them ends within this pause has a probability of 10⁻⁵.
    let pause = Duration::from_millis(300);
    assert!(timeout(pause, events.next()).await.is_err() && !polling.is_finished());
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
        assert_eq!(refused.header("vary"), "accept, prefer", "{name}");
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
