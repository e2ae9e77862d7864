//! Does a new process take over a running server without a lost request, with all sockets and a
//! warm cache?

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::client::{Client, raw};
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script, state};
use relayer_rest_tests::steady_clients::SteadyClients;
use relayer_rest_tests::wait::{until_async, within};
use rustix::process::Signal;

use super::check_failure;
use crate::http::tls::{TlsClient, get};

/// The responses before each takeover.
const RESPONSES: usize = 100;

/// The head of a request for a takeover.
const REQUEST: &str = "POST /takeover HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: relayer-rest-takeover\r\n\r\n";

/// Starts a server that takes over another one, which ends with 0.
async fn take_over(old: Serving, program: &Program) -> Serving {
    let new = program.clone().args(["--takeover"]).start().await;
    let ended = old.ended().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    new
}

async fn check(takeovers: usize) {
    let program = Program::server();
    let mut serving = program.clone().start().await;
    let address = serving.address();
    let clients = SteadyClients::start(address, Duration::ZERO);
    for _ in 0..takeovers {
        clients.progress(RESPONSES).await;
        serving = take_over(serving, &program).await;
        assert_eq!(serving.address(), address);
    }
    clients.progress(RESPONSES).await;
    assert_eq!(clients.end().await, [""; 0]);
    let control = serving.socket.clone();
    serving.stop().await;
    assert!(!control.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_loses_no_request() {
    check(3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: takes over 50 times"]
async fn fifty_takeovers_lose_no_request() {
    check(50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_works_at_each_moment() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[admin]\nlisten = '127.0.0.1:0'\n");
    let program = Program::server().args(["--config", &settings]);
    let mut old = program.clone().start().await;
    old.logged("admin listener ready").await;
    let admin: SocketAddr = old.log().rsplit_once("address=").unwrap().1.trim().parse().unwrap();
    let client = old.control_client();
    let has_ended = Arc::new(AtomicBool::new(false));
    let controls = tokio::spawn({
        let has_ended = Arc::clone(&has_ended);
        async move {
            while !has_ended.load(SeqCst) {
                client.status().await.unwrap();
            }
        }
    });
    let new = take_over(old, &program).await;
    has_ended.store(true, SeqCst);
    controls.await.unwrap();
    let status = new.control_client().status().await.unwrap();
    assert_eq!(i32::try_from(status.pid), Ok(new.id()));
    let head = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let response = raw(admin, head.as_bytes()).await;
    assert!(response.ends_with("\r\n\r\nok"), "{response}");
    // File descriptors do not pass over TCP.
    let head =
        REQUEST.replace("host: x", "host: localhost").replace("upgrade\r\nup", "close\r\nup");
    let response = raw(admin, head.as_bytes()).await;
    let message = "a takeover passes sockets, which TCP cannot; use the control socket";
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    assert!(response.ends_with(&format!("{{\"error\":\"{message}\"}}")), "{response}");
    new.stop().await;
}

/// Returns the response to a request on a Unix socket.
fn unix_get(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET /version HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test]
async fn the_last_server_removes_the_files_of_unix_sockets() {
    let files = Folder::new();
    let api = files.join("api.sock");
    let program = Program::new(["--listen", &format!("unix:{}", api.display())]);
    let mut serving = program.clone().start().await;
    for _ in 0..2 {
        serving = take_over(serving, &program).await;
        assert!(unix_get(&api).starts_with("HTTP/1.1 200 OK\r\n"));
    }
    let control = serving.socket.clone();
    serving.stop().await;
    assert!(!api.exists() && !control.exists());
}

#[tokio::test]
async fn changed_addresses_take_effect() {
    let files = Folder::new();
    let [removed, added] = ["removed.sock", "added.sock"].map(|name| files.join(name));
    let listen = |path: &Path| format!("unix:{}", path.display());
    let control = files.join("control");
    let program =
        |path: &Path| Program::server().args(["--listen", &listen(path)]).socket(&control);
    let old = program(&removed).start().await;
    let address = old.address();
    let mut new = take_over(old, &program(&added)).await;
    assert_eq!(new.address(), address);
    assert!(!removed.exists());
    assert!(unix_get(&added).starts_with("HTTP/1.1 200 OK\r\n"));
    let path = removed.display();
    new.logged(&format!("socket is not in the settings; it will be closed address=unix:{path}"))
        .await;
    new.stop().await;
    assert!(!added.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_a_service_manager_are_taken_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The default address of a server, which this one does not have.
    let program = Program::new(["serve", "--upstream", "http://127.0.0.1:3000"]);
    let mut serving = program.clone().listening_on(&listener).start().await;
    for _ in 0..2 {
        serving = take_over(serving, &program).await;
        assert_eq!(serving.address(), listener.local_addr().unwrap());
    }
    serving.stop().await;
}

#[tokio::test]
async fn certificates_are_those_of_the_new_settings() {
    let files = Folder::new();
    let authority = Authority::new();
    authority.issue("localhost").write(&files, "server");
    let settings = files.write(
        "c.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\n[[listen.tls]]\ncertificate = 'server.pem'\nkey = 'server.key'\n",
    );
    let program = Program::new(["--config", &settings]);
    let old = program.clone().start().await;
    let line = old.line.clone();
    let new = take_over(old, &program).await;
    assert_eq!(new.line, line);
    let address = line.strip_prefix("https://").unwrap().parse().unwrap();
    let client = TlsClient::default();
    let mut stream = client.connect(address, "localhost", &authority).await.unwrap();
    assert!(get(&mut stream, "localhost").await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    drop(stream);
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_of_the_new_server_is_warm() {
    let relayer = Relayer::start(Script::of_1_13());
    let program = Program::server().args(["--upstream", &relayer.url()]);
    let old = program.clone().start().await;
    let mut client = old.connect().await;
    client.get_until_known().await;
    let expected = client.get("/state").await.body;
    let chains = client.get("/chains").await.body;
    drop(client);
    let mut new = take_over(old, &program).await;
    let mut client = new.connect().await;
    assert_eq!(client.get("/state").await.body, expected);
    assert_eq!(client.get("/chains").await.body, chains);
    let metrics = new.control_client().metrics().await.unwrap();
    for (name, value) in [("hits", 2), ("misses", 0)] {
        let line = format!("relayer_rest_cache_{name}_total{{mount=\"/\"}} {value}");
        assert!(metrics.lines().any(|known| known == line), "{line} in {metrics}");
    }
    new.logged("cache warmed requests=").await;
    let line = new.log().lines().last().unwrap();
    assert!(line.ends_with(" failures=0 not_ready=0"), "{line}");
    new.stop().await;
}

/// Clients that wait for a change on the old process continue on the new one, and miss nothing.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_clients_continue_on_the_new_server() {
    let files = Folder::new();
    let config = files.write("config.toml", include_str!("../../fixtures/hermes-0.7.toml"));
    let file = files.write("state.json", state(&["ibc-0"], 1, true).to_string());
    let sources = ["--relayer-config", &config, "--state", &file];
    let program = Program::server().args(sources).args(["--grace", "8s"]);
    let old = program.clone().start().await;
    let mut client = old.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    let last = events.next().await.unwrap();
    let etag = last.id.clone().unwrap();
    let mut polling = old.connect().await;
    let waiting = tokio::spawn({
        let etag = etag.clone();
        async move {
            let headers = [("if-none-match", &*etag), ("prefer", "wait=300")];
            polling.request_with("GET", "/state", &headers).await
        }
    });
    let control = old.control_client();
    let both = "relayer_rest_live_waiters 2";
    let both_wait = async || control.metrics().await.unwrap().lines().any(|line| line == both);
    until_async("both clients wait", both_wait).await;
    // The old process ends with 0, and so within its grace.
    let new = take_over(old, &program).await;
    assert_eq!(within("the end of the wait", waiting).await.unwrap().status, 304);
    assert_eq!(events.next().await, None);
    assert!(events.retry.is_some());
    let mut client = new.connect().await;
    let mut events = Events::open(&mut client, "/state", &[("last-event-id", &etag)]).await;
    assert_eq!(events.next_block().await.unwrap(), ":");
    files.replace("state.json", state(&["ibc-0"], 2, true).to_string());
    let changed = events.next().await.unwrap();
    assert_ne!(changed.id, last.id);
    assert_eq!(changed.data, new.connect().await.get("/state").await.text());
    new.stop().await;
}

#[tokio::test]
async fn a_module_that_was_swapped_in_is_reported() {
    let files = Folder::new();
    let module = files.write("other.wasm", component::noted(DEFAULT_MODULE, "other"));
    let program = Program::server();
    let old = program.clone().start().await;
    let before = old.label("/version").await;
    assert_eq!(old.control(&["swap", &module]).await.status, Some(0));
    let swapped = old.label("/version").await;
    let mut new = take_over(old, &program).await;
    new.logged("module differs from that of the running server").await;
    let line = new.log().lines().last().unwrap();
    assert!(line.contains(&format!("running=\"{swapped}\" module=\"{before}\"")), "{line}");
    assert_eq!(new.label("/version").await, before);
    new.stop().await;
}

/// Sends a request to the control socket, and returns the connection and the head of the
/// response.
fn request(serving: &Serving, request: &str) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(&serving.socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    (stream, String::from_utf8(head).unwrap())
}

fn rest(mut stream: UnixStream) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    rest
}

#[tokio::test]
async fn a_takeover_that_is_aborted_changes_nothing() {
    let program = Program::server();
    let mut old = program.clone().start().await;
    let (stream, head) = request(&old, REQUEST);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // One at a time.
    let second = program.clone().args(["--takeover"]).run().await;
    let busy = "--takeover: another takeover is in progress; wait for its end";
    check_failure(&second, 2, busy);
    drop(stream);
    old.logged("takeover aborted reason=the other process has closed the connection").await;
    let (mut stream, _) = request(&old, REQUEST);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    old.logged("takeover aborted reason=a message of 1195725856 bytes is longer than").await;
    drop(stream);
    // The new process fails after it has received the sockets.
    let failed = program.clone().args(["--takeover", "--listen", "192.0.2.1:1"]).run().await;
    check_failure(&failed, 2, "address 192.0.2.1:1: cannot listen: ");
    old.logged("takeover aborted").await;
    assert_eq!(old.connect().await.get("/version").await.status, 200);
    assert_eq!(old.control(&["status"]).await.status, Some(0));
    let new = take_over(old, &program).await;
    new.stop().await;
}

#[tokio::test]
async fn other_requests_for_a_takeover_get_a_clear_error() {
    let serving = Program::server().start().await;
    let plain = "POST /takeover HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let (stream, head) = request(&serving, plain);
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    assert!(head.contains("\r\nupgrade: relayer-rest-takeover\r\n"), "{head}");
    let message = "a takeover needs the headers connection: upgrade and upgrade: relayer-rest-takeover; start `relayer-rest serve --takeover`";
    assert_eq!(rest(stream), format!("{{\"error\":\"{message}\"}}"));
    serving.stop().await;
}

#[tokio::test]
async fn a_server_that_drains_is_not_taken_over() {
    let (serving, pending) = super::spinning(&["--grace", "1h"]).await;
    let address = serving.address();
    serving.signal(Signal::TERM);
    // It does not listen any more.
    let is_closed = async || Client::try_http1(address).await.is_err();
    until_async("the server does not listen", is_closed).await;
    let refused = Program::server().args(["--takeover"]).socket(&serving.socket).run().await;
    let message =
        "--takeover: the server is shutting down; start a server without --takeover after its end";
    check_failure(&refused, 2, message);
    pending.abort();
}

#[tokio::test]
async fn a_takeover_needs_a_running_server() {
    let files = Folder::new();
    let socket = files.join("missing");
    let ended = Program::server().args(["--takeover"]).socket(&socket).run().await;
    let message = format!(
        "--takeover: control socket {}: No such file or directory (os error 2); start a server",
        socket.display()
    );
    check_failure(&ended, 2, &message);
    let without = |args: [&str; 2]| {
        let program = Program::new(args).args(["--takeover"]).socket("");
        program.env("XDG_RUNTIME_DIR", files.as_path()).run()
    };
    let ended = without(["--listen", "127.0.0.1:1"]).await;
    let message = "--takeover: no server with a control socket listens on 127.0.0.1:1; start without --takeover, or";
    check_failure(&ended, 2, message);
    let ended = without(["--listen", "127.0.0.1:0"]).await;
    check_failure(&ended, 2, "--takeover: no server is running: there is no control socket in ");
    let ended = Program::server().args(["--takeover", "--no-control"]).run().await;
    check_failure(
        &ended,
        2,
        "--takeover: the running server is found by its control socket; remove --no-control",
    );
}

/// The control socket is found by the address that clients use.
#[tokio::test]
async fn the_default_control_socket_is_found_by_the_address() {
    let files = Folder::new();
    let start = |args: &[&str]| {
        let program = Program::new(args).socket("");
        program.env("XDG_RUNTIME_DIR", files.as_path())
    };
    let old = start(&["--listen", "127.0.0.1:0"]).start().await;
    let other = start(&["--listen", "127.0.0.1:0"]).start().await;
    let address = format!("localhost:{}", old.address().port());
    let new = take_over(old, &start(&["--listen", &address])).await;
    new.stop().await;
    other.stop().await;
}
