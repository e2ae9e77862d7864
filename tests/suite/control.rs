//! Can a running server be controlled only by its owner, and are a module's faults found
//! before the module serves?

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::{ConnectionStatus, ControlClient};
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, MODULE_1_13};
use relayer_rest_host::registry::{Candidate, Outcome, SwapReport, SwapStep};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::command::{self, Ended, Serving};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::measure;
use relayer_rest_tests::server::candidate;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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

fn short(component: &[u8]) -> String {
    Digest::of(component).short()
}

async fn label(serving: &Serving, path: &str) -> String {
    Client::http1(serving.address()).await.get(path).await.header("x-relayer-module").to_owned()
}

fn kill(serving: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(serving.id()).unwrap(), signal).unwrap();
}

fn client(serving: &Serving) -> ControlClient {
    ControlClient::new(&serving.control)
}

fn any(component: Vec<u8>) -> Candidate {
    Candidate { dialect: Some(Dialect::Any), ..candidate(component) }
}

#[tokio::test]
async fn a_running_server_is_given_another_module_and_the_old_one_back() {
    let folder = folder();
    let new = component::noted(DEFAULT_MODULE, "new");
    let path = file(&folder, "new.wasm", &new);
    let (from, to) = (short(DEFAULT_MODULE), short(&new));
    let serving = serve(&[]).await;

    let trial = control(&serving, &["swap", &path, "--dry-run"]).await;
    let said = format!(
        "0 of 5 requests are answered differently\nnothing was changed: {from} serves; {to} could\n"
    );
    assert_eq!((trial.status, trial.stderr.as_str()), (Some(0), ""));
    assert!(trial.stdout.ends_with(&said), "{}", trial.stdout);
    assert_eq!(label(&serving, "/chains").await, format!("api@{from}"));

    let digest = Digest::of(&new).to_string();
    let swap = control(&serving, &["swap", &path, "--sha256", &digest]).await;
    assert_eq!(swap.status, Some(0));
    let steps = swap.stdout.lines().map(|line| line.split(' ').next().unwrap());
    let expected = ["read", "compile", "probe", "compare", "warm", "activate", "0", "exchanged:"];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
    assert!(swap.stdout.ends_with(&format!("exchanged: {from} -> {to}\n")), "{}", swap.stdout);
    assert_eq!(label(&serving, "/chains").await, format!("api@{to}"));

    let again = control(&serving, &["swap", &path]).await;
    assert_eq!(again.status, Some(0));
    assert!(again.stdout.ends_with(&format!("nothing to do: {to} serves already\n")));

    let back = control(&serving, &["rollback"]).await;
    assert_eq!((back.status, back.stdout), (Some(0), format!("rolled back: {to} -> {from}\n")));
    for _ in 0..2 {
        let back = control(&serving, &["rollback", "--json"]).await;
        let back: Value = serde_json::from_str(&back.stdout).unwrap();
        assert_eq!(back["mount"], "/");
    }
    assert_eq!(label(&serving, "/chains").await, format!("api@{from}"));

    let status = control(&serving, &["status"]).await;
    assert_eq!(status.status, Some(0));
    for part in [
        &format!("process {}, knows what the relayer is doing", serving.id()),
        &format!("/  api@{from}"),
        &format!("  before it: {to}"),
    ] {
        assert!(status.stdout.contains(part), "{part} is not in: {}", status.stdout);
    }
    let status = control(&serving, &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["mounts"][0]["previous"], digest);
    assert_eq!(status["mounts"][0]["module"]["digest"], Digest::of(DEFAULT_MODULE).to_string());
}

