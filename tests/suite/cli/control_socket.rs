//! Is the control socket found, and can only its owner use it?

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use relayer_rest_host::control::ControlClient;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::command::{self, Ended, Serving};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

async fn serve(args: &[&str]) -> Serving {
    let args: Vec<_> = ["--listen", "127.0.0.1:0"].iter().chain(args).collect();
    command::serve(program(), &args).await
}

async fn serve_at(control: &Path) -> Serving {
    command::serve_at(program(), &["--listen", "127.0.0.1:0"], control.to_owned()).await
}

/// Runs a command that controls a server.
async fn control(serving: &Serving, args: &[&str]) -> Ended {
    command::run_for(program(), args, &serving.control).await
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn kill(serving: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(serving.id()).unwrap(), signal).unwrap();
}

fn client(serving: &Serving) -> ControlClient {
    ControlClient::new(&serving.control)
}

/// Empty variables are treated as unset.
#[tokio::test]
async fn an_empty_variable_is_none() {
    let folder = folder();
    let ended = tokio::process::Command::new(program())
        .args(["status"])
        .envs([("RELAYER_REST_CONTROL", ""), ("RELAYER_REST_CODE_CACHE", "")])
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let expected = format!(
        "relayer-rest: no server is running: there is no control socket in {}; start one with `relayer-rest serve`, or name its socket with --control PATH\n",
        folder.path().join("relayer-rest").display()
    );
    assert_eq!(said, expected);
}

