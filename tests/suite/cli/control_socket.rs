//! Is the control socket found, and can only its owner use it?

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

/// Empty variables are treated as unset.
#[tokio::test]
async fn empty_variables_count_as_unset() {
    let folder = Folder::new();
    let ended = Program::new(["status"])
        .env("RELAYER_REST_CONTROL", "")
        .env("RELAYER_REST_CODE_CACHE", "")
        .env("XDG_RUNTIME_DIR", folder.as_path())
        .run()
        .await;
    let expected = format!(
        "relayer-rest: no server is running: there is no control socket in {}; start one with `relayer-rest serve`, or name its socket with --control PATH\n",
        folder.join("relayer-rest").display()
    );
    assert_eq!(ended.stderr, expected);
}

/// Sends bytes to the socket, and returns the status and body of the response.
fn raw(serving: &Serving, request: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(&serving.socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response[9..12].parse().unwrap();
    (status, response.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn invalid_requests_get_a_clear_error() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "[swap]\nsize = '1KiB'");
    let serving = Program::server().args(["--config", &config]).start().await;
    for (head, body, status, message) in [
        (
            "GET /",
            "",
            404,
            "unknown path /; expected one of GET /livez, GET /readyz, GET /metrics, GET /config, GET /openapi.json, GET /log-level, PUT /log-level, GET /status, POST /explain, GET /capsule, POST /swap, DELETE /swap, POST /rollback, POST /reload, POST /takeover",
        ),
        ("POST /status", "", 405, "method POST is not allowed on /status; use GET"),
        ("GET /rollback", "", 405, "method GET is not allowed on /rollback; use POST"),
        ("GET /status?a=b", "", 400, "unknown parameter a; expected none"),
        ("POST /rollback?mount=/&mount=/", "", 400, "duplicate parameter mount; give it once"),
        (
            "POST /swap?sha256=12",
            "",
            400,
            "sha256: \"12\" is not a SHA-256 digest; expected 64 hexadecimal digits, as `sha256sum` prints them",
        ),
        (
            "POST /swap?dialect=2",
            "",
            400,
            "dialect: unknown dialect \"2\"; expected 0.7, 1.13 or any",
        ),
        (
            "POST /swap?abort=true",
            "",
            400,
            "expect, min-requests, max-slowdown and abort are for a shadow; give its time, such as shadow=10min",
        ),
        (
            "POST /swap?shadow=1s&expect=a",
            "",
            400,
            "expect: not valid at line 1, column 2: key with no value, expected `=`",
        ),
        (
            "POST /swap?shadow=0s",
            "",
            400,
            "shadow: 0ns is out of range; expected more than 0 and at most 7days",
        ),
        (
            "DELETE /swap",
            "",
            409,
            "mount /: no shadow is in progress; start one with `swap --shadow`",
        ),
        ("POST /swap?mount=/x", "", 404, "unknown mount /x; expected one of /"),
        (
            "POST /swap",
            &"x".repeat(1025),
            413,
            "the component is larger than 1.0 KiB; raise swap.size",
        ),
    ] {
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let error = serde_json::json!({"error": message}).to_string();
        assert_eq!(raw(&serving, &request), (status, error), "{head}");
    }
    let dry =
        raw(&serving, "POST /swap?dry-run=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(dry.0, 400);
    let huge = folder.write("huge.wasm", [0; 2048]);
    let refused = serving.control(&["swap", &huge]).await;
    let message = format!(
        "rejected: mount /: module {huge}: the component is larger than 1.0 KiB; raise swap.size\n"
    );
    assert_eq!((refused.status, refused.stdout), (Some(1), message));
    let refused = raw(&serving, "POST /swap HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(refused.0, 409);
    assert!(refused.1.contains("\"outcome\":\"rejected\",\"reason\":\"invalid\""), "{}", refused.1);
    // The server still responds.
    serving.control_client().status().await.unwrap();
}

#[tokio::test]
async fn tunnels_and_large_heads_are_rejected() {
    let serving = Program::server().start().await;
    let tunnel = "CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\nGET /status HTTP/1.1\r\nhost: x\r\n\r\n";
    let error = r#"{"error":"CONNECT is not implemented"}"#.to_owned();
    assert_eq!(raw(&serving, tunnel), (501, error));
    let start = "GET /status HTTP/1.1\r\nhost: ";
    let large = format!("{start}{}", "x".repeat((64 << 10) - start.len()));
    assert_eq!(raw(&serving, &large).0, 431);
    let mut stream = UnixStream::connect(&serving.socket).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains("\r\nx-content-type-options: nosniff\r\n"), "{response}");
}

#[tokio::test]
async fn the_socket_is_private_and_removed_at_exit() {
    let serving = Program::server().start().await;
    let mode = fs::metadata(&serving.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let control = serving.socket.clone();
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().await.status, Some(0));
    assert!(!control.exists());
}

#[tokio::test]
async fn an_abandoned_socket_is_replaced_and_one_in_use_is_not() {
    let folder = Folder::new();
    let path = folder.join("c.sock");
    drop(UnixListener::bind(&path).unwrap());
    let first = Program::server().socket(&path).start().await;
    first.control_client().status().await.unwrap();
    let refused = Program::server().socket(&path).run().await;
    let message = format!(
        "relayer-rest: control socket {}: another server uses it; choose another with --control PATH, or use --no-control\n",
        path.display()
    );
    assert!(refused.stderr.ends_with(&message), "{}", refused.stderr);
    assert_eq!(refused.status, Some(2));
    let status = first.control_client().status().await.unwrap();
    assert_eq!(i64::from(status.pid), i64::from(first.id()));
    // A killed server does not remove its socket.
    first.signal(Signal::KILL);
    first.ended().await;
    assert!(path.exists());
    let second = Program::server().socket(&path).start().await;
    second.control_client().status().await.unwrap();
    let left: Vec<_> = fs::read_dir(folder.as_path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Any user with read access to a folder can lock it.
#[tokio::test]
async fn a_lock_on_the_folder_does_not_prevent_a_start() {
    let folder = Folder::new();
    let lock = fs::File::open(folder.as_path()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let serving = Program::server().socket(folder.join("c.sock")).start().await;
    serving.control_client().status().await.unwrap();
}

#[tokio::test]
async fn files_that_are_not_sockets_are_unchanged() {
    let folder = Folder::new();
    let path = folder.write("important", "text");
    let long = folder.join("x".repeat(120));
    for (path, part) in [
        (PathBuf::from(&path), "the path exists and is not a socket"),
        (long, "the path is longer than 107 bytes"),
        (folder.join("no/folder"), "choose a path in a folder of your own"),
    ] {
        let refused = Program::server().socket(&path).run().await;
        assert_eq!(refused.status, Some(2));
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "text");
}

#[tokio::test]
async fn a_server_serves_without_a_socket() {
    let serving = Program::server().args(["--no-control"]).start().await;
    assert!(!serving.socket.exists());
    assert_eq!(serving.connect().await.get("/version").await.status, 200);
}

/// Gives a program the runtime folder and the code cache of a user, and no control
/// socket.
fn with_defaults(runtime: &Folder, program: Program) -> Program {
    let cache = runtime.join("cache");
    let variables = program.env("XDG_RUNTIME_DIR", runtime.as_path()).env("XDG_CACHE_HOME", cache);
    variables.env("RELAYER_REST_CONTROL", "").env("RELAYER_REST_CODE_CACHE", "")
}

/// Returns the default control socket of a server.
fn default_socket(runtime: &Folder, server: &Serving) -> PathBuf {
    runtime.join(format!("relayer-rest/{}.sock", server.address()))
}

#[tokio::test]
async fn the_only_running_server_is_found() {
    let runtime = Folder::new();
    // A killed server leaves its socket behind.
    let killed = with_defaults(&runtime, Program::server()).start().await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let server = with_defaults(&runtime, Program::server()).start().await;
    let status = with_defaults(&runtime, Program::new(["status"])).run().await;
    let expected = format!("process {}, ", server.id());
    assert!(status.stdout.contains(&expected), "{}{}", status.stdout, status.stderr);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(default_socket(&runtime, &server)), 0o600);
    assert_eq!(mode(runtime.join("relayer-rest")), 0o700);
    assert_eq!(mode(runtime.join("cache/relayer-rest")), 0o700);
}

#[tokio::test]
async fn two_servers_of_one_user_have_distinct_sockets() {
    let runtime = Folder::new();
    let start = || with_defaults(&runtime, Program::server()).start();
    let servers = [start().await, start().await];
    let mut sockets = servers.each_ref().map(|server| default_socket(&runtime, server));
    sockets.sort_unstable();
    for verb in ["status", "rollback", "reload"] {
        let ended = with_defaults(&runtime, Program::new([verb])).run().await;
        assert_eq!(ended.status, Some(2), "{verb}");
        let [one, other] = sockets.each_ref().map(|socket| socket.display());
        let expected = format!(
            "relayer-rest: several servers are running: {one}, {other}; choose one with --control PATH\n"
        );
        assert_eq!(ended.stderr, expected, "{verb}");
    }
    for server in &servers {
        let socket = default_socket(&runtime, server);
        let status = Program::new(["status", "--control"]).args([socket]).run().await;
        let expected = format!("process {}, ", server.id());
        assert!(status.stdout.contains(&expected), "{}", status.stdout);
    }
}
