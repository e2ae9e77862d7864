//! Does the server speak HTTP as clients expect?

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, Version};
use relayer_rest_host::HttpLimits;
use relayer_rest_host::state::{Object, RelayerState, Worker};
use relayer_rest_tests::client::{Client, raw};
use relayer_rest_tests::component;
use relayer_rest_tests::server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        assert_eq!(client.get("/chains").await.status, 200);
        assert_eq!(client.get("/nothing").await.status, 404);
        assert_eq!(client.request("HEAD", "/state").await.status, 200);
    }
}

#[tokio::test]
async fn pipelined_requests_get_responses_in_order() {
    let server = TestServer::start().await;
    let requests = "GET /chains HTTP/1.1\r\nhost: x\r\n\r\n\
                    HEAD /state HTTP/1.1\r\nhost: x\r\n\r\n\
                    GET /chain/foo HTTP/1.1\r\nhost: x\r\n\r\n\
                    GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let responses = raw(server.address, requests.as_bytes()).await;
    let statuses: Vec<_> =
        responses.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["200", "200", "404", "200"]);
    let chains = responses.find(r#"["ibc-0","ibc-1"]"#).unwrap();
    let foo = responses.find("chain: foo").unwrap();
    let version = responses.find("ibc-relayer-rest").unwrap();
    assert!(chains < foo && foo < version);
    assert!(!responses.contains("07-tendermint"), "HEAD has no body");
}

#[tokio::test]
async fn http2_is_served_with_prior_knowledge() {
    let server = TestServer::start().await;
    let mut client = Client::http2(server.address).await;
    let mut http1 = server.connect().await;
    for path in ["/version", "/chains", "/chain/ibc-0", "/state", "/nothing"] {
        let response = client.get(path).await;
        assert_eq!(response.version, Version::HTTP_2);
        assert_eq!(response.body, http1.get(path).await.body);
    }
    let head = client.request("HEAD", "/chains").await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, "47"));
}

#[tokio::test]
async fn http_1_0_requests_get_a_response_and_are_closed() {
    let server = TestServer::start().await;
    let response = raw(server.address, b"GET /chains HTTP/1.0\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.0 200 OK\r\n"), "{response}");
    assert!(response.ends_with(r#"["ibc-0","ibc-1"]}"#), "{response}");
}

#[tokio::test]
async fn bytes_that_are_not_http_get_400() {
    let server = TestServer::start().await;
    for request in [
        &b"GET /chains\r\n\r\n"[..],
        b"hello\r\n\r\n",
        b"GET /chains HTTP/1.1\r\nbad header\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ] {
        let response = raw(server.address, request).await;
        assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
    }
}

#[tokio::test]
async fn targets_of_every_form_get_a_response() {
    let server = TestServer::start().await;
    for (line, status) in [
        ("GET http://example.com/chains HTTP/1.1", "200"),
        ("GET http://example.com HTTP/1.1", "404"),
        ("OPTIONS * HTTP/1.1", "404"),
        ("GET * HTTP/1.1", "400"),
        ("GET example.com:80 HTTP/1.1", "400"),
        ("GET chains HTTP/1.1", "400"),
        ("GET ftp://example.com/chains HTTP/1.1", "421"),
        ("GET http://user@example.com/chains HTTP/1.1", "400"),
    ] {
        let request = format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n");
        let response = raw(server.address, request.as_bytes()).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {response}");
        assert!(response.contains("\r\nx-request-id: "), "{line}: {response}");
        assert!(response.contains(r#""result":"#), "{line}: {response}");
    }
}

#[tokio::test]
async fn trace_is_refused_by_the_module() {
    let server = TestServer::start().await;
    let response = server.connect().await.request("TRACE", "/chains").await;
    assert_eq!((response.status.as_u16(), response.header("allow")), (405, "GET, HEAD"));
}

/// The host itself refuses tunnels, and does not parse bytes in a tunnel as a request.
#[tokio::test]
async fn connect_gets_501_without_a_run() {
    let module = component::with_response(200, "a", b"b");
    let server = TestServer::builder().component(&module).start().await;
    let body = r#"{"status":"error","result":{"name":"NotImplemented","msg":"CONNECT is not implemented"}}"#;
    for request in [
        "CONNECT example.com:80 HTTP/1.1\r\nhost: example.com:80\r\n\r\n",
        "CONNECT / HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let tunnelled = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let response = raw(server.address, format!("{request}{tunnelled}").as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 501 Not Implemented\r\n"), "{response}");
        assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
        assert!(response.ends_with(body), "{response}");
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
    }
    let mut client = Client::http2(server.address).await;
    let connect = Request::connect("example.com:80").body(Empty::new()).unwrap();
    let response = client.http2_sender().send_request(connect).await.unwrap();
    assert_eq!(response.status(), 501);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body);
    assert_eq!(client.get("/").await.status, 200, "the connection goes on");
    assert_eq!(server.registry.at("/").unwrap().module().unwrap().runs(), 1);
}

