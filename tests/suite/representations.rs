//! Do clients get an answer in the form that they ask for, and nothing where
//! they have it already?

use std::io::Read;

use relayer_rest_host::module::Limits;
use relayer_rest_host::state::{Object, RelayerState, Worker};
use relayer_rest_tests::client::{Answer, Client};
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

fn decoded(answer: &Answer) -> Vec<u8> {
    let (mut body, bytes) = (Vec::new(), &answer.body[..]);
    match answer.header("content-encoding") {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut body).map(drop).unwrap(),
        "zstd" => zstd::stream::copy_decode(bytes, &mut body).unwrap(),
        "br" => brotli::BrotliDecompress(&mut &*bytes, &mut body).unwrap(),
        "" => body.extend(bytes),
        other => panic!("{other}"),
    }
    body
}

/// Asks twice: what is made is the same as what is remembered.
async fn ask(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut made = client.ask_with(method, path, headers).await;
    let mut remembered = client.ask_with(method, path, headers).await;
    for name in ["date", "x-request-id"] {
        made.headers.remove(name);
        remembered.headers.remove(name);
    }
    assert_eq!(made, remembered);
    made
}

#[tokio::test]
async fn large_bodies_are_compressed_for_those_who_take_it() {
    let server = TestServer::of_sample().await;
    server.publisher.set_state(many_workers());
    let mut client = server.connect().await;
    let plain = ask(&mut client, "GET", "/state", &[]).await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    let mut etags = vec![plain.header("etag").to_owned()];
    for (accepted, encoding) in
        [("gzip", "gzip"), ("br", "br"), ("zstd", "zstd"), ("gzip, br, zstd", "zstd")]
    {
        let headers = [("accept-encoding", accepted)];
        let answer = ask(&mut client, "GET", "/state", &headers).await;
        assert_eq!(answer.header("content-encoding"), encoding);
        assert_eq!(answer.header("vary"), "accept-encoding");
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(decoded(&answer), plain.body);
        assert!(answer.body.len() * 4 < plain.body.len(), "{} bytes", answer.body.len());
        let head = ask(&mut client, "HEAD", "/state", &headers).await;
        assert_eq!(head.headers, answer.headers);
        etags.push(answer.header("etag").to_owned());
    }
    etags.dedup();
    assert_eq!(etags.len(), 4, "each form has its own: {etags:?}");
}

#[tokio::test]
async fn small_bodies_are_sent_as_they_are() {
    let server = TestServer::of_sample().await;
    let mut client = server.connect().await;
    let answer = ask(&mut client, "GET", "/chains", &[("accept-encoding", "gzip")]).await;
    assert_eq!((answer.header("content-encoding"), answer.header("vary")), ("", ""));
}

#[tokio::test]
async fn what_is_no_text_or_has_an_encoding_is_sent_as_it_is() {
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
        let server = TestServer::of_component(&component, &Limits::default()).await;
        let mut client = server.connect().await;
        let answer = ask(&mut client, "GET", "/", &[("accept-encoding", "gzip")]).await;
        assert_eq!(answer.header("content-encoding"), encoding, "{headers:?}");
    }
}

#[tokio::test]
async fn a_client_that_has_the_answer_gets_it_no_second_time() {
    let server = TestServer::of_sample().await;
    server.publisher.set_state(many_workers());
    let mut client = server.connect().await;
    for path in ["/version", "/chains", "/chain/ibc-0", "/state"] {
        for encoding in ["identity", "gzip"] {
            let encoding = ("accept-encoding", encoding);
            let answer = ask(&mut client, "GET", path, &[encoding]).await;
            let etag = answer.header("etag").to_owned();
            assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag} is strong");
            assert_eq!(answer.header("cache-control"), "no-cache");
            for known in [etag.clone(), format!("\"x\", W/{etag}"), "*".to_owned()] {
                for method in ["GET", "HEAD"] {
                    let headers = [encoding, ("if-none-match", &known)];
                    let again = ask(&mut client, method, path, &headers).await;
                    assert_eq!(again.status, 304);
                    assert_eq!(again.body, "");
                    assert_eq!(again.header("etag"), etag);
                    assert_eq!(again.header("vary"), answer.header("vary"));
                    assert_eq!(again.header("cache-control"), "no-cache");
                    assert_eq!(again.header("content-type"), "");
                }
            }
            let headers = [encoding, ("if-none-match", "\"other\"")];
            assert_eq!(ask(&mut client, "GET", path, &headers).await, answer);
        }
    }
}

#[tokio::test]
async fn a_client_whose_answer_is_old_gets_the_new_one() {
    let server = TestServer::of_sample().await;
    let mut client = server.connect().await;
    let before = client.get("/state").await;
    server.publisher.set_state(many_workers());
    let headers = [("if-none-match", before.header("etag"))];
    let after = client.ask_with("GET", "/state", &headers).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), before.header("etag"));
    // What is as it was before is the same content again.
    relayer_rest_host::state::sample(&server.publisher);
    let again = client.ask_with("GET", "/state", &headers).await;
    assert_eq!(again.status, 304);
}

#[tokio::test]
async fn errors_have_no_validator_and_are_told_each_time() {
    let server = TestServer::of_sample().await;
    let mut client = server.connect().await;
    for (method, path, status) in
        [("GET", "/nothing", 404), ("GET", "/chain/none", 404), ("POST", "/state", 405)]
    {
        let answer = ask(&mut client, method, path, &[("if-none-match", "*")]).await;
        assert_eq!((answer.status.as_u16(), answer.header("etag")), (status, ""));
        assert_eq!(answer.header("cache-control"), "no-cache");
    }
}

#[tokio::test]
async fn a_module_s_own_headers_win() {
    let headers: &[(&str, &[u8])] = &[
        ("content-type", b"text/plain"),
        ("etag", b"\"mine\""),
        ("cache-control", b"max-age=60"),
        ("vary", b"cookie"),
        ("access-control-allow-origin", b"*"),
    ];
    let component = component::of_response(200, headers, &[b'x'; 4096]);
    let server = TestServer::of_component(&component, &Limits::default()).await;
    let mut client = server.connect().await;
    let plain = ask(&mut client, "GET", "/", &[]).await;
    assert_eq!(plain.header("etag"), "\"mine\"");
    assert_eq!(plain.header("cache-control"), "max-age=60");
    let vary: Vec<_> = plain.headers.get_all("vary").iter().collect();
    assert_eq!(vary, ["cookie", "accept-encoding"]);
    // What the host made of it is another representation, that it can vouch
    // for no more than to mean the same.
    let gzip = ("accept-encoding", "gzip");
    let compressed = ask(&mut client, "GET", "/", &[gzip]).await;
    assert_eq!(compressed.header("etag"), "W/\"mine\"");
    let known = ask(&mut client, "GET", "/", &[gzip, ("if-none-match", "\"mine\"")]).await;
    assert_eq!((known.status.as_u16(), known.header("cache-control")), (304, "max-age=60"));
    assert_eq!(known.header("access-control-allow-origin"), "*");
    assert_eq!((known.header("content-type"), known.header("content-encoding")), ("", ""));
}

#[tokio::test]
async fn a_part_of_an_answer_is_all_of_it() {
    let server = TestServer::of_sample().await;
    let mut client = server.connect().await;
    let whole = ask(&mut client, "GET", "/chains", &[]).await;
    assert_eq!(ask(&mut client, "GET", "/chains", &[("range", "bytes=0-3")]).await, whole);
}
