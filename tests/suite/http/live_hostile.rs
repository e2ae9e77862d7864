//! Are other clients safe from hostile ones that wait for changes?
//!
//! `LIVE_KEYS=1000000` tries more keys.

use std::time::Duration;

use relayer_rest_host::state::{Object, StatePublisher, Worker};
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};

const ACCEPT: (&str, &str) = ("accept", "text/event-stream");

fn publish(publisher: &StatePublisher, id: u64, count: u64) {
    let worker = |id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
    publisher.update_state(|state| state.workers = (0..count).chain([id]).map(worker).collect());
}

/// Returns the next response that differs.
async fn change(client: &mut Client, path: &str) -> Response {
    let etag = client.get(path).await.header("etag").to_owned();
    client.request_with("GET", path, &[("if-none-match", &etag), ("prefer", "wait=86400")]).await
}

async fn nobody_waits(server: &TestServer) {
    until("nobody waits", || {
        let live = server.live.status();
        live.waiters == 0 && live.entries == 0 && live.bytes == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_many_keys_takes_no_more_than_the_limits() {
    const ENTRIES: u64 = 50;
    let keys = std::env::var("LIVE_KEYS").map_or(2_000, |keys| keys.parse().unwrap());
    // A million keys take longer than the default.
    let max_wait = Duration::from_hours(24);
    let live = LiveLimits { entries: 50, max_wait, ..LiveLimits::default() };
    let module = component::that_returns_its_query();
    let server = TestServer::builder().component(&module).live(live).start().await;
    let mut honest = server.connect().await;
    let followed = tokio::spawn(async move { change(&mut honest, "/?honest").await });
    until("the honest client waits", || server.live.status().waiters == 1).await;
    let mut client = Client::http2(server.address).await;
    let mut kept = JoinSet::new();
    for key in 2..=keys {
        let path = format!("/?{key}");
        if key <= ENTRIES {
            let mut client = server.connect().await;
            kept.spawn(async move { change(&mut client, &path).await.status });
            until("the client waits", || server.live.status().waiters == key).await;
        } else {
            assert_eq!(change(&mut client, &path).await.status, 503, "{key}");
        }
        let live = server.live.status();
        assert!(live.entries <= ENTRIES && live.bytes < ENTRIES * (4 << 10), "{live:?}");
    }
    assert_eq!(server.live.status().refused, keys - ENTRIES);
    // A client that waits already is not refused, and gets a response that differs.
    let other = component::of_response(200, &[("content-type", b"text/plain")], b"new");
    server.swap(other).await;
    assert_eq!(within("the change", followed).await.unwrap().text(), "new");
    while let Some(status) = within("the change", kept.join_next()).await {
        assert_eq!(status.unwrap(), 200);
    }
    nobody_waits(&server).await;
}

/// A first response is that of a request that does not wait: the budget limits the later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_keys_cause_a_run_each_and_take_nothing_of_the_budget() {
    const COUNT: u64 = 50;
    let live = LiveLimits { runs_per_second: 1, ..LiveLimits::default() };
    let server = TestServer::builder().component(&component::live(*b"steady", 0)).live(live);
    let server = server.start().await;
    let runs = || server.api().status().module().unwrap().runs;
    let mut honest = server.connect().await;
    let mut followed = Events::open(&mut honest, "/", &[]).await;
    followed.next().await.unwrap();
    let before = runs();
    for key in 0..COUNT {
        let mut client = server.connect().await;
        let mut events = Events::open(&mut client, &format!("/{key}"), &[]).await;
        assert!(events.next().await.is_some());
    }
    assert_eq!((runs() - before, server.live.status().runs), (COUNT, 0));
    until("the others are gone", || server.live.status().waiters == 1).await;
    publish(&server.publisher, 1_000, 1);
    assert!(followed.next().await.unwrap().data.contains("1000"));
    assert_eq!(server.live.status().runs, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_reconnect_in_a_loop_leave_nothing_behind() {
    const COUNT: usize = 500;
    let server = TestServer::start().await;
    let mut honest = server.connect().await;
    let mut followed = Events::open(&mut honest, "/state", &[]).await;
    followed.next().await.unwrap();
    let mut one = Client::http2(server.address).await;
    for turn in 0..COUNT {
        // Cancelled before, while and after the first event is sent.
        let begun = one.begin("GET", "/state", &[ACCEPT]);
        if turn % 3 == 0 {
            tokio::select! {
                biased;
                _ = begun => {}
                () = yield_now() => {}
            }
        } else {
            drop(begun.await);
        }
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = "GET /chains HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        if turn % 2 == 0 {
            assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
        }
    }
    publish(&server.publisher, 1_000, 1);
    assert_eq!(followed.next().await.unwrap().data, server.get("/state").await.text());
    drop((one, followed, honest));
    nobody_waits(&server).await;
    // The server does not run the module for clients that are gone.
    let before = server.live.status().runs;
    publish(&server.publisher, 1_001, 1);
    let mut other = server.connect().await;
    other.get("/state").await;
    assert_eq!(server.live.status().runs, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_is_closed_and_delays_nobody() {
    let http = HttpLimits { stalled: Duration::from_secs(1), ..HttpLimits::default() };
    let live = LiveLimits { min_interval: Duration::from_millis(1), ..LiveLimits::default() };
    let server = TestServer::builder().http(http).live(live).start().await;
    let mut honest = server.connect().await;
    let mut followed = Events::open(&mut honest, "/state", &[]).await;
    followed.next().await.unwrap();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let request = "GET /state HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n";
    silent.write_all(request.as_bytes()).await.unwrap();
    until("both wait", || server.live.status().waiters == 2).await;
    let mut id = 100_000;
    let change = async {
        // Until the buffers of the system are full, and the stalled connection is closed.
        while server.live.status().waiters == 2 {
            id += 1;
            publish(&server.publisher, id, 5_000);
            followed.next().await.unwrap();
        }
    };
    within("the client is closed", change).await;
    publish(&server.publisher, 1, 0);
    while followed.next().await.unwrap().data != server.get("/state").await.text() {}
}

/// A client that has closed its side for sending is gone: a proxy does so if its own is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_half_closes_does_not_wait() {
    let server = TestServer::start().await;
    let etag = server.get("/state").await.header("etag").to_owned();
    for header in [
        "accept: text/event-stream".to_owned(),
        format!("prefer: wait=300\r\nif-none-match: {etag}"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!("GET /state HTTP/1.1\r\nhost: x\r\n{header}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        until("the client waits", || server.live.status().waiters == 1).await;
        stream.shutdown().await.unwrap();
        nobody_waits(&server).await;
    }
}
