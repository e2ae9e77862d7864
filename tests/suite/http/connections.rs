//! Are connections bounded, and do clients that occupy them leave room for others?

use std::collections::VecDeque;
use std::time::Duration;

use relayer_rest_host::HttpLimits;
use relayer_rest_host::module::Limits;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, patient};
use relayer_rest_tests::wait::{until, until_async, within};
use relayer_rest_tests::watcher::Watcher;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{limits, raw, request, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_beyond_the_limit_are_evicted() {
    // The limit of open files may be a few hundred for this process, too.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let limits = HttpLimits {
        connections: 500,
        connections_per_peer: 400,
        // Connections are not closed for any other reason.
        idle: Duration::from_hours(1),
        stalled: Duration::from_hours(1),
        ..HttpLimits::default()
    };
    let server = server(limits).await;
    let watcher = Watcher::start(server.address);
    let mut idle = VecDeque::new();
    for number in 0..3_000 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /ver").await.ok();
        }
        idle.push_back(stream);
        if idle.len() > 1000 {
            idle.pop_front();
        }
        if number % 100 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    watcher.stop().await;
    // The oldest connection was evicted for the newest.
    let mut byte = [0];
    let oldest = idle.front_mut().unwrap();
    let closed = within("the oldest connection is closed", oldest.read(&mut byte)).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    // Some may be about to be accepted, and others about to be evicted for them.
    let is_bounded = async || {
        let mut open = 0;
        for stream in &mut idle {
            let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
            open += usize::from(read.is_err());
        }
        (100..=400).contains(&open)
    };
    until_async("at most 400 connections are open", is_bounded).await;
}

/// If all connections are busy, another one is refused at once, with or without a
/// request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_get_503() {
    let three = 3;
    let many = HttpLimits::default().connections;
    for (connections, connections_per_peer) in [(three, many), (many, three)] {
        let limits = HttpLimits { connections, connections_per_peer, ..HttpLimits::default() };
        is_full_with_three(limits).await;
    }
}

async fn is_full_with_three(limits: HttpLimits) {
    let spins = component::of_handler("(loop br 0) unreachable");
    let of_module = Limits { time: Duration::from_hours(1), ..patient() };
    let server = TestServer::builder().component(&spins).limits(&of_module).http(limits);
    let server = server.start().await;
    let mut busy = Vec::new();
    for number in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request(&format!("/{number}"), "").as_bytes()).await.unwrap();
        busy.push(stream);
    }
    let mount = server.registry.at("/").unwrap();
    until("three requests run", || mount.status().module().unwrap().runs == 3).await;
    for head in [String::new(), request("/version", "")] {
        let response = raw(server.address, head.as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{response}");
        assert!(
            response.contains("\r\nretry-after: 1\r\n") && response.contains("\"Overloaded\""),
            "{response}"
        );
        assert!(response.contains("\r\nx-request-id: "), "{response}");
    }
}

/// A connection whose client announces a body and withholds it, or sends it byte by byte,
/// is evicted for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_withhold_a_body_are_evicted() {
    let limits = HttpLimits {
        connections: 3,
        // Connections are not closed for any other reason.
        idle: Duration::from_hours(1),
        stalled: Duration::from_hours(1),
        ..HttpLimits::default()
    };
    for pause in [Duration::from_hours(1), Duration::from_millis(100)] {
        let server = server(limits.clone()).await;
        let mut waiting = JoinSet::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let head = "POST /version HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\nexpect: 100-continue\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            // The server sends 100 Continue: the request is being handled.
            stream.read_exact(&mut [0; 12]).await.unwrap();
            waiting.spawn(async move {
                while stream.write_all(b"a").await.is_ok() {
                    sleep(pause).await;
                }
            });
        }
        // Retried, since the bodies may still be on their way.
        let request = request("/version", "connection: close\r\n");
        let is_served = async || {
            raw(server.address, request.as_bytes()).await.starts_with("HTTP/1.1 200 OK\r\n")
        };
        until_async("a connection without its body is evicted", is_served).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_and_resets_affect_no_other_client() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address);
    let address = server.address;
    let flood = tokio::spawn(async move {
        // Thousands of requests whose responses are not read.
        let mut stream = TcpStream::connect(address).await.unwrap();
        let requests = request("/state", "").repeat(1000);
        // The client reads nothing for longer than it may: the connection is closed.
        while stream.write_all(requests.as_bytes()).await.is_ok() {}
    });
    for number in 0..500 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let path = format!("/chain/{number}");
        stream.write_all(request(&path, "").as_bytes()).await.unwrap();
        // With unread data, closing is a reset.
        if number % 2 == 0 {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
    }
    within("the flooding connection is closed", flood).await.unwrap();
    watcher.stop().await;
    let mount = server.registry.at("/").unwrap();
    assert_eq!(mount.status().module().unwrap().failures.module_failures(), 0);
}

/// A cancelled request does not keep its connection open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_http2_requests_do_not_keep_a_connection_open() {
    let limits = Limits { time: Duration::from_hours(1), ..patient() };
    let spins = component::that_spins_on_spin();
    let server = TestServer::builder().component(&spins).limits(&limits).http(self::limits());
    let server = server.start().await;
    let mut client = Client::http2(server.address).await;
    let mount = server.registry.at("/").unwrap();
    // The paths are as long as `/spin`, so the module never ends.
    let pending = [1, 2, 3].map(|number| {
        let mut client = client.on_same_connection();
        tokio::spawn(async move { client.get(&format!("/spi{number}")).await })
    });
    until("three requests run", || mount.status().module().unwrap().runs == 3).await;
    pending.each_ref().iter().for_each(|pending| pending.abort());
    client.closed().await;
}

/// The client sends PINGs all the time, and no requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_do_not_keep_a_connection_open() {
    let server = server(limits()).await;
    let mut client = Client::http2_with_pings(server.address, Duration::from_millis(300)).await;
    assert_eq!(client.get("/version").await.status, 200);
    client.closed().await;
}

/// A run that never ends delays it no longer than the grace period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_ends_within_its_grace_period() {
    let spins = component::of_handler("(loop br 0) unreachable");
    let limits = Limits { time: Duration::from_hours(1), ..patient() };
    let grace = Duration::from_millis(300);
    let server = TestServer::builder().component(&spins).limits(&limits).grace(grace);
    let server = server.start().await;
    let mut spinning = TcpStream::connect(server.address).await.unwrap();
    spinning.write_all(request("/", "").as_bytes()).await.unwrap();
    let mount = server.registry.at("/").unwrap();
    until("the request runs", || mount.status().module().unwrap().runs == 1).await;
    within("the server ends", server.stop()).await.unwrap();
    let mut byte = [0];
    assert!(!matches!(spinning.read(&mut byte).await, Ok(1..)));
}
