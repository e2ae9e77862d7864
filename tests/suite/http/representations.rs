//! Do clients get responses in the encoding that they accept, and no body if they already
//! have it?

use std::io::Read;

use relayer_rest_host::state::{Object, RelayerState, Worker};
use relayer_rest_tests::client::{Client, Response};
use relayer_rest_tests::component;
use relayer_rest_tests::server::TestServer;

fn many_workers() -> RelayerState {
    let worker = |id| Worker {
        id,
        object: Object::Wallet { chain_id: format!("chain-{id}").into() },
        data: None,
    };
    RelayerState { chains: vec!["ibc-0".into()], workers: (0..100).map(worker).collect() }
}

fn decoded(response: &Response) -> Vec<u8> {
    let mut body = Vec::new();
    let bytes = &response.body[..];
    match response.header("content-encoding") {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut body).map(drop).unwrap(),
        "zstd" => zstd::stream::copy_decode(bytes, &mut body).unwrap(),
        "br" => brotli::BrotliDecompress(&mut &*bytes, &mut body).unwrap(),
        "" => body.extend(bytes),
        other => panic!("{other}"),
    }
    body
}

/// Sends a request twice: a new response and a cached one must be equal.
async fn send(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut made = client.request_with(method, path, headers).await;
    let mut cached = client.request_with(method, path, headers).await;
    for name in ["date", "x-request-id"] {
        made.headers.remove(name);
        cached.headers.remove(name);
    }
    assert_eq!(made, cached);
    made
}

#[tokio::test]
async fn large_bodies_are_compressed_for_clients_that_accept_it() {
    let server = TestServer::start().await;
    server.publisher.set_state(many_workers());
    let mut client = server.connect().await;
    let plain = send(&mut client, "GET", "/state", &[]).await;
    let vary = "accept, prefer, accept-encoding";
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", vary));
    let mut etags = vec![plain.header("etag").to_owned()];
    for (accepted, encoding) in
        [("gzip", "gzip"), ("br", "br"), ("zstd", "zstd"), ("gzip, br, zstd", "zstd")]
    {
        let headers = [("accept-encoding", accepted)];
        let response = send(&mut client, "GET", "/state", &headers).await;
        assert_eq!(response.header("content-encoding"), encoding);
        assert_eq!(response.header("vary"), vary);
        assert_eq!(response.header("content-type"), "application/json");
        assert_eq!(decoded(&response), plain.body);
        assert!(response.body.len() * 4 < plain.body.len(), "{} bytes", response.body.len());
        let head = send(&mut client, "HEAD", "/state", &headers).await;
        assert_eq!(head.headers, response.headers);
        etags.push(response.header("etag").to_owned());
    }
    etags.dedup();
    assert_eq!(etags.len(), 4, "each form has its own: {etags:?}");
}

#[tokio::test]
async fn small_bodies_are_not_compressed() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let response = send(&mut client, "GET", "/chains", &[("accept-encoding", "gzip")]).await;
    let vary = "accept, prefer";
    assert_eq!((response.header("content-encoding"), response.header("vary")), ("", vary));
}

#[tokio::test]
async fn encoded_and_binary_bodies_are_not_compressed() {
    let body = [b'x'; 4096];
    for (headers, encoding) in [
        (&[("content-type", &b"text/html; charset=utf-8"[..])][..], "gzip"),
        (&[("content-type", b"application/problem+json")], "gzip"),
        (&[("content-type", b"image/svg+xml")], "gzip"),
        (&[("content-type", b"image/png")], ""),
        (&[("content-type", b"application/octet-stream")], ""),
        (&[], ""),
        (&[("content-type", b"text/plain"), ("content-range", b"bytes 0-4095/9999")], ""),
        (&[("content-type", b"text/plain"), ("repr-digest", b"sha-256=:eA==:")], ""),
        (&[("content-type", b"text/plain"), ("content-encoding", b"x")], "x"),
        (&[("content-type", b"text/plain"), ("cache-control", b"public, no-transform")], ""),
    ] {
        let component = component::of_response(200, headers, &body);
        let server = TestServer::builder().component(&component).start().await;
        let mut client = server.connect().await;
        let response = send(&mut client, "GET", "/", &[("accept-encoding", "gzip")]).await;
        assert_eq!(response.header("content-encoding"), encoding, "{headers:?}");
    }
}

