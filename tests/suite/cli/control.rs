//! Do the verbs that control a running server have their effects, and print them?

use std::env::current_dir;
use std::fs;
use std::process::Stdio;

use relayer_rest_host::LiveStatus;
use relayer_rest_host::control::ConnectionStatus;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest, MODULE_1_13};
use relayer_rest_host::registry::{SwapOutcome, SwapReport};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program};
use relayer_rest_tests::server::{any_dialect, short};
use relayer_rest_tests::wait::until_async;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_module_is_swapped_and_rolled_back() {
    let folder = Folder::new();
    let new = component::noted(DEFAULT_MODULE, "new");
    let path = folder.write("new.wasm", &new);
    let from = short(DEFAULT_MODULE);
    let to = short(&new);
    let serving = Program::server().start().await;

    // A folder stands for the component that was built there.
    folder.write("build.py", "");
    let path_of_folder = folder.as_path().to_str().unwrap();
    let of_folder = serving.control(&["swap", path_of_folder, "--dry-run"]).await;
    let trial = serving.control(&["swap", &path, "--dry-run"]).await;
    let last = |ended: &Ended| ended.stdout.lines().last().map(ToOwned::to_owned);
    assert_eq!(last(&of_folder), last(&trial));
    let output =
        format!("0 of 5 requests have different responses\ndry run: {to} would replace {from}\n");
    assert_eq!((trial.status, trial.stderr.as_str()), (Some(0), ""));
    assert!(trial.stdout.ends_with(&output), "{}", trial.stdout);
    assert_eq!(serving.label("/chains").await, format!("api@{from}"));

    let digest = Digest::new(&new).to_string();
    let swap = serving.control(&["swap", &path, "--sha256", &digest]).await;
    assert_eq!(swap.status, Some(0));
    let steps = swap.stdout.lines().map(|line| line.split(' ').next().unwrap());
    let expected = ["read", "compile", "probe", "compare", "warm", "activate", "0", "swapped:"];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
    assert!(swap.stdout.ends_with(&format!("swapped: {from} -> {to}\n")), "{}", swap.stdout);
    assert_eq!(serving.label("/chains").await, format!("api@{to}"));

    let again = serving.control(&["swap", &path]).await;
    assert_eq!(again.status, Some(0));
    assert!(again.stdout.ends_with(&format!("unchanged: {to} is active already\n")));

    let back = serving.control(&["rollback"]).await;
    assert_eq!((back.status, back.stdout), (Some(0), format!("rolled back: {to} -> {from}\n")));
    for _ in 0..2 {
        let back = serving.control(&["rollback", "--json"]).await;
        let back: Value = serde_json::from_str(&back.stdout).unwrap();
        assert_eq!(back["mount"], "/");
    }
    assert_eq!(serving.label("/chains").await, format!("api@{from}"));

    let status = serving.control(&["status"]).await;
    assert_eq!(status.status, Some(0));
    for part in [
        &format!("process {}, relayer state known", serving.id()),
        &format!("/  api@{from}"),
        &format!("  previous: {to}"),
    ] {
        assert!(status.stdout.contains(part), "{part} is not in: {}", status.stdout);
    }
    let status = serving.control(&["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["mounts"][0]["previous"], digest);
    assert_eq!(status["mounts"][0]["module"]["digest"], Digest::new(DEFAULT_MODULE).to_string());
}

/// The counters include waiting, closed and refused connections.
#[tokio::test]
async fn status_counts_the_connections_of_clients() {
    let folder = Folder::new();
    folder.write("spins.wasm", component::that_spins_on_spin());
    let settings = "[module]\nfile = 'spins.wasm'\ndialect = 'any'\nlimits.time = '1h'\n[http]\nconnections = 2\n";
    let serving =
        Program::server().args(["--config", &folder.write("c.toml", settings)]).start().await;
    let client = serving.control_client();
    let status = async || client.status().await.unwrap();
    let counted = async |open, accepted, refused| {
        let (evicted, unsent, draining, live) = (0, 0, false, LiveStatus::default());
        let expected =
            ConnectionStatus { open, accepted, refused, evicted, unsent, draining, live };
        let is_counted = async || status().await.connections == Some(expected);
        until_async(&format!("{expected:?}"), is_counted).await;
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
        let is_run = async || status().await.mounts[0].module().unwrap().runs > number as u64;
        until_async("the request runs", is_run).await;
        waiting.push(stream);
    }
    counted(2, 3, 0).await;
    let mut one_more = TcpStream::connect(serving.address()).await.unwrap();
    one_more.read_to_end(&mut Vec::new()).await.unwrap();
    counted(2, 3, 1).await;
    let output = serving.control(&["status"]).await.stdout;
    assert!(
        output.contains(
            "\nconnections: 2 open, 3 accepted, 1 refused, 0 evicted; 0 B unsent\n/  api@"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn status_and_top_count_waiting_clients() {
    let serving = Program::server().start().await;
    let mut client = serving.connect().await;
    let mut events = Events::open(&mut client, "/chains", &[]).await;
    events.next().await.unwrap();
    let line = "\nlive: waiters 1, responses 1 (";
    for args in [&["status"][..], &["top", "--once"]] {
        let output = serving.control(args).await.stdout;
        assert!(output.contains(line), "{output}");
        assert!(
            output.contains("), runs 0 (0 without a change), wake-ups 0, refused 0\n"),
            "{output}"
        );
    }
    let status = serving.control(&["status", "--json"]).await.stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["connections"]["live"]["waiters"], 1);
    serving.stop().await;
}

#[tokio::test]
async fn a_rejection_is_shown_on_one_screen() {
    let folder = Folder::new();
    let path = folder.write("new.wasm", component::with_response(200, "a", b"b"));
    let serving = Program::server().start().await;
    let swap = serving.control(&["swap", &path]).await;
    assert_eq!(swap.status, Some(1));
    for part in [
        "\nrule version-shape: on the state 'sample': GET /version: the body is not JSON",
        &format!("rejected: mount /: module {path}: does not conform to dialect 0.7"),
        &format!("{} stays active", short(DEFAULT_MODULE)),
    ] {
        assert!(swap.stdout.contains(part), "{part} is not in: {}", swap.stdout);
    }
    let json = serving.control(&["swap", &path, "--json"]).await;
    assert_eq!(json.status, Some(1));
    let report: SwapReport = serde_json::from_str(&json.stdout).unwrap();
    assert!(matches!(report.outcome, SwapOutcome::Rejected { .. }));
    let any = serving.control(&["swap", &path, "--dialect", "any"]).await;
    assert_eq!(any.status, Some(0));
    assert!(any.stdout.contains("  GET /version (not sent by clients)\n"));
    assert!(any.stdout.contains("\n    header content-type: application/json -> (absent)\n"));
}

#[tokio::test]
async fn failures_are_reported_in_one_line() {
    let folder = Folder::new();
    let serving = Program::server().start().await;
    let nowhere = folder.join("nowhere.sock");
    let nowhere = nowhere.to_str().unwrap();
    let long = format!("/{}", "a".repeat(70_000));
    for (args, message) in [
        (
            vec!["status", "--control", nowhere],
            format!("control socket {nowhere}: No such file or directory (os error 2); start a server with `relayer-rest serve --control PATH`, or name a running one's socket"),
        ),
        (
            vec!["rollback"],
            format!("mount /: no previous module to roll back to; {} is the first module, or a rollback after failures activated it", short(DEFAULT_MODULE)),
        ),
        (
            vec!["rollback", "--mount", "/ext/a"],
            "unknown mount /ext/a; expected one of /".to_owned(),
        ),
        (
            vec!["swap", "/nowhere/x.wasm"],
            "module /nowhere/x.wasm: cannot be read: No such file or directory (os error 2); check the path and its permissions".to_owned(),
        ),
        (
            vec!["swap", "nowhere/x.wasm"],
            format!("module nowhere/x.wasm: cannot be read: No such file or directory (os error 2); check the path, which is relative to {}", current_dir().unwrap().display()),
        ),
        (
            vec!["rollback", "--mount", &long],
            "request: the mount and the file name are too long; use shorter ones".to_owned(),
        ),
    ] {
        let ended = serving.control(&args).await;
        assert_eq!(ended.stderr, format!("relayer-rest: {message}\n"));
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""));
    }
}

/// `--json` prints JSON for a failure, too, and a failed write to stdout is reported.
#[tokio::test]
async fn json_output_is_valid_and_failed_writes_are_reported() {
    let folder = Folder::new();
    let large = folder.write("large.wasm", vec![0; (32 << 20) + 1]);
    let serving = Program::server().start().await;
    let refused = serving.control(&["swap", &large, "--json"]).await;
    assert_eq!(refused.status, Some(1));
    let report: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((&report["outcome"], &report["reason"]), (&"rejected".into(), &"too-large".into()));
    assert!(report["message"].as_str().unwrap().starts_with("mount /: module "), "{report}");
    let mut status = Program::new(["status", "--json"]).socket(&serving.socket).command();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = status.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended: Ended = status.wait_with_output().await.unwrap().into();
    assert_eq!(ended.status, Some(2));
    let start = "relayer-rest: stdout: No space left on device";
    assert!(ended.stderr.starts_with(start), "{ended:?}");
}

#[tokio::test]
async fn status_shows_the_rollback_of_a_failing_module() {
    let folder = Folder::new();
    let old = folder.write("old.wasm", component::with_response(204, "a", b"b"));
    let mut serving = Program::server().args(["--module", &old, "--dialect", "any"]).start().await;
    let new = component::that_traps_later("1");
    let report = serving.control_client().swap("/", any_dialect(new.clone())).await.unwrap();
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(serving.connect().await.get(TRAP).await.status, 204);
    serving.logged("module failed; quarantined, and rolled back").await;
    let status = serving.control(&["status"]).await.stdout;
    let quarantined = format!("  quarantined: {}: 1 of 1 runs failed", short(&new));
    assert!(status.contains(&quarantined), "{status}");
}

/// The use case of a swap: an operator's tools expect today's relayer.
#[tokio::test]
async fn the_dialect_of_a_running_server_can_be_changed() {
    let folder = Folder::new();
    let path = folder.join("api-1.13.wasm");
    let path = path.to_str().unwrap();
    let serving = Program::server().start().await;
    let written = serving.control(&["module", path, "--dialect", "1.13"]).await;
    let digest = Digest::new(MODULE_1_13).to_string();
    assert_eq!((written.status, written.stdout), (Some(0), format!("{digest}  {path}\n")));
    let neither = serving.control(&["module", path, "--dialect", "any"]).await;
    let message = "relayer-rest: --dialect: no module is bundled for any; choose 0.7 or 1.13\n";
    assert_eq!((neither.status, neither.stderr.as_str()), (Some(2), message));
    let refused = serving.control(&["swap", path]).await;
    assert_eq!(refused.status, Some(1));
    assert!(refused.stdout.contains("\nrule version-shape: "), "{}", refused.stdout);
    let swap = serving.control(&["swap", path, "--dialect", "1.13"]).await;
    assert_eq!(swap.status, Some(0), "{}", swap.stdout);
    assert!(swap.stdout.contains("\n4 of 5 requests have different responses\n"));
    let mut http = serving.connect().await;
    let version = http.get("/version").await;
    assert!(version.text().starts_with(r#"{"status":"success","result":[{"name":"ibc-relayer","#));
    let unknown = http.get("/chain/foo").await;
    unknown.check_error(200, "ChainConfigNotFound", "could not find configuration for chain: foo");
    assert_eq!(http.get("/nothing").await.body, "");
}

#[tokio::test]
async fn each_bundled_module_conforms_to_its_dialect_only() {
    let folder = Folder::new();
    let modules = [("0.7", DEFAULT_MODULE), ("1.13", MODULE_1_13)];
    for (spoken, component) in modules {
        let path = folder.write(spoken, component);
        for (dialect, _) in modules {
            let checked = check(&[&path, "--dialect", dialect]).await;
            let expected = i32::from(dialect != spoken);
            assert_eq!(checked.status, Some(expected), "{}", checked.stdout);
        }
        let serving = Program::server().args(["--dialect", spoken]).start().await;
        assert_eq!(serving.label("/").await, format!("api@{}", short(component)));
    }
}

#[tokio::test]
async fn the_failure_budget_of_a_new_module_is_a_setting() {
    let folder = Folder::new();
    let old = folder.write("old.wasm", component::with_response(204, "a", b"b"));
    let config = folder
        .write("c.toml", "[module.failure-policy]\nfailures = 3\nprobation = 0\nwindow = '1h'");
    let args = ["--module", &old, "--dialect", "any", "--config", &config];
    let serving = Program::server().args(args).start().await;
    let new = component::that_traps_later("1");
    let report = serving.control_client().swap("/", any_dialect(new.clone())).await.unwrap();
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    let mut http = serving.connect().await;
    for (path, status) in [("x", 500), ("x", 500), ("y", 500), ("z", 204), ("x", 204)] {
        assert_eq!(http.get(&TRAP.replace('x', path)).await.status, status);
    }
}

async fn check(args: &[&str]) -> Ended {
    let args: Vec<_> = ["check"].iter().chain(args).collect();
    Program::new(&args).run().await
}