/// The counters include waiting, closed and refused connections.
#[tokio::test]
async fn the_status_counts_the_connections_of_clients() {
    let folder = folder();
    file(&folder, "spins.wasm", component::that_spins_on_spin());
    let settings = "[module]\nfile = 'spins.wasm'\ndialect = 'any'\nlimits.time = '1min'\n[http]\nconnections = 2\n";
    let serving = serve(&["--config", &file(&folder, "c.toml", settings)]).await;
    let client = ControlClient::new(&serving.control);
    let status = async || client.status().await.unwrap();
    let counted = async |open, accepted, refused| {
        let expected = ConnectionStatus { open, accepted, refused, evicted: 0, unsent: 0 };
        while status().await.connections != Some(expected) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    counted(0, 0, 0).await;
    drop(TcpStream::connect(serving.address()).await.unwrap());
    counted(0, 1, 0).await;
    let mut waiting = Vec::new();
    // Different requests, since equal ones would share a run.
    for (number, method) in ["GET", "POST"].into_iter().enumerate() {
        let mut stream = TcpStream::connect(serving.address()).await.unwrap();
        let request = format!("{method} /spin HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        while status().await.mounts[0].module.runs <= number as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        waiting.push(stream);
    }
    counted(2, 3, 0).await;
    let mut one_more = TcpStream::connect(serving.address()).await.unwrap();
    one_more.read_to_end(&mut Vec::new()).await.unwrap();
    counted(2, 3, 1).await;
    let said = control(&serving, &["status"]).await.stdout;
    assert!(said.contains("\nconnections: 2 open, 3 accepted, 1 refused, 0 evicted; 0 B not taken by clients\n/  api@"), "{said}");
}

#[tokio::test]
async fn a_module_that_is_refused_is_said_to_be_on_one_screen() {
    let folder = folder();
    let path = file(&folder, "new.wasm", component::of_answer(200, "a", b"b"));
    let serving = serve(&[]).await;
    let swap = control(&serving, &["swap", &path]).await;
    assert_eq!(swap.status, Some(1));
    for part in [
        "\nrule version-shape: on the state 'sample': /version: the body is not JSON",
        &format!("refused: mount /: module {path}: does not speak the dialect 0.7"),
        &format!("{} goes on to serve", short(DEFAULT_MODULE)),
    ] {
        assert!(swap.stdout.contains(part), "{part} is not in: {}", swap.stdout);
    }
    let json = control(&serving, &["swap", &path, "--json"]).await;
    assert_eq!(json.status, Some(1));
    let report: SwapReport = serde_json::from_str(&json.stdout).unwrap();
    assert!(matches!(report.outcome, Outcome::Rejected { .. }));
    let any = control(&serving, &["swap", &path, "--dialect", "any"]).await;
    assert_eq!(any.status, Some(0));
    assert!(any.stdout.contains("  GET /version (not asked by clients yet)\n"));
    assert!(any.stdout.contains("\n    header content-type: application/json -> nothing\n"));
}

#[tokio::test]
async fn what_cannot_be_done_is_said_in_a_line() {
    let folder = folder();
    let serving = serve(&[]).await;
    let nowhere = folder.path().join("nowhere.sock");
    let nowhere = nowhere.to_str().unwrap();
    let long = format!("/{}", "a".repeat(70_000));
    for (args, message) in [
        (
            vec!["status", "--control", nowhere],
            format!("control socket {nowhere}: No such file or directory (os error 2); no relayer-rest is controlled there: is it running, and with the same --control?"),
        ),
        (
            vec!["rollback"],
            format!("mount /: there is no module to go back to: {} has been in service since the start, or was put back", short(DEFAULT_MODULE)),
        ),
        (
            vec!["rollback", "--mount", "/ext/a"],
            "nothing is mounted at /ext/a; there are /".to_owned(),
        ),
        (
            vec!["swap", "/nowhere/x.wasm"],
            "module /nowhere/x.wasm: cannot be read: No such file or directory (os error 2); check the path and its permissions".to_owned(),
        ),
        (
            vec!["rollback", "--mount", &long],
            "the mount and the file's name are longer than a request can be; give shorter ones".to_owned(),
        ),
    ] {
        let ended = control(&serving, &args).await;
        assert_eq!(ended.stderr, format!("relayer-rest: {message}\n"));
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""));
    }
}

