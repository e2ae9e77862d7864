//! Are other clients safe from those that do not read their responses?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::HttpLimits;
use relayer_rest_host::module::Limits;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::server::{TestServer, patient};
use relayer_rest_tests::wait::{until, until_async, within};
use relayer_rest_tests::{component, http2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{limits, raw, request, server};

/// The server stops reading from a client that sends requests and reads no responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_no_responses_are_not_read_from() {
    let server = server(limits()).await;
    let address = server.address;
    // HEAD responses have no bodies, so that only heads accumulate.
    let requests = "HEAD /version HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut written = 0;
    let write = async {
        while stream.write_all(requests.as_bytes()).await.is_ok() {
            written += requests.len();
            // Much more than the system buffers in both directions.
            assert!(written < 64 << 20, "the server reads on");
        }
    };
    within("the stalled connection is closed", write).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_late_get_all_responses() {
    // The responses exceed the system's buffers in both directions.
    const COUNT: usize = 10_000;
    let large = component::with_response(200, "x-large", &[b'a'; 2 << 10]);
    let of_module = Limits { response_cache: ByteSize::b(0), ..patient() };
    let http = memory_only(HttpLimits::default().unsent);
    let server = TestServer::builder().component(&large).limits(&of_module).http(http);
    let server = server.start().await;
    let (mut reading, mut writing) = TcpStream::connect(server.address).await.unwrap().into_split();
    let pending = tokio::spawn(async move {
        let requests = request("/", "").repeat(COUNT - 1) + &request("/", "connection: close\r\n");
        writing.write_all(requests.as_bytes()).await.unwrap();
        writing
    });
    // The client reads nothing until the server has stopped.
    let mount = server.registry.at("/").unwrap();
    let mut last = 0;
    let mut unchanged = 0;
    let is_stopped = || {
        let runs = mount.status().module().unwrap().runs;
        unchanged = if runs == last { unchanged + 1 } else { 0 };
        last = runs;
        runs > 0 && unchanged == 100
    };
    until("the server stops handling requests", is_stopped).await;
    assert!(last < COUNT as u64, "the responses fit into the system's buffers");
    let mut responses = Vec::new();
    within("all responses", reading.read_to_end(&mut responses)).await.unwrap();
    let responses = String::from_utf8(responses).unwrap();
    assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), COUNT);
    drop(pending.await.unwrap());
}

/// Returns limits under which only a lack of memory closes a connection.
fn memory_only(unsent: ByteSize) -> HttpLimits {
    HttpLimits {
        unsent,
        stalled: Duration::from_hours(1),
        idle: Duration::from_hours(1),
        ..HttpLimits::default()
    }
}

/// Starts a server with a distinct body of this size for each path.
async fn server_of_bodies(size: usize, limits: HttpLimits) -> TestServer {
    let body = component::of_response(200, &[], &vec![b'a'; size]);
    // Modules turn no request away, which is not tested here.
    let wait = Duration::from_hours(1);
    let of_module = Limits { queue: 100_000, queue_wait: wait, ..patient() };
    TestServer::builder().component(&body).limits(&of_module).http(limits).start().await
}

/// Waits until no response is held any more.
async fn all_released(server: &TestServer) {
    until("all memory is released", || server.connections.status().unsent == 0).await;
}

/// Stalled clients cannot fill the memory with responses that they do not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_http1_clients_are_evicted_for_others() {
    let server = server_of_bodies(8 << 20, memory_only(ByteSize::mib(40))).await;
    let mut streams = Vec::new();
    let close = "connection: close\r\n";
    for number in 0..4 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request(&format!("/{number}"), close).as_bytes()).await.unwrap();
        let is_held = || server.connections.status().unsent >= (number + 1) * (8 << 20);
        until("the response waits for its client", is_held).await;
        streams.push(stream);
    }
    // The limit has room for four. Another response waits until one is evicted.
    let response = raw(server.address, request("/more", close).as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.len() > 8 << 20);
    assert_eq!(server.connections.status().evicted, 1);
    let mut whole = 0;
    for stream in &mut streams {
        let mut response = Vec::new();
        within("the end of the connection", stream.read_to_end(&mut response)).await.ok();
        whole += u32::from(response.len() > 8 << 20);
    }
    assert_eq!(whole, 3);
    all_released(&server).await;
}