#[tokio::test]
async fn requests_need_exactly_one_valid_host_in_every_version() {
    let server = TestServer::start().await;
    for (head, status) in [
        ("GET /chains HTTP/1.1\r\n", "400"),
        ("GET /chains HTTP/1.1\r\nhost:\r\n", "200"),
        ("GET /chains HTTP/1.1\r\nhost: x:80\r\n", "200"),
        ("GET /chains HTTP/1.1\r\nhost: x:y\r\n", "400"),
        ("GET /chains HTTP/1.1\r\nhost: x\r\nhost: x\r\n", "400"),
        ("GET http://x/chains HTTP/1.1\r\nhost: x\r\nhost: x\r\n", "400"),
        ("GET http://x:y/chains HTTP/1.1\r\nhost: x\r\n", "400"),
        ("GET /chains HTTP/1.0\r\n", "200"),
        ("GET /chains HTTP/1.0\r\nhost: x\r\n", "200"),
        ("GET /chains HTTP/1.0\r\nhost: x\r\nhost: y\r\n", "400"),
        ("GET /chains HTTP/1.0\r\nhost: a b\r\n", "400"),
    ] {
        let request = format!("{head}connection: close\r\n\r\n");
        let response = raw(server.address, request.as_bytes()).await;
        assert_eq!(response.split(' ').nth(1), Some(status), "{head}: {response}");
    }
    let mut client = Client::http2(server.address).await;
    for (host, status) in [("LOCALHOST", 200), ("other", 400)] {
        let response = client.request_with("GET", "/chains", &[("host", host)]).await;
        assert_eq!(response.status, status, "{host}");
    }
    let twice = [("host", "localhost"), ("host", "localhost")];
    assert_eq!(client.request_with("GET", "/chains", &twice).await.status, 400);
}

#[tokio::test]
async fn requests_for_hosts_that_are_not_listed_are_misdirected() {
    let hosts = ["api.example".parse().unwrap(), "127.0.0.1:3000".parse().unwrap()].to_vec();
    let limits = HttpLimits { hosts, ..HttpLimits::default() };
    let server = TestServer::builder().http(limits).start().await;
    for (head, status) in [
        ("GET /version HTTP/1.1\r\nhost: API.example.\r\n", "200"),
        ("GET /version HTTP/1.1\r\nhost: api.example:8080\r\n", "200"),
        ("GET /version HTTP/1.1\r\nhost: 127.0.0.1:3000\r\n", "200"),
        ("GET /version HTTP/1.0\r\nhost: api.example\r\n", "200"),
        ("GET http://api.example/version HTTP/1.1\r\nhost: evil.example\r\n", "200"),
        ("GET http://evil.example/version HTTP/1.1\r\nhost: api.example\r\n", "421"),
        ("GET /version HTTP/1.1\r\nhost: evil.example\r\n", "421"),
        ("GET /version HTTP/1.1\r\nhost: 127.0.0.1\r\n", "421"),
        ("GET /version HTTP/1.1\r\nhost:\r\n", "421"),
        ("GET /version HTTP/1.0\r\n", "421"),
    ] {
        let request = format!("{head}connection: close\r\n\r\n");
        let response = raw(server.address, request.as_bytes()).await;
        assert_eq!(response.split(' ').nth(1), Some(status), "{head}: {response}");
        let is_refused = response.ends_with(
            r#"{"name":"MisdirectedRequest","msg":"the host of the request is not served here"}}"#,
        );
        assert_eq!(is_refused, status == "421", "{head}: {response}");
    }
    // The authority of HTTP/2 requests is `localhost`.
    assert_eq!(Client::http2(server.address).await.get("/version").await.status, 421);
}

/// RFC 9112, 3.2.2; and HTTP/2, in which the host header is optional.
#[tokio::test]
async fn a_module_sees_the_host_of_the_target() {
    let module = component::that_returns("host");
    let server = TestServer::builder().component(&module).start().await;
    for (head, host) in [
        ("GET / HTTP/1.1\r\nhost: one\r\n", "one"),
        ("GET http://two/ HTTP/1.1\r\nhost: one\r\n", "two"),
        ("GET http://two/ HTTP/1.0\r\n", "two"),
    ] {
        // The second response is a cached one.
        for _ in 0..2 {
            let request = format!("{head}connection: close\r\n\r\n");
            let response = raw(server.address, request.as_bytes()).await;
            assert!(response.ends_with(&format!("\r\n\r\n{host}")), "{head}: {response}");
        }
    }
    let response = Client::http2(server.address).await.get("/").await;
    assert_eq!(response.text(), "localhost");
}