/// `--json` prints JSON for a failure, too, and a failed write to stdout is reported.
#[tokio::test]
async fn json_is_json_and_is_there_or_it_is_said() {
    let folder = folder();
    let large = file(&folder, "large.wasm", vec![0; (32 << 20) + 1]);
    let serving = serve(&[]).await;
    let refused = control(&serving, &["swap", &large, "--json"]).await;
    assert_eq!(refused.status, Some(1));
    let report: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((&report["outcome"], &report["reason"]), (&"rejected".into(), &"too-large".into()));
    assert!(report["message"].as_str().unwrap().starts_with("mount /: module "), "{report}");
    let mut status = std::process::Command::new(program());
    status.args(["status", "--json", "--control"]).arg(&serving.control);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = status.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("relayer-rest: stdout: No space left on device"), "{said}");
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

#[tokio::test]
async fn a_file_that_changes_is_swapped_in_when_it_is_good() {
    let folder = folder();
    let path = file(&folder, "api.wasm", DEFAULT_MODULE);
    let mut serving = serve(&["--module", &path, "--watch"]).await;
    let new = component::noted(DEFAULT_MODULE, "new");
    // Invalid files are rejected: another dialect, a truncated component, an empty file.
    for (broken, part) in [
        (component::of_answer(200, "a", b"b"), "does not speak the dialect 0.7"),
        (new[..new.len() / 2].to_vec(), "is not a valid component"),
        (Vec::new(), "is not WebAssembly"),
    ] {
        fs::write(&path, broken).unwrap();
        serving.logged(part).await;
        assert_eq!(label(&serving, "/chains").await, format!("api@{}", short(DEFAULT_MODULE)));
    }
    // The file is written in parts, as by a linker, and swapped in when it is complete.
    let refused = serving.log().matches("WARN").count();
    let mut file = fs::File::create(&path).unwrap();
    for part in new.chunks(new.len() / 5) {
        file.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(25));
    }
    drop(file);
    serving.logged("exchanged the module").await;
    assert_eq!(serving.log().matches("WARN").count(), refused, "{}", serving.log());
    assert_eq!(label(&serving, "/chains").await, format!("api@{}", short(&new)));
    // The file is replaced by a rename, as by an installer.
    let third = component::noted(DEFAULT_MODULE, "third");
    let beside = folder.path().join("api.wasm.tmp");
    fs::write(&beside, &third).unwrap();
    fs::rename(&beside, &path).unwrap();
    serving.logged("exchanged the module").await;
    assert_eq!(label(&serving, "/chains").await, format!("api@{}", short(&third)));
}

/// A changed file must have the digest that the settings require.
#[tokio::test]
async fn a_file_that_changes_has_to_be_the_one_that_is_wanted() {
    let folder = folder();
    let path = file(&folder, "api.wasm", DEFAULT_MODULE);
    let wanted = Digest::of(DEFAULT_MODULE);
    let config = format!("[module]\nfile = 'api.wasm'\nsha256 = '{wanted}'\n");
    let config = file(&folder, "c.toml", config);
    let mut serving = serve(&["--config", &config, "--watch"]).await;
    fs::write(&path, component::noted(DEFAULT_MODULE, "new")).unwrap();
    serving.logged(&format!(", not {wanted} as was asked for")).await;
    assert_eq!(label(&serving, "/chains").await, format!("api@{}", short(DEFAULT_MODULE)));
}

