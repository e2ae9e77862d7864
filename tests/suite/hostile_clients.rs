//! Are other clients safe from a hostile one?

use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::HttpLimits;
use relayer_rest_host::control::ControlClient;
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::registry::{Mount, Registry};
use relayer_rest_host::state::sample;
use relayer_rest_tests::client::{Client, raw};
use relayer_rest_tests::command;
use relayer_rest_tests::component;
use relayer_rest_tests::http2;
use relayer_rest_tests::server::{TestServer, engine};
use relayer_rest_tests::watcher::Watcher;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The time that the tests wait for the server to close a connection, much longer than it
/// takes.
const SOON: Duration = Duration::from_secs(30);

fn limits() -> HttpLimits {
    HttpLimits {
        idle: Duration::from_secs(1),
        stalled: Duration::from_secs(2),
        ..HttpLimits::default()
    }
}

async fn server(limits: HttpLimits) -> TestServer {
    let api = Module::embedded(&engine(&Limits::default())).unwrap();
    let server = TestServer::with_limits(Registry::new(Mount::api(api)), limits).await;
    sample(&server.publisher);
    server
}

/// Sends bytes, and returns the server's output until it closes the connection.
async fn said(address: SocketAddr, bytes: &[u8]) -> String {
    timeout(SOON, raw(address, bytes)).await.unwrap()
}