/// Covers responses of modules, cached ones, and the host's own.
#[tokio::test]
async fn every_response_disables_content_sniffing() {
    let server = TestServer::start().await;
    for mut client in [server.connect().await, Client::http2(server.address).await] {
        for (path, headers, status) in [
            ("/chains", &[][..], 200),
            ("/chains", &[], 200),
            ("/chains", &[("if-none-match", "*")], 304),
            ("/nothing", &[], 404),
            ("/chains", &[("host", "a b")], 400),
        ] {
            let response = client.request_with("GET", path, headers).await;
            let nosniff = response.header("x-content-type-options");
            assert_eq!((response.status.as_u16(), nosniff), (status, "nosniff"));
        }
    }
    let own = component::with_response(200, "x-content-type-options", b"none");
    let server = TestServer::builder().component(&own).start().await;
    let response = server.get("/").await;
    let values: Vec<_> = response.headers.get_all("x-content-type-options").iter().collect();
    assert_eq!(values, ["none"]);
}

#[tokio::test]
async fn every_response_has_the_request_id() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let kept = client.request_with("GET", "/chains", &[("x-request-id", "abc-123")]).await;
    assert_eq!(kept.header("x-request-id"), "abc-123");
    let made = client.request_with("GET", "/nothing", &[("x-request-id", "a b")]).await;
    assert_eq!(made.header("x-request-id").len(), 24);
}

#[tokio::test]
async fn a_request_with_a_body_is_served_like_one_without() {
    let server = TestServer::start().await;
    let request = "GET /chains HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello\
                   GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let responses = raw(server.address, request.as_bytes()).await;
    assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{responses}");
    assert!(responses.contains(r#"["ibc-0","ibc-1"]"#), "{responses}");
    assert!(responses.contains("ibc-relayer-rest"), "{responses}");
}

#[tokio::test]
async fn a_stopping_server_closes_idle_connections() {
    let server = TestServer::start().await;
    let address = server.address;
    let mut used = server.connect().await;
    assert_eq!(used.get("/chains").await.status, 200);
    let _unused = server.connect().await;
    server.stop().await.unwrap();
    let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let limits = HttpLimits { idle: Duration::from_secs(1), ..HttpLimits::default() };
    let server = TestServer::builder().http(limits).start().await;
    let beginnings = [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET /chains HTTP/1.1\r\nhost"];
    let closed = beginnings.map(|bytes| tokio::spawn(raw(server.address, bytes)));
    for (closed, bytes) in closed.into_iter().zip(beginnings) {
        let response = closed.await.unwrap();
        assert!(!response.contains("200 OK"), "{bytes:?}: {response}");
    }
}

/// The clients of the tests connect again only after a connection was idle.
#[tokio::test]
async fn a_client_connects_again_after_an_idle_connection_is_closed() {
    let idle = Duration::from_secs(1);
    let limits = HttpLimits { idle, ..HttpLimits::default() };
    let server = TestServer::builder().http(limits).start().await;
    for mut client in [server.connect().await, Client::http2(server.address).await] {
        client = client.idle(idle);
        assert_eq!(client.get("/version").await.status, 200);
        client.closed().await;
        assert_eq!(client.get("/version").await.status, 200);
        client = client.idle(Duration::from_hours(1));
        client.closed().await;
        let early = tokio::spawn(async move { client.get("/version").await });
        assert!(early.await.unwrap_err().is_panic());
    }
}

/// Starts a server whose /state has 8 MB.
async fn with_large_state(limits: HttpLimits) -> TestServer {
    let server = TestServer::builder().http(limits).start().await;
    let worker = |id| Worker {
        id,
        object: Object::Wallet { chain_id: format!("chain-{id}").into() },
        data: None,
    };
    let workers = (0..100_000).map(worker).collect();
    server.publisher.set_state(RelayerState { chains: Vec::new(), workers });
    server
}

#[tokio::test]
async fn a_slow_reader_can_send_another_request() {
    // The client reads for longer than it may be silent.
    let idle = Duration::from_secs(1);
    let server = with_large_state(HttpLimits { idle, ..HttpLimits::default() }).await;
    let requests = "GET /state HTTP/1.1\r\nhost: x\r\n\r\n\
                    GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    // Little data is in flight, so that the server waits for the client.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut responses = Vec::new();
    let mut part = vec![0; 64 << 10];
    let start = Instant::now();
    loop {
        // Up to 512 KiB a second.
        if start.elapsed() < 4 * idle {
            tokio::time::sleep(Duration::from_millis(125)).await;
        }
        match stream.read(&mut part).await.unwrap() {
            0 => break,
            count => responses.extend(&part[..count]),
        }
    }
    let responses = String::from_utf8(responses).unwrap();
    assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), 2);
    assert!(responses.ends_with('}') || responses.ends_with(']'));
}
