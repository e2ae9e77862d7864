//! Are requests that are too large or too slow closed?

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::HttpLimits;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::wait::within;
use relayer_rest_tests::watcher::Watcher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{limits, raw, request, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_or_partial_requests_are_closed() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address);
    let half = [
        "",
        "G",
        "GET /version HTTP/1.1\r\n",
        "GET /version HTTP/1.1\r\nhost: x\r\na:",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let half =
        half.map(|bytes| tokio::spawn(async move { raw(server.address, bytes.as_bytes()).await }));
    // Single bytes at intervals count as slow, too.
    let slow = tokio::spawn(async move {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = request("/version", "").into_bytes();
        // The head never ends.
        let mut bytes = head[..head.len() - 2].iter().chain(b"a: b\r\n".iter().cycle());
        while stream.write_all(&[*bytes.next().unwrap()]).await.is_ok() {
            sleep(Duration::from_millis(200)).await;
        }
    });
    for half in half {
        let response = half.await.unwrap();
        assert!(!response.contains("200 OK"), "{response}");
    }
    within("the slow connection is closed", slow).await.unwrap();
    watcher.stop().await;
}

#[tokio::test]
async fn oversized_requests_get_their_status() {
    let server = server(HttpLimits {
        target: ByteSize::b(100),
        headers: 5,
        head: ByteSize::kib(8),
        body: ByteSize::b(10),
        ..limits()
    })
    .await;
    let watcher = Watcher::start(server.address);
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
        let response = raw(server.address, request.as_bytes()).await;
        let head = format!("HTTP/1.1 {status}\r\n");
        assert!(response.starts_with(&head), "{request}: {response}");
        assert!(response.contains(&format!("\"name\":\"{name}\"")), "{response}");
        assert!(
            response.contains("x-request-id: ") && response.contains("\r\ndate: "),
            "{response}"
        );
    }
    // Hyper responds to these itself, with a bare status.
    for (request, status) in [
        (request("/version", &large), "431 Request Header Fields Too Large"),
        (request(&format!("/{}", "a".repeat(70_000)), ""), "431 Request Header Fields Too Large"),
        ("what\r\n\r\n".to_owned(), "400 Bad Request"),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), "400 Bad Request"),
        (request("/version", "transfer-encoding: chunked, x\r\n"), "400 Bad Request"),
    ] {
        let response = raw(server.address, request.as_bytes()).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{response}");
        assert!(
            response.contains("connection: close\r\n") && response.ends_with("\r\n\r\n"),
            "{response}"
        );
    }
    // Requests at the limits are served.
    let most = format!("/{}", "a".repeat(99));
    let most = request(&most, "content-length: 10\r\nconnection: close\r\na: b\r\nc: d\r\n");
    let response = raw(server.address, (most + "0123456789").as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    watcher.stop().await;
}

/// Bytes after a request that are not a request get a response of their own, after that
/// of the request.
#[tokio::test]
async fn bytes_after_a_request_get_a_response_of_their_own() {
    let server = server(limits()).await;
    let response = raw(server.address, (request("/chains", "") + "\0\r\n\r\n").as_bytes()).await;
    let (first, second) = response.split_at(response.rfind("HTTP/1.1 ").unwrap());
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.contains("ibc-1"), "{response}");
    assert!(second.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
}

/// The response arrives even while the client still sends the head.
#[tokio::test]
async fn an_endless_head_gets_431() {
    let server = server(limits()).await;
    let watcher = Watcher::start(server.address);
    for _ in 0..10 {
        let head = request("/version", &format!("a: {}", "b".repeat(1 << 20)));
        let response = raw(server.address, head.as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 431 "), "{response:?}");
        // It also arrives after other requests of the connection.
        let response = raw(server.address, (request("/version", "") + &head).as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response:?}");
        assert!(response.contains("HTTP/1.1 431 "), "{response:?}");
    }
    // A target that fits into the largest head, but not into hyper's limit of a target.
    let server = self::server(HttpLimits { head: ByteSize::mib(1), ..limits() }).await;
    let long = request(&format!("/{}", "a".repeat(70_000)), "");
    let response = raw(server.address, long.as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 414 "), "{response:?}");
    watcher.stop().await;
}

#[tokio::test]
async fn an_oversized_http2_head_gets_431() {
    let server = server(HttpLimits { head: ByteSize::kib(8), ..limits() }).await;
    let watcher = Watcher::start(server.address);
    let mut client = Client::http2(server.address).await;
    let value = "b".repeat(9 << 10);
    let response = client.request_with("GET", "/version", &[("a", &value)]).await;
    assert_eq!((response.status.as_u16(), &*response.error_name()), (431, "HeadersTooLarge"));
    assert_eq!(response.header("x-request-id").len(), 24);
    let value = "b".repeat(7 << 10);
    assert_eq!(client.request_with("GET", "/version", &[("a", &value)]).await.status, 200);
    watcher.stop().await;
}

/// The response arrives although the client still sends a body that is too large.
#[tokio::test]
async fn a_client_that_still_sends_an_oversized_body_gets_413() {
    let server = server(HttpLimits::default()).await;
    let watcher = Watcher::start(server.address);
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
            let mut response = vec![0; 1024];
            let length = reading.read(&mut response).await.unwrap();
            String::from_utf8_lossy(&response[..length]).into_owned()
        };
        let response = tokio::select! {
            () = send => panic!("the connection is closed before the response"),
            response = receive => response,
        };
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    }
    watcher.stop().await;
}