fn request(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_too_slow_or_says_half_is_closed() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address).await;
    let half = [
        "",
        "G",
        "GET /version HTTP/1.1\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\na:",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let half =
        half.map(|bytes| tokio::spawn(async move { said(server.address, bytes.as_bytes()).await }));
    // Single bytes at intervals count as slow, too.
    let slow = tokio::spawn(async move {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        for byte in request("/version", "a: b\r\n").bytes() {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
        panic!("it may take as long as it likes");
    });
    for half in half {
        let answer = half.await.unwrap();
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    slow.await.unwrap();
    watcher.stop().await;
}

#[tokio::test]
async fn what_is_too_large_gets_its_status() {
    let server = server(HttpLimits {
        target: ByteSize::b(100),
        headers: 5,
        head: ByteSize::kib(8),
        body: ByteSize::b(10),
        ..limits()
    })
    .await;
    let watcher = Watcher::start(server.address).await;
    let long = format!("/{}", "a".repeat(100));
    let many = "a: b\r\n".repeat(5);
    let large = format!("a: {}\r\n", "b".repeat(9000));
    for (request, status, name) in [
        (request(&long, "connection: close\r\n"), "414 URI Too Long", "UriTooLong"),
        (request("/version", &many), "431 Request Header Fields Too Large", "HeadersTooLarge"),
        (request("/version", "content-length: 11\r\n"), "413 Payload Too Large", "PayloadTooLarge"),
        (
            request("/version", "transfer-encoding: chunked\r\n") + "b\r\nhello world\r\n0\r\n\r\n",
            "413 Payload Too Large",
            "PayloadTooLarge",
        ),
        (
            request("/version", "content-length: 9\r\n") + "hello",
            "408 Request Timeout",
            "RequestTimeout",
        ),
        (
            request("/version", "transfer-encoding: chunked\r\n") + "zz\r\n",
            "400 Bad Request",
            "BadRequest",
        ),
        ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), "400 Bad Request", "BadRequest"),
        (request("/", "host: y\r\nconnection: close\r\n"), "400 Bad Request", "BadRequest"),
    ] {
        let answer = said(server.address, request.as_bytes()).await;
        let head = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&head), "{request}: {answer}");
        assert!(answer.contains(&format!("\"name\":\"{name}\"")), "{answer}");
        assert!(answer.contains("x-request-id: ") && answer.contains("\r\ndate: "), "{answer}");
    }
    // Hyper responds to these itself, with a bare status.
    for (request, status) in [
        (request("/version", &large), "431 Request Header Fields Too Large"),
        (request(&format!("/{}", "a".repeat(70_000)), ""), "431 Request Header Fields Too Large"),
        ("what\r\n\r\n".to_owned(), "400 Bad Request"),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), "400 Bad Request"),
        (request("/version", "transfer-encoding: chunked, x\r\n"), "400 Bad Request"),
    ] {
        let answer = said(server.address, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(
            answer.contains("connection: close\r\n") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }
    // Requests at the limits are served.
    let most = format!("/{}", "a".repeat(99));
    let most = request(&most, "content-length: 10\r\nconnection: close\r\na: b\r\nc: d\r\n");
    let answer = said(server.address, (most + "0123456789").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    watcher.stop().await;
}

/// Bytes after a request that are not a request get a response of their own, after that
/// of the request.
#[tokio::test]
async fn what_follows_a_request_and_is_none_is_told_apart() {
    let server = server(limits()).await;
    let answer = said(server.address, (request("/chains", "") + "\0\r\n\r\n").as_bytes()).await;
    let (first, second) = answer.split_at(answer.rfind("HTTP/1.1 ").unwrap());
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.contains("ibc-1"), "{answer}");
    assert!(second.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
}

/// The response arrives even while the client still sends the head.
#[tokio::test]
async fn a_head_without_end_gets_its_answer() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address).await;
    for _ in 0..10 {
        let head = request("/version", &format!("a: {}", "b".repeat(1 << 20)));
        let answer = said(server.address, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
        // It also arrives after other requests of the connection.
        let answer = said(server.address, (request("/version", "") + &head).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        assert!(answer.contains("HTTP/1.1 431 "), "{answer:?}");
    }
    // A target that fits into the largest head, but not into hyper's limit of a target.
    let server = self::server(HttpLimits { head: ByteSize::mib(1), ..limits() }).await;
    let long = request(&format!("/{}", "a".repeat(70_000)), "");
    let answer = said(server.address, long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer:?}");
    watcher.stop().await;
}

#[tokio::test]
async fn a_head_of_http2_that_is_too_large_gets_its_answer() {
    let server = server(HttpLimits { head: ByteSize::kib(8), ..limits() }).await;
    let watcher = Watcher::start(server.address).await;
    let mut client = Client::http2(server.address).await;
    let value = "b".repeat(9 << 10);
    let answer = client.ask_with("GET", "/version", &[("a", &value)]).await;
    assert_eq!((answer.status.as_u16(), &*answer.error_name()), (431, "HeadersTooLarge"));
    assert_eq!(answer.header("x-request-id").len(), 24);
    let value = "b".repeat(7 << 10);
    assert_eq!(client.ask_with("GET", "/version", &[("a", &value)]).await.status, 200);
    watcher.stop().await;
}

/// The response arrives although the client still sends a body that is too large.
#[tokio::test]
async fn who_sends_too_much_gets_the_answer_all_the_same() {
    let server = server(HttpLimits::default()).await;
    let watcher = Watcher::start(server.address).await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let (mut reading, mut writing) = stream.split();
        let head = "POST /state HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n";
        let send = async {
            writing.write_all(head.as_bytes()).await.unwrap();
            let part = vec![b'x'; 64 << 10];
            while writing.write_all(&part).await.is_ok() {}
        };
        let receive = async {
            let mut answer = vec![0; 1024];
            let length = reading.read(&mut answer).await.unwrap();
            String::from_utf8_lossy(&answer[..length]).into_owned()
        };
        let answer = tokio::select! {
            () = send => panic!("the connection is closed before there is an answer"),
            answer = receive => answer,
        };
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    watcher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_are_no_more_than_there_may_be() {
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
    let watcher = Watcher::start(server.address).await;
    let mut idle = VecDeque::new();
    for number in 0..10_000 {
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
    let closed = timeout(SOON, idle.front_mut().unwrap().read(&mut byte)).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    // Some may be about to be accepted, and others about to be evicted for them.
    let counted = timeout(SOON, async {
        loop {
            let mut open = 0;
            for stream in &mut idle {
                let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
                open += usize::from(read.is_err());
            }
            if (100..=400).contains(&open) {
                break;
            }
        }
    });
    counted.await.expect("no more are open than there may be");
}

/// If all connections are busy, another one is refused at once, with or without a
/// request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_there_is_no_room_for_gets_503() {
    let (three, many) = (3, HttpLimits::default().connections);
    for (connections, connections_per_peer) in [(three, many), (many, three)] {
        let limits = HttpLimits { connections, connections_per_peer, ..HttpLimits::default() };
        is_full_with_three(limits).await;
    }
}

async fn is_full_with_three(limits: HttpLimits) {
    let module = Module::from_bytes(
        &engine(&Limits { time: Duration::from_mins(1), ..Limits::default() }),
        "spins",
        &component::of_handler("(loop br 0) unreachable"),
    );
    let server = TestServer::with_limits(Registry::new(Mount::api(module.unwrap())), limits).await;
    let mut busy = Vec::new();
    for number in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request(&format!("/{number}"), "").as_bytes()).await.unwrap();
        busy.push(stream);
    }
    let mount = server.registry.at("/").unwrap();
    while mount.status().module.runs < 3 {
        sleep(Duration::from_millis(1)).await;
    }
    for asked in [String::new(), request("/version", "")] {
        let answer = said(server.address, asked.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
        assert!(
            answer.contains("\r\nretry-after: 1\r\n") && answer.contains("\"Overloaded\""),
            "{answer}"
        );
        assert!(answer.contains("\r\nx-request-id: "), "{answer}");
    }
}

/// A connection whose client announces a body and withholds it, or sends it byte by byte,
/// is evicted for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_keeps_nobody_out() {
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
        let is_answered = async || {
            said(server.address, request.as_bytes()).await.starts_with("HTTP/1.1 200 OK\r\n")
        };
        let asked = timeout(SOON, async {
            while !is_answered().await {
                sleep(Duration::from_millis(10)).await;
            }
        });
        asked.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_and_resets_are_nobodys_business() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address).await;
    let address = server.address;
    let flood = tokio::spawn(async move {
        // Thousands of requests whose responses are not read.
        let mut stream = TcpStream::connect(address).await.unwrap();
        let requests = request("/state", "").repeat(1000);
        for _ in 0..20 {
            if timeout(Duration::from_secs(1), stream.write_all(requests.as_bytes())).await.is_err()
            {
                break;
            }
        }
        stream
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
    let mut stalled = flood.await.unwrap();
    sleep(Duration::from_secs(4)).await;
    // The client read nothing for longer than it may: the connection is closed.
    let end = timeout(SOON, async {
        let mut bytes = vec![0; 64 << 10];
        while matches!(stalled.read(&mut bytes).await, Ok(1..)) {}
    });
    end.await.unwrap();
    watcher.stop().await;
    let mount = server.registry.at("/").unwrap();
    assert_eq!(mount.status().module.failures.faults(), 0);
}

/// The server stops reading from a client that sends requests and reads no responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_no_answers_is_asked_for_no_more_questions() {
    let server = server(limits()).await;
    let address = server.address;
    // HEAD responses have no bodies, so that only heads accumulate.
    let requests = "HEAD /version HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut written = 0;
    let is_listened_to = loop {
        match timeout(Duration::from_secs(1), stream.write_all(requests.as_bytes())).await {
            Ok(Ok(())) => written += requests.len(),
            Ok(Err(_)) | Err(_) => break false,
        }
        // Much more than the system buffers in both directions.
        if written > 64 << 20 {
            break true;
        }
    };
    assert!(!is_listened_to, "{written} bytes of requests were read, and none of the answers");
    let end = timeout(SOON, async {
        let mut bytes = vec![0; 64 << 10];
        while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
    });
    end.await.unwrap();
    // A client that reads gets all responses.
    let count = 20_000;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let asking = tokio::spawn(async move {
        for _ in 0..count / 1000 {
            writing.write_all(requests.as_bytes()).await.unwrap();
        }
        writing
    });
    // It starts to read late.
    sleep(Duration::from_millis(500)).await;
    let (mut answers, mut bytes) = (String::new(), vec![0; 64 << 10]);
    let read = async {
        while answers.matches("HTTP/1.1 200 OK").count() < count {
            let some = reading.read(&mut bytes).await.unwrap();
            assert!(some > 0, "it is closed");
            answers.push_str(str::from_utf8(&bytes[..some]).unwrap());
        }
    };
    timeout(SOON, read).await.unwrap();
    drop(asking.await.unwrap());
}

/// Returns limits under which only a lack of memory closes a connection.
fn patient(unsent: ByteSize) -> HttpLimits {
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
    let of_module = Limits { queue: 100_000, queue_wait: wait, ..Limits::default() };
    let module = Module::from_bytes(&engine(&of_module), "large", &body).unwrap();
    TestServer::with_limits(Registry::new(Mount::api(module)), limits).await
}

/// Waits until no response is held any more.
async fn all_released(server: &TestServer) {
    let released = async {
        while server.connections.status().unsent > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, released).await.expect("all is released");
}

/// Stalled clients cannot fill the memory with responses that they do not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_clients_of_http1_make_room_for_others() {
    let server = server_of_bodies(8 << 20, patient(ByteSize::mib(40))).await;
    let mut streams = Vec::new();
    let close = "connection: close\r\n";
    for number in 0..4 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request(&format!("/{number}"), close).as_bytes()).await.unwrap();
        while server.connections.status().unsent < (number + 1) * (8 << 20) {
            sleep(Duration::from_millis(1)).await;
        }
        streams.push(stream);
    }
    // The limit has room for four. Another response waits until one is evicted.
    let answer = said(server.address, request("/more", close).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.len() > 8 << 20);
    assert_eq!(server.connections.status().evicted, 1);
    let mut whole = 0;
    for stream in &mut streams {
        let mut answer = Vec::new();
        timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap().ok();
        whole += u32::from(answer.len() > 8 << 20);
    }
    assert_eq!(whole, 3);
    all_released(&server).await;
}