/// HTTP/2 clients request distinct bodies and read none of them: the account never
/// exceeds its limit, and an honest client always gets its responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_http2_windows_hold_no_more_than_the_limit() {
    let limit = ByteSize::mib(8);
    let server = server_of_bodies(256 << 10, memory_only(limit)).await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let connections = server.connections.clone();
    let sampling = std::thread::spawn(move || {
        let mut most = 0;
        while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            most = most.max(connections.status().unsent);
            std::thread::yield_now();
        }
        most
    });
    let mut honest = server.connect().await;
    assert_eq!(honest.get("/honest").await.status, 200);
    let mut hostile = Vec::new();
    let mut count = 0;
    let until_evicted = async {
        while server.connections.status().evicted == 0 || count < 50 {
            if hostile.len() < 60 {
                let paths = (0..10).map(|path| format!("/{}/{path}", hostile.len()));
                hostile.push(http2::stalled(server.address, paths).await);
            }
            let response = honest.get(&format!("/honest/{count}")).await;
            assert_eq!(
                (response.status.as_u16(), response.body.len()),
                (200, 256 << 10),
                "{count}"
            );
            count += 1;
        }
    };
    within("stalled connections are evicted", until_evicted).await;
    stop.send(()).unwrap();
    let most = sampling.join().unwrap();
    assert!(most <= limit.as_u64(), "{most} bytes wait for clients");
    assert!(most > limit.as_u64() / 2, "only {most} bytes waited for clients");
    drop(hostile);
    all_released(&server).await;
}

/// HTTP/2 clients repeatedly read a small part of their responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_little_are_evicted_for_others() {
    let server = server_of_bodies(256 << 10, memory_only(ByteSize::mib(8))).await;
    let mut honest = server.connect().await;
    assert_eq!(honest.get("/honest").await.status, 200);
    let mut hostile = JoinSet::new();
    for number in 0..4 {
        let paths = (0..10).map(|path| format!("/{number}/{path}"));
        let mut stream = http2::stalled(server.address, paths).await;
        hostile.spawn(async move {
            let more = 2048_u32.to_be_bytes();
            let more = [0, 1].map(|stream| http2::frame(http2::WINDOW_UPDATE, 0, stream, &more));
            let more = more.concat();
            // A part of the memory is kept for clients that have taken something before.
            // The first requests may all come before, so that others have to fill it.
            let mut requests = (10..60).map(|next| {
                let headers = http2::request("GET", &format!("/{number}/{next}"));
                http2::frame(http2::HEADERS, http2::WHOLE, 2 * next + 1, &headers)
            });
            let mut next = move || [more.clone(), requests.next().unwrap_or_default()].concat();
            while stream.write_all(&next()).await.is_ok() {
                sleep(Duration::from_millis(200)).await;
                stream.try_read(&mut [0; 16 << 10]).ok();
            }
        });
    }
    let until_evicted = async {
        let mut number = 0;
        while server.connections.status().evicted == 0 {
            number += 1;
            honest.get(&format!("/honest/{number}")).await;
        }
    };
    within("connections that read little are evicted", until_evicted).await;
    assert_eq!(honest.get("/honest").await.status, 200);
}

/// Connections of one address that read their responses in time, and hold more than all
/// others together, are evicted for another address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_holds_most_is_evicted_for_others() {
    const BODY: u32 = 256 << 10;
    let server = server_of_bodies(BODY as usize, memory_only(ByteSize::mib(8))).await;
    let mut greedy = JoinSet::new();
    for number in 0..4 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        greedy.spawn(async move {
            // The streams have room for their bodies, and the connection for one of them
            // at a time.
            let window = [&[0, 4][..], &BODY.to_be_bytes()].concat();
            let mut bytes =
                [http2::PREFACE, &http2::frame(http2::SETTINGS, 0, 0, &window)].concat();
            let more = http2::frame(http2::WINDOW_UPDATE, 0, 0, &BODY.to_be_bytes());
            for next in 0_u32.. {
                let headers = http2::request("GET", &format!("/{number}/{next}"));
                bytes.extend(http2::frame(http2::HEADERS, http2::WHOLE, 2 * next + 1, &headers));
                if next < 12 {
                    continue;
                }
                bytes.extend(&more);
                if stream.write_all(&bytes).await.is_err() {
                    break;
                }
                bytes.clear();
                sleep(Duration::from_millis(100)).await;
                while stream.try_read(&mut [0; 16 << 10]).is_ok_and(|read| read > 0) {}
            }
        });
    }
    until("the memory is full", || server.connections.status().unsent >= 7 << 20).await;
    let mut honest = server.connect().await;
    for number in 0..20 {
        assert_eq!(honest.get(&format!("/honest/{number}")).await.status, 200, "{number}");
    }
    assert!(server.connections.status().evicted > 0);
}