#[tokio::test]
async fn a_client_with_the_current_response_gets_304() {
    let server = TestServer::start().await;
    server.publisher.set_state(many_workers());
    let mut client = server.connect().await;
    for path in ["/version", "/chains", "/chain/ibc-0", "/state"] {
        for encoding in ["identity", "gzip"] {
            let encoding = ("accept-encoding", encoding);
            let response = send(&mut client, "GET", path, &[encoding]).await;
            let etag = response.header("etag").to_owned();
            assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag} is strong");
            assert_eq!(response.header("cache-control"), "no-cache");
            for known in [etag.clone(), format!("\"x\", W/{etag}"), "*".to_owned()] {
                for method in ["GET", "HEAD"] {
                    let headers = [encoding, ("if-none-match", &known)];
                    let again = send(&mut client, method, path, &headers).await;
                    assert_eq!(again.status, 304);
                    assert_eq!(again.body, "");
                    assert_eq!(again.header("etag"), etag);
                    assert_eq!(again.header("vary"), response.header("vary"));
                    assert_eq!(again.header("cache-control"), "no-cache");
                    assert_eq!(again.header("content-type"), "");
                }
            }
            let headers = [encoding, ("if-none-match", "\"other\"")];
            assert_eq!(send(&mut client, "GET", path, &headers).await, response);
        }
    }
}

#[tokio::test]
async fn a_client_with_an_outdated_response_gets_the_new_one() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let before = client.get("/state").await;
    server.publisher.set_state(many_workers());
    let headers = [("if-none-match", before.header("etag"))];
    let after = client.request_with("GET", "/state", &headers).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), before.header("etag"));
    // The original state has the original validator again.
    relayer_rest_host::state::sample(&server.publisher);
    let again = client.request_with("GET", "/state", &headers).await;
    assert_eq!(again.status, 304);
}

#[tokio::test]
async fn errors_have_no_validator() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for (method, path, status) in
        [("GET", "/nothing", 404), ("GET", "/chain/none", 404), ("POST", "/state", 405)]
    {
        let response = send(&mut client, method, path, &[("if-none-match", "*")]).await;
        assert_eq!((response.status.as_u16(), response.header("etag")), (status, ""));
        assert_eq!(response.header("cache-control"), "no-cache");
    }
}

#[tokio::test]
async fn headers_of_the_module_take_precedence() {
    let headers: &[(&str, &[u8])] = &[
        ("content-type", b"text/plain"),
        ("etag", b"\"mine\""),
        ("cache-control", b"max-age=60"),
        ("vary", b"cookie"),
        ("access-control-allow-origin", b"*"),
    ];
    let component = component::of_response(200, headers, &[b'x'; 4096]);
    let server = TestServer::builder().component(&component).start().await;
    let mut client = server.connect().await;
    let plain = send(&mut client, "GET", "/", &[]).await;
    assert_eq!(plain.header("etag"), "\"mine\"");
    assert_eq!(plain.header("cache-control"), "max-age=60");
    let vary: Vec<_> = plain.headers.get_all("vary").iter().collect();
    assert_eq!(vary, ["cookie, accept, prefer, accept-encoding"]);
    // The host's compression is another representation, for which only a weak validator
    // holds: it is equivalent, not identical.
    let gzip = ("accept-encoding", "gzip");
    let compressed = send(&mut client, "GET", "/", &[gzip]).await;
    assert_eq!(compressed.header("etag"), "W/\"mine\"");
    let known = send(&mut client, "GET", "/", &[gzip, ("if-none-match", "\"mine\"")]).await;
    assert_eq!((known.status.as_u16(), known.header("cache-control")), (304, "max-age=60"));
    assert_eq!(known.header("access-control-allow-origin"), "*");
    assert_eq!((known.header("content-type"), known.header("content-encoding")), ("", ""));
}