/// HTTP/2 clients request distinct bodies and read none of them: the account never
/// exceeds its limit, and an honest client always gets its responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_windows_of_http2_hold_no_more_than_the_limit() {
    let limit = ByteSize::mib(8);
    let server = server_of_bodies(256 << 10, patient(limit)).await;
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
    let mut asked = 0;
    let until_evicted = async {
        while server.connections.status().evicted == 0 || asked < 50 {
            if hostile.len() < 60 {
                let paths = (0..10).map(|path| format!("/{}/{path}", hostile.len()));
                hostile.push(http2::stalled(server.address, paths).await);
            }
            let answer = honest.get(&format!("/honest/{asked}")).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 256 << 10), "{asked}");
            asked += 1;
        }
    };
    timeout(4 * SOON, until_evicted).await.expect("those that take nothing are closed");
    stop.send(()).unwrap();
    let most = sampling.join().unwrap();
    assert!(most <= limit.as_u64(), "{most} bytes wait for clients");
    assert!(most > limit.as_u64() / 2, "only {most} bytes waited for clients");
    drop(hostile);
    all_released(&server).await;
}

/// HTTP/2 clients repeatedly read a small part of their responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_a_little_does_not_keep_the_memory_of_others() {
    let server = server_of_bodies(256 << 10, patient(ByteSize::mib(8))).await;
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
            while stream.write_all(&more).await.is_ok() {
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
    timeout(SOON, until_evicted).await.expect("those that take little are closed");
    assert_eq!(honest.get("/honest").await.status, 200);
}

