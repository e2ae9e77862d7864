//! Does `watch` print each change of a response as a line of JSON?

use std::net::TcpListener;
use std::process::Stdio;

use relayer_rest_host::LiveLimits;
use relayer_rest_host::state::{Object, Worker};
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::TestServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener as AsyncListener;

use super::check_failure;
use crate::http::live_streams::apply;
use crate::http::tls;

/// Starts to watch, and returns the process with the first line of its output.
async fn watch(args: &[&str]) -> (Serving, Value) {
    let program = Program::new([&["watch"], args].concat());
    let watching = program.try_start().await.unwrap();
    let first = serde_json::from_str(&watching.line).unwrap();
    (watching, first)
}

async fn next(watching: &mut Serving) -> Value {
    serde_json::from_str(&watching.printed("").await).unwrap()
}

/// Returns the next event, which is a change.
async fn next_change(watching: &mut Serving) -> Value {
    let event = next(watching).await;
    assert_eq!(event["event"], "change");
    event
}

fn add_worker(server: &TestServer, id: u64) {
    let object = Object::Wallet { chain_id: "ibc-0".into() };
    server.publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_a_line_of_json() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server, 10_000 + id));
    let url = format!("http://{}/state", server.address);
    let (mut whole, first) = watch(&[&url]).await;
    let (mut patched, mut state) = watch(&[&url, "--patch", "-H", "x-a: b"]).await;
    assert_eq!(first, state);
    assert_eq!(first["event"], "change");
    let mut state = state["data"].take();
    for id in 1_000..1_003 {
        add_worker(&server, id);
        let change = next(&mut whole).await;
        let now = server.get("/state").await;
        let body: Value = serde_json::from_slice(&now.body).unwrap();
        let etag = now.header("etag");
        assert_eq!(change, json!({"event": "change", "id": etag, "data": body}));
        let patch = next(&mut patched).await;
        assert_eq!((&patch["event"], &patch["id"]), (&json!("patch"), &json!(etag)));
        apply(&mut state, patch["data"].clone());
        assert_eq!(state, body);
    }
    // Multiple lines of a body are one line of output.
    let text = component::of_response(200, &[("content-type", b"text/plain")], b"a\n\"b\"");
    server.swap(text).await;
    assert_eq!(next(&mut whole).await["data"], "a\n\"b\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_watched_again_from_the_last_change() {
    let files = Folder::new();
    let state = |id: u64| {
        let worker = json!({"id": id, "object": {"type": "Wallet", "chain_id": "a"}});
        json!({"chains": ["a"], "workers": {"Wallet": [worker]}}).to_string()
    };
    let file = files.write("state.json", state(1));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = files.write("config.toml", include_str!("../../fixtures/hermes-0.7.toml"));
    let program = Program::new(["serve", "--relayer-config", &config, "--state", &file]);
    let program = program.listening_on(&listener);
    let serving = program.clone().start().await;
    let (mut watching, first) = watch(&[&format!("{}/state", serving.url())]).await;
    assert_eq!(first["data"]["result"]["workers"]["Wallet"][0]["id"], 1);
    // The stream ends with the time after which the client connects again.
    serving.stop().await;
    watching.logged("the server has ended the stream; connecting again in").await;
    let serving = program.clone().start().await;
    // A request that succeeds tells that the server has answered those before it.
    files.replace("state.json", state(2));
    let line = next_change(&mut watching).await;
    assert_eq!(line["data"]["result"]["workers"]["Wallet"][0]["id"], 2, "{line}");
    // Without a goodbye.
    serving.signal(Signal::KILL);
    watching.logged("connecting again in").await;
    files.replace("state.json", state(3));
    let _serving = program.start().await;
    assert_eq!(next_change(&mut watching).await["data"]["result"]["workers"]["Wallet"][0]["id"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_ends_when_the_output_is_closed() {
    let server = TestServer::start().await;
    let url = format!("http://{}/state", server.address);
    let mut command = Program::new(["watch", &url]).command();
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    drop(output);
    add_worker(&server, 1_000);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_without_events_are_errors() {
    let server = TestServer::start().await;
    let base = format!("http://{}", server.address);
    let absent = format!("{base}/chain/absent");
    let text = "URL \"/state\": not one of HTTP; expected such as http://127.0.0.1:3000/state";
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unused = format!("http://{unused}/state");
    for (args, message) in [
        (&["/state"][..], text.to_owned()),
        (&["ftp://a/state"], "URL \"ftp://a/state\": not one of HTTP".to_owned()),
        (&[&absent], format!("{absent}: 404 Not Found: ")),
        (&[&unused], format!("{unused}: ")),
        (&[&base, "-H", "a"], "header \"a\": no colon".to_owned()),
        (&[&base, "-H", "a: \u{7}"], "header \"a: \\u{7}\": ".to_owned()),
    ] {
        let ended = Program::new([&["watch"], args].concat()).run().await;
        check_failure(&ended, 2, &message);
    }
    let image = component::of_response(200, &[("content-type", b"image/png")], b"a");
    server.swap(image).await;
    let ended = Program::new(["watch", &base]).run().await;
    check_failure(&ended, 2, &format!("{base}/: 406 Not Acceptable: the response is not text"));
}

/// Sends each response on a connection of its own. Returns the ids after which the requests
/// continue.
async fn respond(listener: AsyncListener, responses: Vec<String>) -> Vec<Option<String>> {
    let mut ids = Vec::new();
    for response in responses {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(&mut socket).lines();
        let mut id = None;
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            id = line.strip_prefix("last-event-id: ").map(str::to_owned).or(id);
        }
        ids.push(id);
        socket.write_all(response.as_bytes()).await.unwrap();
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_after_the_first_event_ends_the_command_if_it_is_permanent() {
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nretry: 1\n";
    let text = |status: &str| {
        format!("HTTP/1.1 {status}\r\nretry-after: 0\r\nconnection: close\r\n\r\nbody")
    };
    for (last, message) in [
        (text("404 Not Found"), "404 Not Found: body"),
        (text("406 Not Acceptable"), "406 Not Acceptable: body"),
        (text("200 OK"), "not a stream of events; "),
    ] {
        let listener = AsyncListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let responses = vec![
            format!("{STREAM}id: a\ndata: 1\n\n"),
            // No response.
            String::new(),
            text("503 Service Unavailable"),
            text("429 Too Many Requests"),
            format!("{STREAM}event: failed\nid:\ndata: 2\n\n"),
            last,
        ];
        let responding = tokio::spawn(respond(listener, responses));
        let (mut watching, first) = watch(&[&url]).await;
        assert_eq!(first, json!({"event": "", "id": "a", "data": 1}));
        let failed = next(&mut watching).await;
        assert_eq!(failed, json!({"event": "failed", "id": null, "data": 2}));
        check_failure(&watching.ended().await, 2, &format!("{url}: {message}"));
        let a = Some("a".to_owned());
        let ids = responding.await.unwrap();
        assert_eq!(ids, [None, a.clone(), a.clone(), a.clone(), a, None]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_stream_is_tried_again() {
    let live = LiveLimits { waiters: 0, ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    let spawned = Program::new(["watch", &format!("http://{}/state", server.address)]).spawn();
    let mut log = BufReader::new(spawned.child.stderr.unwrap());
    let mut warning = String::new();
    log.read_line(&mut warning).await.unwrap();
    let reason = "503 Service Unavailable: too many requests are being handled; try again; connecting again in 1.0 s";
    assert!(warning.contains(reason), "{warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_watched() {
    let files = Folder::new();
    let authority = Authority::new();
    authority.issue("localhost").write(&files, "a");
    let (_serving, address) = tls::serving(&files, tls::CERTIFICATE).await;
    let roots = files.write("roots.pem", authority.pem());
    let url = format!("https://localhost:{}/state", address.port());
    let trusting = Program::new(["watch", &url]).env("SSL_CERT_FILE", &roots);
    let watching = trusting.try_start().await.unwrap();
    assert!(watching.line.starts_with("{\"event\":\"change\""), "{}", watching.line);
    let other = files.write("other.pem", Authority::new().pem());
    let ended = Program::new(["watch", &url]).env("SSL_CERT_FILE", &other).run().await;
    check_failure(&ended, 2, &format!("{url}: "));
}