/// Starts a server whose module always responds with these headers.
async fn with_headers(status: u16, headers: &[(&str, &[u8])]) -> TestServer {
    let component = component::of_response(status, headers, &[b'x'; 4096]);
    TestServer::builder().component(&component).start().await
}

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// RFC 9110, 13.2.2.
#[tokio::test]
async fn preconditions_are_evaluated_in_order() {
    let server =
        with_headers(200, &[("etag", b"\"a\""), ("last-modified", MODIFIED.as_bytes())]).await;
    let mut http1 = server.connect().await;
    let mut http2 = Client::http2(server.address).await;
    for (headers, read, unsafe_method) in [
        (&[("if-match", "\"a\"")][..], 200, 200),
        (&[("if-match", "*")], 200, 200),
        (&[("if-match", "W/\"a\"")], 412, 412),
        (&[("if-match", "\"b\", \"c\"")], 412, 412),
        (&[("if-match", "no tag")], 200, 200),
        (&[("if-unmodified-since", MODIFIED)], 200, 200),
        (&[("if-unmodified-since", BEFORE)], 412, 412),
        (&[("if-unmodified-since", "yesterday")], 200, 200),
        (&[("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], 200, 200),
        (&[("if-none-match", "\"b\", W/\"a\"")], 304, 412),
        (&[("if-none-match", "*")], 304, 412),
        (&[("if-none-match", "\"b\"")], 200, 200),
        (&[("if-modified-since", MODIFIED)], 304, 200),
        (&[("if-modified-since", BEFORE)], 200, 200),
        (&[("if-modified-since", "tomorrow")], 200, 200),
        (&[("if-none-match", "\"b\""), ("if-modified-since", MODIFIED)], 200, 200),
        (&[("if-match", "\"b\""), ("if-none-match", "\"a\"")], 412, 412),
        (&[("if-match", "\"a\""), ("if-none-match", "\"a\"")], 304, 412),
        (&[("range", "bytes=0-1"), ("if-range", "\"b\"")], 200, 200),
    ] {
        for (method, status) in
            [("GET", read), ("HEAD", read), ("POST", unsafe_method), ("OPTIONS", 200)]
        {
            for client in [&mut http1, &mut http2] {
                let response = send(client, method, "/", headers).await;
                assert_eq!(response.status, status, "{method} {headers:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_failed_precondition_gets_412_without_the_response() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let headers = [("if-match", "\"other\""), ("accept-encoding", "gzip")];
    let response = send(&mut client, "GET", "/chains", &headers).await;
    response.check_error(412, "PreconditionFailed", "a precondition of the request is false");
    for name in ["etag", "last-modified", "cache-control", "content-encoding"] {
        assert_eq!(response.header(name), "", "{name}");
    }
    assert!(response.header("x-relayer-module").starts_with("api@"));
    let head = send(&mut client, "HEAD", "/chains", &headers).await;
    assert_eq!((head.status.as_u16(), head.text()), (412, ""));
}

/// RFC 9110, 13.2.1.
#[tokio::test]
async fn preconditions_of_failing_requests_are_ignored() {
    let false_ones = [("if-match", "\"other\""), ("if-unmodified-since", BEFORE)];
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for (method, path, status) in [("GET", "/nothing", 404), ("POST", "/state", 405)] {
        assert_eq!(send(&mut client, method, path, &false_ones).await.status, status);
    }
    for status in [302, 503] {
        let server = with_headers(status, &[("etag", b"\"a\"")]).await;
        let mut client = server.connect().await;
        assert_eq!(send(&mut client, "GET", "/", &false_ones).await.status, status);
        assert_eq!(send(&mut client, "GET", "/", &[("if-none-match", "*")]).await.status, status);
    }
}

/// Each encoding has a validator of its own, which differs from all others.
#[tokio::test]
async fn a_validator_belongs_to_one_encoding() {
    let server = TestServer::start().await;
    server.publisher.set_state(many_workers());
    let mut client = server.connect().await;
    let gzip = ("accept-encoding", "gzip");
    let plain = ("accept-encoding", "identity");
    let etag = |response: Response| response.header("etag").to_owned();
    let of_gzip = etag(send(&mut client, "GET", "/state", &[gzip]).await);
    let of_plain = etag(send(&mut client, "GET", "/state", &[plain]).await);
    for (encoding, own, other) in [(gzip, &of_gzip, &of_plain), (plain, &of_plain, &of_gzip)] {
        for (field, tag, status) in [
            ("if-match", own, 200),
            ("if-match", other, 412),
            ("if-none-match", own, 304),
            ("if-none-match", other, 200),
        ] {
            let response = send(&mut client, "GET", "/state", &[encoding, (field, tag)]).await;
            assert_eq!(response.status, status, "{field}: {tag}, {encoding:?}");
        }
        // A cache may list all validators that it has.
        let both = format!("{of_plain}, {of_gzip}");
        let response =
            send(&mut client, "GET", "/state", &[encoding, ("if-none-match", &both)]).await;
        assert_eq!((response.status.as_u16(), response.header("etag")), (304, &**own));
    }
    // With compression, a module's own validator becomes weak, and never matches in a
    // strong comparison.
    let server = with_headers(200, &[("etag", b"\"a\""), ("content-type", b"text/plain")]).await;
    let mut client = server.connect().await;
    for (encoding, matched) in [(plain, 200), (gzip, 412)] {
        let response = send(&mut client, "GET", "/", &[encoding, ("if-match", "\"a\"")]).await;
        assert_eq!(response.status, matched, "{encoding:?}");
    }
}

/// The validator of a response to POST would be that of another representation.
#[tokio::test]
async fn validators_are_generated_for_get_only() {
    let server = with_headers(200, &[]).await;
    let mut client = server.connect().await;
    for (method, has_etag) in [("GET", true), ("HEAD", true), ("POST", false), ("PUT", false)] {
        let response = send(&mut client, method, "/", &[]).await;
        assert_eq!(!response.header("etag").is_empty(), has_etag, "{method}");
    }
}

#[tokio::test]
async fn range_requests_get_the_complete_response() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let whole = send(&mut client, "GET", "/chains", &[]).await;
    assert_eq!(send(&mut client, "GET", "/chains", &[("range", "bytes=0-3")]).await, whole);
}