/// Connections of one address that read their responses in time, and hold more than all
/// others together, are evicted for another address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_holds_most_makes_room_for_others() {
    const BODY: u32 = 256 << 10;
    let server = server_of_bodies(BODY as usize, patient(ByteSize::mib(8))).await;
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
    let full = async {
        while server.connections.status().unsent < 7 << 20 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, full).await.expect("they fill the memory");
    let mut honest = server.connect().await;
    for number in 0..20 {
        assert_eq!(honest.get(&format!("/honest/{number}")).await.status, 200, "{number}");
    }
    assert!(server.connections.status().evicted > 0);
}

/// The headers of a request take memory only while it is handled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_refused_hold_little() {
    const COUNT: u32 = 50;
    let server = server(patient(ByteSize::gib(1))).await;
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
    let all_refused = async {
        // All responses have a body, and wait for the client.
        let (least, most) = (u64::from(COUNT) << 10, u64::from(COUNT) << 14);
        while !(least..most).contains(&server.connections.status().unsent) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_refused).await.expect("their headers are released");
}

/// Clients read their responses, with many requests at a time on each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_honest_connection_of_http2_is_closed() {
    let server = server(HttpLimits::default()).await;
    let mut asking = Vec::new();
    for _ in 0..4 {
        let Client::Http2(sender) = Client::http2(server.address).await else { unreachable!() };
        for stream in 0..25 {
            let mut client = Client::Http2(sender.clone());
            asking.push(tokio::spawn(async move {
                let path = if stream % 5 == 0 { "/state" } else { "/version" };
                for _ in 0..1_000 {
                    assert_eq!(client.get(path).await.status, 200);
                }
            }));
        }
    }
    for asking in asking {
        asking.await.unwrap();
    }
    all_released(&server).await;
    let status = server.connections.status();
    assert_eq!((status.accepted, status.refused, status.evicted), (4, 0, 0));
}

