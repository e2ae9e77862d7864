//! Does the command end when it is told to?

use std::fs;
use std::path::Path;

use relayer_rest_tests::client::{Answer, Client};
use relayer_rest_tests::command::{self, Serving};
use relayer_rest_tests::component;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinHandle;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

async fn serve(args: &[&str]) -> Serving {
    command::serve(program(), args).await
}

/// Writes a file, which exists as long as the folder.
fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn signal(process: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(process.id()).unwrap(), signal).unwrap();
}

/// Returns a component that logs `begun`, runs for this number of rounds, and responds
/// with 204.
fn busy(rounds: u64) -> Vec<u8> {
    component::of_handler_that_logs(
        "begun",
        &format!(
            "(local $round i64)
             (call $log (i32.const 2) (i32.const 64) (i32.const 5))
             (loop
                (local.set $round (i64.add (local.get $round) (i64.const 1)))
                (br_if 0 (i64.lt_u (local.get $round) (i64.const {rounds}))))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0"
        ),
    )
}

#[tokio::test]
async fn the_process_ends_with_0_after_requests_in_flight() {
    let folder = folder();
    let module = file(&folder, "slow.wasm", busy(200_000_000));
    let settings = file(&folder, "relayer-rest.toml", "[module.limits]\ntime = '60s'");
    for number in [Signal::TERM, Signal::INT] {
        // A busy machine may need more than the default of 10 s.
        let args = ["--listen", "127.0.0.1:0", "--module", &module, "--config", &settings];
        let mut process = serve(&[&args[..], &["--grace", "1min"]].concat()).await;
        let idle = Client::http1(process.address()).await;
        let mut client = Client::http1(process.address()).await;
        let answer = tokio::spawn(async move { client.get("/").await });
        process.logged("begun").await;
        signal(&process, number);
        process.logged("requests in flight are finished").await;
        assert_eq!(answer.await.unwrap().status, 204);
        let ended = process.ended().await;
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        drop(idle);
    }
}

/// Starts a server of a module that never ends, and sends it a request.
async fn asked_for_ever(folder: &TempDir, args: &[&str]) -> (Serving, JoinHandle<Answer>) {
    let module = file(folder, "busy.wasm", busy(u64::MAX));
    let settings = file(folder, "relayer-rest.toml", "[module.limits]\ntime = '1h'");
    let given = ["--listen", "127.0.0.1:0", "--module", &module, "--config", &settings];
    let mut process = serve(&[&given, args].concat()).await;
    let mut client = Client::http1(process.address()).await;
    let asking = tokio::spawn(async move { client.get("/").await });
    process.logged("begun").await;
    (process, asking)
}

#[tokio::test]
async fn what_does_not_end_is_dropped_when_the_time_for_that_is_over() {
    let folder = folder();
    let (process, asking) = asked_for_ever(&folder, &["--grace", "200ms"]).await;
    signal(&process, Signal::TERM);
    let ended = process.ended().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let message = "1 connections are not done after 200ms and are dropped";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    // The connection of the dropped request is closed.
    assert!(asking.await.unwrap_err().is_panic());
}

#[tokio::test]
async fn a_signal_while_it_starts_ends_it_with_0() {
    let program = program().to_owned();
    let mut child = std::process::Command::new(program)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of the log is written before the module is compiled.
    let mut line = String::new();
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut log, &mut line).unwrap();
    assert!(line.contains("serving the sample relayer"), "{line}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Settings can come from a pipe.
#[tokio::test]
async fn a_signal_while_a_pipe_is_read_ends_it_with_0() {
    let folder = folder();
    for option in ["--config", "--relayer-config"] {
        let pipe = folder.path().join(option);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut child = std::process::Command::new(program())
            .args(["--listen", "127.0.0.1:0", option])
            .arg(&pipe)
            .spawn()
            .unwrap();
        // A pipe opens when both ends are opened.
        let _writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