/// The headers of a request take memory only while it is handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_requests_hold_little_memory() {
    const COUNT: u32 = 50;
    let server = server(memory_only(ByteSize::gib(1))).await;
    // The first request adds a header to the dynamic table, which takes one byte from
    // then on.
    let mut headers = [http2::request("GET", "/version"), vec![0x40, 1, b'a', 0]].concat();
    let mut bytes = [http2::PREFACE, &http2::closed_window()].concat();
    for number in 0..COUNT {
        bytes.extend(http2::frame(http2::HEADERS, http2::WHOLE, 2 * number + 1, &headers));
        headers = [http2::request("GET", "/version"), vec![0xbe; 3_000]].concat();
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    // All responses have a body, and wait for the client.
    let expected = u64::from(COUNT) << 10..u64::from(COUNT) << 14;
    let is_released = || expected.contains(&server.connections.status().unsent);
    until("the headers are released", is_released).await;
}

/// Clients read their responses, with many requests at a time on each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_http2_connections_stay_open() {
    let server = server(HttpLimits::default()).await;
    let mut pending = Vec::new();
    for _ in 0..4 {
        let client = Client::http2(server.address).await;
        for stream in 0..25 {
            let mut client = client.on_same_connection();
            pending.push(tokio::spawn(async move {
                let path = if stream % 5 == 0 { "/state" } else { "/version" };
                for _ in 0..200 {
                    assert_eq!(client.get(path).await.status, 200);
                }
            }));
        }
    }
    for pending in pending {
        pending.await.unwrap();
    }
    all_released(&server).await;
    let status = server.connections.status();
    assert_eq!((status.accepted, status.refused, status.evicted), (4, 0, 0));
}

/// The bodies exceed the system's buffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_http1_connections_stay_open() {
    let server = server_of_bodies(512 << 10, HttpLimits::default()).await;
    let mut pending = Vec::new();
    for number in 0..8 {
        let mut client = server.connect().await;
        pending.push(tokio::spawn(async move {
            for request in 0..50 {
                let path = format!("/{}", (number + request) % 4);
                let response = client.get(&path).await;
                assert_eq!((response.status.as_u16(), response.body.len()), (200, 512 << 10));
            }
        }));
    }
    for pending in pending {
        pending.await.unwrap();
    }
    all_released(&server).await;
    let status = server.connections.status();
    assert_eq!((status.accepted, status.refused, status.evicted), (8, 0, 0));
}

/// All connections that may be open are stalled: a new one is served nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_connections_are_evicted_for_new_ones() {
    for is_http2 in [true, false] {
        let limits = HttpLimits { connections: 3, ..memory_only(ByteSize::gib(1)) };
        let server = server_of_bodies(8 << 20, limits).await;
        let mut stalled = Vec::new();
        for number in 0..3 {
            let path = format!("/{number}");
            stalled.push(if is_http2 {
                http2::stalled(server.address, [path].into_iter()).await
            } else {
                let mut stream = TcpStream::connect(server.address).await.unwrap();
                stream.write_all(request(&path, "").as_bytes()).await.unwrap();
                stream
            });
        }
        let is_full = || server.connections.status().unsent >= 3 * (8 << 20);
        until("all responses wait for their clients", is_full).await;
        // Retried, since the stalled clients may be about to read.
        let head = request("/more", "connection: close\r\n");
        let is_served =
            async || raw(server.address, head.as_bytes()).await.starts_with("HTTP/1.1 200 OK\r\n");
        until_async("a stalled connection is evicted", is_served).await;
        assert_eq!(server.connections.status().evicted, 1, "HTTP/2: {is_http2}");
        drop(stalled);
        all_released(&server).await;
    }
}

/// A response that an HTTP/2 client does not read is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_http2_responses_are_dropped() {
    let server = server(limits()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The initial window of streams is 0 bytes. The headers of the only request are from
    // the static table: GET, http and /.
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(settings);
    bytes.extend([0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84]);
    stream.write_all(&bytes).await.unwrap();
    let mut response = Vec::new();
    within("the end of the connection", stream.read_to_end(&mut response)).await.ok();
    // Frames were received, but no data of the response.
    assert!(!response.is_empty());
    assert!(!String::from_utf8_lossy(&response).contains("nothing is served"));
    // An idle connection is closed, too.
    let mut idle = Client::http2(server.address).await;
    assert_eq!(idle.get("/version").await.status, 200);
    idle.closed().await;
}