/// The bodies exceed the system's buffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_honest_connection_of_http1_is_closed() {
    let server = server_of_bodies(512 << 10, HttpLimits::default()).await;
    let mut asking = Vec::new();
    for number in 0..8 {
        let mut client = server.connect().await;
        asking.push(tokio::spawn(async move {
            for request in 0..200 {
                let path = format!("/{}", (number + request) % 4);
                let answer = client.get(&path).await;
                assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 512 << 10));
            }
        }));
    }
    for asking in asking {
        asking.await.unwrap();
    }
    all_released(&server).await;
    let status = server.connections.status();
    assert_eq!((status.accepted, status.refused, status.evicted), (8, 0, 0));
}

/// All connections that may be open are stalled: a new one is served nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_take_nothing_make_room_for_new_ones() {
    for is_http2 in [true, false] {
        let limits = HttpLimits { connections: 3, ..patient(ByteSize::gib(1)) };
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
        while server.connections.status().unsent < 3 * (8 << 20) {
            sleep(Duration::from_millis(1)).await;
        }
        // Retried, since the stalled clients may be about to read.
        let head = request("/more", "connection: close\r\n");
        let answered = async {
            while !said(server.address, head.as_bytes()).await.starts_with("HTTP/1.1 200 OK\r\n") {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, answered).await.expect("one of them makes room");
        assert_eq!(server.connections.status().evicted, 1, "HTTP/2: {is_http2}");
        drop(stalled);
        all_released(&server).await;
    }
}