/// Sends bytes to the socket, and returns the status and body of the response.
fn raw(serving: &Serving, request: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(&serving.control).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer[9..12].parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn bad_requests_to_the_socket_get_a_clear_error() {
    let folder = folder();
    let config = file(&folder, "c.toml", "[swap]\nsize = '1KiB'");
    let serving = serve(&["--config", &config]).await;
    for (head, body, status, message) in [
        (
            "GET /",
            "",
            404,
            "there is no /; there are GET /status, POST /swap, POST /rollback and POST /reload",
        ),
        ("POST /status", "", 405, "POST is not allowed on /status; GET is"),
        ("GET /rollback", "", 405, "GET is not allowed on /rollback; POST is"),
        ("GET /status?a=b", "", 400, "there is no parameter a; there are none"),
        ("POST /rollback?mount=/&mount=/", "", 400, "the parameter mount is there twice"),
        (
            "POST /swap?sha256=12",
            "",
            400,
            "sha256: \"12\" is not a SHA-256: 64 hexadecimal digits, as `sha256sum` prints them",
        ),
        (
            "POST /swap?dialect=2",
            "",
            400,
            "dialect: there is no dialect \"2\"; there are 0.7, 1.13 and any",
        ),
        ("POST /swap?mount=/x", "", 404, "nothing is mounted at /x; there are /"),
        (
            "POST /swap",
            &"x".repeat(1025),
            413,
            "the component is larger than 1.0 KiB; raise swap.size where that is right",
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
    let huge = file(&folder, "huge.wasm", [0; 2048]);
    let refused = control(&serving, &["swap", &huge]).await;
    let message = format!(
        "refused: mount /: module {huge}: the component is larger than 1.0 KiB; raise swap.size where that is right\n"
    );
    assert_eq!((refused.status, refused.stdout), (Some(1), message));
    let refused = raw(&serving, "POST /swap HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(refused.0, 409);
    assert!(refused.1.contains("\"outcome\":\"rejected\",\"reason\":\"invalid\""), "{}", refused.1);
    // The server still responds.
    client(&serving).status().await.unwrap();
}

#[tokio::test]
async fn the_socket_refuses_tunnels_and_large_heads() {
    let serving = serve(&[]).await;
    let tunnel = "CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\nGET /status HTTP/1.1\r\nhost: x\r\n\r\n";
    let error = r#"{"error":"CONNECT is not implemented"}"#.to_owned();
    assert_eq!(raw(&serving, tunnel), (501, error));
    let start = "GET /status HTTP/1.1\r\nhost: ";
    let large = format!("{start}{}", "x".repeat((64 << 10) - start.len()));
    assert_eq!(raw(&serving, &large).0, 431);
    let mut stream = UnixStream::connect(&serving.control).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{answer}");
}

#[tokio::test]
async fn the_socket_is_its_owners_and_goes_with_the_process() {
    let serving = serve(&[]).await;
    let mode = fs::metadata(&serving.control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let control = serving.control.clone();
    kill(&serving, Signal::TERM);
    assert_eq!(serving.ended().await.status, Some(0));
    assert!(!control.exists());
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_taken_over_and_one_in_use_is_not() {
    let folder = folder();
    let path = folder.path().join("c.sock");
    drop(UnixListener::bind(&path).unwrap());
    let first = serve_at(&path).await;
    client(&first).status().await.unwrap();
    let refused = command::run_for(program(), &["--listen", "127.0.0.1:0"], &path).await;
    let message = format!(
        "relayer-rest: control socket {}: another server is controlled there; choose another with --control PATH, or do without with --no-control\n",
        path.display()
    );
    assert!(refused.stderr.ends_with(&message), "{}", refused.stderr);
    assert_eq!(refused.status, Some(2));
    let status = client(&first).status().await.unwrap();
    assert_eq!(i64::from(status.pid), i64::from(first.id()));
    // A killed server does not remove its socket.
    kill(&first, Signal::KILL);
    first.ended().await;
    assert!(path.exists());
    let second = serve_at(&path).await;
    client(&second).status().await.unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Any user with read access to a folder can lock it.
#[tokio::test]
async fn who_locks_the_folder_does_not_keep_the_server_from_starting() {
    let folder = folder();
    let lock = fs::File::open(folder.path()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let serving = serve_at(&folder.path().join("c.sock")).await;
    client(&serving).status().await.unwrap();
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let folder = folder();
    let path = file(&folder, "important", "text");
    let long = folder.path().join("x".repeat(120));
    for (path, part) in [
        (PathBuf::from(&path), "this is no socket, and it is left alone"),
        (long, "the path is longer than 107 bytes"),
        (folder.path().join("no/folder"), "choose a path in a folder of your own"),
    ] {
        let refused = command::run_for(program(), &["--listen", "127.0.0.1:0"], &path).await;
        assert_eq!(refused.status, Some(2));
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(path).unwrap(), "text");
}

#[tokio::test]
async fn a_server_without_a_socket_serves() {
    let serving = serve(&["--no-control"]).await;
    assert!(!serving.control.exists());
    assert_eq!(Client::http1(serving.address()).await.get("/version").await.status, 200);
}

/// A server with its default socket in a runtime folder.
struct WithDefaults {
    process: std::process::Child,
    address: String,
}

impl WithDefaults {
    fn command(runtime: &TempDir, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(program());
        command.args(args).env_remove("RELAYER_REST_CONTROL");
        command.env("XDG_RUNTIME_DIR", runtime.path());
        command.env("XDG_CACHE_HOME", runtime.path().join("cache"));
        command
    }

    fn start(runtime: &TempDir) -> Self {
        let mut command = Self::command(runtime, &["serve", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().to_owned();
        Self { process, address }
    }

    fn socket(&self, runtime: &TempDir) -> PathBuf {
        runtime.path().join("relayer-rest").join(format!("{}.sock", self.address))
    }
}

impl Drop for WithDefaults {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn the_only_running_server_is_found() {
    let runtime = folder();
    // A killed server leaves its socket behind.
    drop(WithDefaults::start(&runtime));
    let server = WithDefaults::start(&runtime);
    let output = WithDefaults::command(&runtime, &["status"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("process {}, ", server.process.id())), "{said}");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(server.socket(&runtime)), 0o600);
    assert_eq!(mode(runtime.path().join("relayer-rest")), 0o700);
    assert_eq!(mode(runtime.path().join("cache/relayer-rest")), 0o700);
}

#[tokio::test]
async fn two_servers_of_one_user_run_side_by_side() {
    let runtime = folder();
    let servers = [WithDefaults::start(&runtime), WithDefaults::start(&runtime)];
    let mut sockets = servers.each_ref().map(|server| server.socket(&runtime));
    for verb in ["status", "rollback", "reload"] {
        let output = WithDefaults::command(&runtime, &[verb]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{verb}");
        sockets.sort_unstable();
        let [one, other] = sockets.each_ref().map(|socket| socket.display());
        let expected = format!(
            "relayer-rest: several servers are running; choose one with --control PATH: {one}, {other}\n"
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected, "{verb}");
    }
    for server in &servers {
        let socket = server.socket(&runtime);
        let args = ["status", "--control", socket.to_str().unwrap()];
        let output = WithDefaults::command(&runtime, &args).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!("process {}, ", server.process.id())), "{said}");
    }
}