/// The file may change right after it was read at the start.
#[tokio::test]
async fn a_file_that_changes_while_the_server_starts_is_swapped_in() {
    let folder = folder();
    let path = file(&folder, "api.wasm", DEFAULT_MODULE);
    let args = ["--listen", "127.0.0.1:0", "--module", &path, "--watch", "--no-code-cache"];
    let control = folder.path().join("c.sock");
    // The socket exists when the module has been read, or is about to be.
    let mut replaced = tokio::spawn({
        let (path, control) = (path.clone(), control.clone());
        async move {
            while !control.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            fs::write(path, component::noted(DEFAULT_MODULE, "new")).unwrap();
        }
    });
    let serving = command::serve_at(program(), &args, control).await;
    (&mut replaced).await.unwrap();
    let new = format!("api@{}", short(&component::noted(DEFAULT_MODULE, "new")));
    for _ in 0..1000 {
        if label(&serving, "/chains").await == new {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the old one goes on to serve");
}

/// A module that was rejected for a temporary reason is tried again when its file is
/// touched.
#[tokio::test]
async fn a_file_that_took_too_long_is_tried_again_when_it_is_touched() {
    let folder = folder();
    let path = file(&folder, "api.wasm", component::of_answer(204, "a", b"b"));
    let config = file(&folder, "c.toml", "[module]\ndialect = 'any'\n[swap]\ntime = '5s'");
    let mut serving = serve(&["--module", &path, "--watch", "--config", &config]).await;
    for _ in 0..2 {
        fs::write(&path, component::hard_to_compile(16_000)).unwrap();
        serving.logged("takes longer than 5s to look at").await;
    }
}

#[tokio::test]
async fn a_file_that_changes_is_left_alone_where_nobody_asked_for_more() {
    let folder = folder();
    let path = file(&folder, "api.wasm", DEFAULT_MODULE);
    let serving = serve(&["--module", &path]).await;
    fs::write(&path, component::noted(DEFAULT_MODULE, "new")).unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(label(&serving, "/chains").await, format!("api@{}", short(DEFAULT_MODULE)));
}

#[tokio::test]
async fn extensions_are_mounted_by_the_settings() {
    let folder = folder();
    file(&folder, "one.wasm", component::of_response(201, &[], b"one"));
    file(&folder, "two.wasm", component::of_response(202, &[], b"two"));
    let config = file(
        &folder,
        "relayer-rest.toml",
        "[[extension]]\nname = 'one'\nmodule = 'one.wasm'\n\
         [[extension]]\nname = 'two'\nmount = '/two'\nmodule = 'two.wasm'\nlimits.memory = '1MiB'\n",
    );
    let serving = serve(&["--config", &config]).await;
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/one/x").await.text(), "one");
    assert_eq!(http.get("/two").await.text(), "two");
    assert_eq!(http.get("/chains").await.status, 200);
    let new = file(&folder, "new.wasm", component::of_response(203, &[], b"new"));
    let swap = control(&serving, &["swap", &new, "--mount", "/two"]).await;
    assert_eq!(swap.status, Some(0), "{}", swap.stdout);
    assert_eq!(http.get("/two").await.text(), "new");
    let status = client(&serving).status().await.unwrap();
    let mounts: Vec<_> = status.mounts.iter().map(|mount| mount.mount.as_str()).collect();
    assert_eq!(mounts, ["/", "/ext/one", "/two"]);
    let bad = file(
        &folder,
        "bad.toml",
        "[[extension]]\nname = 'one'\nmodule = 'one.wasm'\n\
         [[extension]]\nname = 'two'\nmount = '/ext/one/two'\nmodule = 'two.wasm'\n",
    );
    let ended = command::run(program(), &["--listen", "127.0.0.1:0", "--config", &bad]).await;
    let message = "the mounts /ext/one and /ext/one/two overlap; mount one of them elsewhere\n";
    assert!(ended.stderr.ends_with(message), "{}", ended.stderr);
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_swaps_starts_again_and_serves() {
    let folder = folder();
    let control = folder.path().join("c.sock");
    let new = component::noted(DEFAULT_MODULE, "new");
    let module = file(&folder, "api.wasm", DEFAULT_MODULE);
    let (without, with) = (["--no-code-cache"].as_slice(), [].as_slice());
    for (step, cache) in [
        (SwapStep::Compile, without),
        (SwapStep::Compile, with),
        (SwapStep::Probe, with),
        (SwapStep::Compare, with),
    ] {
        let args = ["--listen", "127.0.0.1:0", "--module", &module];
        let args = [&args[..], cache].concat();
        let serving = command::serve_at(program(), &args, control.clone()).await;
        let client = client(&serving);
        let is_there = async || {
            let status = client.status().await.unwrap();
            status.mounts[0].candidate.as_ref().is_some_and(|candidate| candidate.step == step)
        };
        let mut count = 0;
        let swapping = 'seen: loop {
            // For the compile step, a module that compiles for long; for others, one with
            // long runs.
            let swap = match step {
                SwapStep::Compile => candidate(component::noted(&new, &count.to_string())),
                _ => any(component::that_takes(60_000_000)),
            };
            let swapping = tokio::spawn({
                let client = client.clone();
                async move { client.swap("/", swap).await }
            });
            while !swapping.is_finished() {
                if is_there().await {
                    break 'seen swapping;
                }
            }
            count += 1;
        };
        kill(&serving, Signal::KILL);
        serving.ended().await;
        drop(swapping.await.unwrap());
        let serving = command::serve_at(program(), &args, control.clone()).await;
        assert_eq!(label(&serving, "/state").await, format!("api@{}", short(DEFAULT_MODULE)));
        assert_eq!(Client::http1(serving.address()).await.get("/state").await.status, 200);
        kill(&serving, Signal::TERM);
        assert_eq!(serving.ended().await.status, Some(0));
    }
}

/// A replaced module's memory and permits are released.
#[tokio::test]
async fn a_thousand_swaps_leave_things_as_they_were() {
    let folder = folder();
    // One permit: if a swap leaks it, the next request is not served.
    let config = file(&folder, "c.toml", "[module.limits]\nconcurrency = 1\nqueue_wait = '1min'");
    let cache = folder.path().join("cache");
    let cache = cache.to_str().unwrap();
    let mut serving = serve(&["--config", &config, "--code-cache", cache]).await;
    // The log of a thousand swaps would fill its pipe.
    serving.close_log();
    let client = client(&serving);
    let modules = [201, 202].map(|status| component::of_answer(status, "a", b"b"));
    let traps = component::of_handler("unreachable");
    let mut memory = 0;
    for swap in 0..1_000 {
        let report = client.swap("/", any(modules[swap % 2].clone())).await.unwrap();
        assert_eq!(report.outcome, Outcome::Swapped);
        if swap % 10 == 0 {
            let refused = client.swap("/", any(traps.clone())).await.unwrap();
            assert!(matches!(refused.outcome, Outcome::Rejected { .. }));
            let status = if swap % 2 == 0 { 201 } else { 202 };
            let mut http = Client::http1(serving.address()).await;
            assert_eq!(http.get(&format!("/{swap}")).await.status, status);
        }
        // The first ones fill the allocator's arenas.
        if swap == 99 {
            memory = measure::resident_memory_of(serving.id());
        }
    }
    let after = measure::resident_memory_of(serving.id());
    assert!(after * 100 <= memory * 105, "{memory} bytes after 100 swaps, {after} after 1,000");
}

#[tokio::test]
async fn a_module_that_fails_is_replaced_and_the_status_says_so() {
    let folder = folder();
    let old = file(&folder, "old.wasm", component::of_answer(204, "a", b"b"));
    let mut serving = serve(&["--module", &old]).await;
    let new = component::that_traps_later("1");
    let report = client(&serving).swap("/", any(new.clone())).await.unwrap();
    assert_eq!(report.outcome, Outcome::Swapped);
    assert_eq!(Client::http1(serving.address()).await.get(TRAP).await.status, 204);
    serving.logged("is taken out of service and the one before it put back").await;
    let status = control(&serving, &["status"]).await.stdout;
    let taken_out = format!("  taken out: {}: it failed 1 times in 1 runs", short(&new));
    assert!(status.contains(&taken_out), "{status}");
}

#[tokio::test]
async fn a_code_cache_that_is_no_folder_is_rejected() {
    let folder = folder();
    let bad = file(&folder, "no-folder", "text");
    let ended = command::run(program(), &["--listen", "127.0.0.1:0", "--code-cache", &bad]).await;
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("choose a folder of your own"), "{}", ended.stderr);
}

/// The use case of a swap: an operator's tools expect today's relayer.
#[tokio::test]
async fn the_dialect_is_changed_while_it_serves() {
    let folder = folder();
    let path = folder.path().join("api-1.13.wasm");
    let path = path.to_str().unwrap();
    let serving = serve(&[]).await;
    let written = control(&serving, &["module", path, "--dialect", "1.13"]).await;
    let digest = Digest::of(MODULE_1_13).to_string();
    assert_eq!((written.status, written.stdout), (Some(0), format!("{digest}  {path}\n")));
    let neither = control(&serving, &["module", path, "--dialect", "any"]).await;
    let message = "relayer-rest: --dialect: a module speaks 0.7 or 1.13; choose one of the two\n";
    assert_eq!((neither.status, neither.stderr.as_str()), (Some(2), message));
    let refused = control(&serving, &["swap", path]).await;
    assert_eq!(refused.status, Some(1));
    assert!(refused.stdout.contains("\nrule version-shape: "), "{}", refused.stdout);
    let swap = control(&serving, &["swap", path, "--dialect", "1.13"]).await;
    assert_eq!(swap.status, Some(0), "{}", swap.stdout);
    assert!(swap.stdout.contains("\n4 of 5 requests are answered differently\n"));
    let mut http = Client::http1(serving.address()).await;
    let version = http.get("/version").await;
    assert!(version.text().starts_with(r#"{"status":"success","result":[{"name":"ibc-relayer","#));
    let unknown = http.get("/chain/foo").await;
    unknown.check_error(200, "ChainConfigNotFound", "could not find configuration for chain: foo");
    assert_eq!(http.get("/nothing").await.body, "");
}

#[tokio::test]
async fn each_dialect_has_a_module_that_speaks_it_and_not_the_other() {
    let folder = folder();
    let modules = [("0.7", DEFAULT_MODULE), ("1.13", MODULE_1_13)];
    for (spoken, component) in modules {
        let path = file(&folder, spoken, component);
        for (dialect, _) in modules {
            let checked = check(&[&path, "--dialect", dialect]).await;
            let expected = i32::from(dialect != spoken);
            assert_eq!(checked.status, Some(expected), "{}", checked.stdout);
        }
        let serving = serve(&["--dialect", spoken]).await;
        assert_eq!(label(&serving, "/").await, format!("api@{}", short(component)));
    }
}

#[tokio::test]
async fn what_a_new_module_may_fail_is_a_setting() {
    let folder = folder();
    let old = file(&folder, "old.wasm", component::of_answer(204, "a", b"b"));
    let config = file(&folder, "c.toml", "[module.budget]\nfaults = 3\nfirst = 0\nwithin = '1h'");
    let serving = serve(&["--module", &old, "--config", &config]).await;
    let new = component::that_traps_later("1");
    let report = client(&serving).swap("/", any(new.clone())).await.unwrap();
    assert_eq!(report.outcome, Outcome::Swapped);
    let mut http = Client::http1(serving.address()).await;
    for (path, status) in [("x", 500), ("x", 500), ("y", 500), ("z", 204), ("x", 204)] {
        assert_eq!(http.get(&TRAP.replace('x', path)).await.status, status);
    }
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

async fn check(args: &[&str]) -> Ended {
    let args: Vec<_> = ["check"].iter().chain(args).collect();
    command::run(program(), &args).await
}

#[tokio::test]
async fn a_modules_author_sees_each_rule_and_what_requests_take() {
    let folder = folder();
    let good = file(&folder, "good.wasm", DEFAULT_MODULE);
    let checked = check(&[&good]).await;
    assert_eq!((checked.status, checked.stderr.as_str()), (Some(0), ""));
    assert_eq!(checked.stdout.lines().filter(|line| line.starts_with("ok ")).count(), 18);
    for part in [
        "\nimports  relayer:rest/types@0.1.0, relayer:rest/version@0.1.0, ",
        " KiB; at most 32.0 MiB\n",
        "\ninstance ",
        " KiB of host memory, ",
        " of 64.0 MiB (limits.memory)\n",
        "  GET /chain/no-such-chain (",
        "  POST /chains (",
        "\nat most 1s and 64.0 MiB; ",
    ] {
        assert!(checked.stdout.contains(part), "{part} is not in: {}", checked.stdout);
    }
    assert!(checked.stdout.ends_with("the module speaks the dialect 0.7\n"));

    let other = check(&[&good, "--dialect", "1.13", "--json"]).await;
    assert_eq!(other.status, Some(1));
    let found: Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(found["passes"], false);
    assert_eq!(found["digest"], Digest::of(DEFAULT_MODULE).to_string());
    let instance = &found["instance"];
    let sum = |keys: [&str; 3]| keys.iter().map(|key| instance[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(instance["total"], sum(["memory", "tables", "host"]));
    assert_eq!(instance["limit"], 64 << 20);
    let broken: Vec<_> = found["verdict"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| !rule["failure"].is_null())
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    let expected = [
        "version-envelope",
        "chain-fields",
        "chain-values",
        "chain-unknown-200",
        "state-workers",
        "error-empty",
    ];
    assert_eq!(broken, expected);
    let cost = &found["verdict"]["costs"][0];
    assert_eq!(cost["request"], "GET /version");
    assert!(cost["memory"].as_u64().unwrap() >= 65536 && cost["micros"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn an_operators_own_chains_are_asked_for_as_well() {
    let folder = folder();
    let good = file(&folder, "good.wasm", DEFAULT_MODULE);
    let config = file(&folder, "hermes.toml", include_str!("../fixtures/operator.toml"));
    let checked = check(&[&good, "--relayer-config", &config, "--json"]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let found: Value = serde_json::from_str(&checked.stdout).unwrap();
    let costs = found["verdict"]["costs"].as_array().unwrap();
    let of_present = costs.iter().filter(|cost| cost["state"] == "present");
    let chains = of_present.filter(|cost| {
        let request = cost["request"].as_str().unwrap();
        request.starts_with("GET /chain/") && cost["status"] == 200
    });
    assert_eq!(
        chains.count(),
        include_str!("../fixtures/operator.toml").matches("[[chains]]").count()
    );
}

#[tokio::test]
async fn a_module_that_cannot_be_asked_does_not_pass() {
    let folder = folder();
    for (name, component, part) in [
        ("a.wasm", b"no".to_vec(), "is not WebAssembly"),
        ("b.wasm", component::of_handler("unreachable"), "BROKEN answers"),
        ("b.wasm", component::of_handler("unreachable"), "\n-      version-shape"),
        ("c.wasm", component::of_answer(200, "a", b"b"), "BROKEN version-shape"),
    ] {
        let path = file(&folder, name, component);
        let checked = check(&[&path]).await;
        assert_eq!(checked.status, Some(1));
        assert!(checked.stdout.contains(part), "{}", checked.stdout);
    }
    let missing = check(&["/nowhere/x.wasm", "--json"]).await;
    assert_eq!(missing.status, Some(1));
    let found: Value = serde_json::from_str(&missing.stdout).unwrap();
    assert_eq!((&found["passes"], &found["digest"]), (&Value::Bool(false), &Value::Null));
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("module /nowhere/x.wasm: cannot be read: "), "{error}");
}