/// HTTP/2 connections, each with the maximum number of requests, all for distinct bodies
/// that no client reads. The server is a separate process, whose memory is measured.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_connections_take_the_limit_and_little_for_each() {
    const MIB: u64 = 1 << 20;
    const CONNECTIONS: u64 = 1_024;
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("large.wasm");
    fs::write(&module, component::of_response(200, &[], &vec![b'a'; 256 << 10])).unwrap();
    let settings = folder.path().join("settings.toml");
    let text = "[module]\nfile = 'large.wasm'\ndialect = 'any'\n[module.limits]\nresponse_cache = '1MiB'\n[http]\nunsent = '64MiB'\nidle = '1h'\nstalled = '1h'\n";
    fs::write(&settings, text).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"));
    let args = ["--listen", "127.0.0.1:0", "--config", settings.to_str().unwrap()];
    let mut serving = command::serve(program, &args).await;
    serving.close_log();
    let (address, process) = (serving.address(), serving.id());
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let (mut most, mut hostile) = (0, Vec::new());
    for connection in 0..CONNECTIONS {
        let paths = (0..100).map(|path| format!("/{connection}/{path}"));
        hostile.push(http2::stalled(address, paths).await);
        most = most.max(resident());
    }
    let control = ControlClient::new(&serving.control);
    let runs = async || control.status().await.unwrap().mounts[0].module.runs;
    let mut known = 0;
    while known != runs().await {
        known = runs().await;
        for _ in 0..100 {
            most = most.max(resident());
            sleep(Duration::from_millis(5)).await;
        }
    }
    let status = control.status().await.unwrap();
    let unsent = status.connections.unwrap().unsent;
    assert!(unsent > 32 * MIB && unsent <= 64 * MIB, "{status:?}");
    // The process itself, and the buffers of its connections: 150 MB in a release build,
    // and more in a build whose futures are not optimised.
    assert!(most <= 64 * MIB + 225_000_000, "{most} bytes");
}

/// A cancelled request does not keep its connection open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_http2_that_are_taken_back_keep_no_connection() {
    let limits = Limits { time: Duration::from_hours(1), ..Limits::default() };
    let spins = component::that_spins_on_spin();
    let module = Module::from_bytes(&engine(&limits), "spins", &spins).unwrap();
    let server = TestServer::with_limits(Registry::new(Mount::api(module)), self::limits()).await;
    let mut client = Client::http2(server.address).await;
    let mount = server.registry.at("/").unwrap();
    for number in 1..=3 {
        // The path is as long as `/spin`, so the module never ends.
        let path = format!("/spi{number}");
        let asked = client.get(&path);
        timeout(Duration::from_millis(200), asked).await.unwrap_err();
    }
    assert_eq!(mount.status().module.runs, 3);
    timeout(SOON, client.closed()).await.unwrap();
}

/// The client sends PINGs all the time, and no requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_keep_no_connection() {
    let server = server(limits()).await;
    let mut client = Client::http2_with_pings(server.address, Duration::from_millis(300)).await;
    assert_eq!(client.get("/version").await.status, 200);
    timeout(SOON, client.closed()).await.unwrap();
}

/// A response that an HTTP/2 client does not read is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_http2_that_is_not_taken_is_given_up() {
    let server = server(limits()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The initial window of streams is 0 bytes. The headers of the only request are from
    // the static table: GET, http and /.
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(settings);
    bytes.extend([0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84]);
    stream.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap().ok();
    // Frames were received, but no data of the response.
    assert!(!answer.is_empty());
    assert!(!String::from_utf8_lossy(&answer).contains("nothing is served"));
    // An idle connection is closed, too.
    let mut idle = Client::http2(server.address).await;
    assert_eq!(idle.get("/version").await.status, 200);
    timeout(SOON, idle.closed()).await.unwrap();
}

/// A run that never ends delays it no longer than the grace period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_is_gone_in_time() {
    let module = Module::from_bytes(
        &engine(&Limits { time: Duration::from_hours(1), ..Limits::default() }),
        "spins",
        &component::of_handler("(loop br 0) unreachable"),
    );
    let registry = Registry::new(Mount::api(module.unwrap()));
    let grace = Duration::from_millis(300);
    let server = TestServer::with_grace(registry, grace).await;
    let mut spinning = TcpStream::connect(server.address).await.unwrap();
    spinning.write_all(request("/", "").as_bytes()).await.unwrap();
    let mount = server.registry.at("/").unwrap();
    while mount.status().module.runs < 1 {
        sleep(Duration::from_millis(1)).await;
    }
    timeout(SOON, server.stop()).await.unwrap().unwrap();
    let mut byte = [0];
    assert!(!matches!(spinning.read(&mut byte).await, Ok(1..)));
}
