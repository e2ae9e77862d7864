//! Does `doctor` find the problems of a machine, each with a remedy?

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program};
use relayer_rest_tests::relayer::{Relayer, Script};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

/// A finding: its check, its level and its message.
type Finding = (String, String, String);

fn findings(ended: &Ended) -> Vec<Finding> {
    let found: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let finding =
        |found: &Value| (text(found, "check"), text(found, "level"), text(found, "message"));
    found.iter().map(finding).collect()
}

async fn doctor(args: &[&str]) -> Ended {
    Program::new(["doctor", "--json", "--listen", "127.0.0.1:0"]).args(args).run().await
}

/// Checks that a check has this level, and a message with this text.
#[track_caller]
fn check(ended: &Ended, check: &str, level: &str, part: &str) {
    let findings = findings(ended);
    let is_found =
        |(name, is, message): &&Finding| name == check && is == level && message.contains(part);
    assert!(findings.iter().any(|finding| is_found(&finding)), "{check}, {part}: {findings:?}");
}

#[tokio::test]
async fn a_machine_without_problems_passes() {
    let relayer = Relayer::start(Script::of_1_13());
    let folder = Folder::new();
    let config = folder.write("c.toml", "extension = [{ name = 'health' }]");
    let ended = doctor(&["--upstream", &relayer.url(), "--config", &config]).await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    for (name, part) in [
        ("settings", &*config),
        ("module", "/ api@"),
        ("module", "/ext/health health@"),
        ("source", &*format!("upstream {}", relayer.url())),
        ("address", "127.0.0.1:0"),
        ("code cache", ""),
        ("open files", "4096 connections"),
        ("threads", ""),
        ("clock", ""),
    ] {
        check(&ended, name, "ok", part);
    }
    // Without --json, each finding is a line.
    let text = Program::new(["doctor", "--listen", "127.0.0.1:0"]).run().await;
    assert!(text.stdout.contains("warning  source        a sample is served"), "{}", text.stdout);
    assert_eq!(text.status, Some(0));
}

#[tokio::test]
async fn each_problem_has_a_remedy() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let invalid = folder.write("invalid.toml", "[http]\nhost = 1");
    let ended = doctor(&["--config", &invalid, "--upstream", "http://127.0.0.1:1"]).await;
    assert_eq!(ended.status, Some(1));
    check(&ended, "settings", "failure", "did you mean `hosts`?");
    check(&ended, "source", "failure", "start the relayer, or correct the address");

    let settings = "[module]\nfile = 'missing.wasm'\n[commands]\nclear-packets = true\n\
        token-file = 'tokens'\n[admin]\ntoken-file = 'tokens'\n";
    let config = folder.write("c.toml", settings);
    folder.write("tokens", "ops 0123456789abcdef");
    let ended = Program::new(["doctor", "--json", "--listen", &address, "--config", &config]);
    let ended = ended.run().await;
    assert_eq!(ended.status, Some(1));
    check(&ended, "module", "failure", "missing.wasm: cannot be read");
    check(&ended, "tokens", "failure", "with `chmod 600`");
    check(&ended, "admin", "failure", "with `chmod 600`");
    check(&ended, "address", "failure", "choose another");
}

#[tokio::test]
async fn causes_of_slow_service_are_warnings() {
    let folder = Folder::new();
    fs::create_dir(folder.join("relayer-rest")).unwrap();
    let stale = folder.join("relayer-rest/127.0.0.1:3000.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let program = Program::new(["doctor", "--json", "--listen", "127.0.0.1:0", "--no-code-cache"]);
    let program = program.env("XDG_RUNTIME_DIR", folder.as_path());
    let ended = program.after("ulimit -n 300").run().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    check(
        &ended,
        "control",
        "warning",
        "127.0.0.1:3000.sock: no server listens on this socket; remove the file",
    );
    check(&ended, "open files", "warning", "raise it with ulimit -n");
    check(&ended, "code cache", "warning", "choose a folder with --code-cache DIR");
    check(&ended, "source", "warning", "use --upstream or --relayer-config");
    let ended = doctor(&["--no-control"]).await;
    check(&ended, "control", "warning", "leave out --no-control");
}

/// A server with these settings does not start, and has the same message.
#[tokio::test]
async fn each_reason_not_to_start_is_a_failure() {
    let folder = Folder::new();
    folder.write("file", "text");
    for (settings, name, part) in [
        ("[access-log]\nfile = 'missing/a.log'", "access log", "/missing/a.log cannot be opened: "),
        ("[access-log]\nfile = '.'", "access log", "check the path and the permissions"),
        ("[log]\nlevel = 'loud'", "log level", "expected a level, such as info"),
        ("code-cache = 'file'", "code cache", "choose another folder"),
        ("control = 'file'", "control", "choose another path with --control PATH"),
        ("control = 'missing/c.sock'", "control", "choose a path in a folder of your own"),
    ] {
        let config = folder.write("c.toml", settings);
        let run = async |args: &[&str]| {
            let program = Program::new(args).args(["--listen", "127.0.0.1:0", "--config", &config]);
            let unset = ["RELAYER_REST_CODE_CACHE", "RELAYER_REST_CONTROL"];
            unset.iter().fold(program, |program, name| program.env(*name, "")).run().await
        };
        let ended = run(&["doctor", "--json"]).await;
        assert_eq!(ended.status, Some(1), "{ended:?}");
        check(&ended, name, "failure", part);
        let message = findings(&ended).into_iter().find(|finding| finding.0 == name).unwrap().2;
        let served = run(&["serve"]).await;
        assert_eq!(served.status, Some(2), "{served:?}");
        assert!(served.stderr.contains(&message), "{message}: {served:?}");
    }
}

/// The file is not created, and a pipe is not waited for.
#[tokio::test]
async fn an_access_log_is_left_as_it_was() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "[access-log]\nfile = 'a.log'");
    let path = folder.join("a.log");
    let passes = async || {
        let ended = doctor(&["--config", &config]).await;
        check(&ended, "access log", "ok", path.to_str().unwrap());
    };
    passes().await;
    assert!(!path.exists());
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    passes().await;
}

#[tokio::test]
async fn a_stale_control_socket_of_the_settings_is_a_warning() {
    let folder = Folder::new();
    let socket = folder.join("own.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let program = Program::new(["doctor", "--json", "--listen", "127.0.0.1:0"]);
    let ended = program.socket(&socket).run().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    check(&ended, "control", "warning", "own.sock: no server listens on this socket; remove");
    assert!(socket.exists());
}

#[tokio::test]
async fn too_little_address_space_is_a_failure() {
    let program = Program::new(["doctor", "--json", "--listen", "127.0.0.1:0"]);
    let ended = program.after("ulimit -v 8388608").run().await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    check(&ended, "module", "failure", "raise the limit of the process (ulimit -v, ulimit -d)");
}
