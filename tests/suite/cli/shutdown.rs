//! Does the command end on a signal, and complete its requests first?

use std::fs;

use relayer_rest_tests::client::Client;
use relayer_rest_tests::component::TRAP;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::{until_async, within};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{busy, spinning};

#[tokio::test]
async fn requests_in_flight_are_completed_before_the_exit() {
    let folder = Folder::new();
    let module = folder.write("slow.wasm", busy(200_000_000));
    let settings = folder.write("relayer-rest.toml", "[module.limits]\ntime = '10min'");
    for number in [Signal::TERM, Signal::INT] {
        // A busy machine may need more than the default.
        let args = ["--module", &module, "--dialect", "any", "--config", &settings];
        let program = Program::server().args(args).args(["--grace", "10min"]);
        let mut process = program.start().await;
        let idle = process.connect().await;
        let mut client = process.connect().await;
        let response = tokio::spawn(async move { client.get(TRAP).await });
        process.logged("begun").await;
        process.signal(number);
        process.logged("shutting down").await;
        assert_eq!(response.await.unwrap().status, 204);
        let ended = process.ended().await;
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        drop(idle);
    }
}

#[tokio::test]
async fn open_connections_can_send_another_request() {
    let args = ["--drain", "10min", "--grace", "10min"];
    let mut process = Program::server().args(args).start().await;
    let mut used = process.connect().await;
    assert_eq!(used.get("/version").await.status, 200);
    // A client may have connected, and not have sent its first request.
    let mut unused = process.connect().await;
    let mut http2 = Client::http2(process.address()).await;
    assert_eq!(http2.get("/version").await.status, 200);
    let counted = async || {
        let status = process.control_client().status().await.unwrap();
        status.connections.unwrap().accepted == 3
    };
    until_async("all connections are accepted", counted).await;
    process.signal(Signal::TERM);
    process.logged("shutting down").await;
    // HTTP/2 has a message for the end of a connection.
    http2.closed().await;
    for client in [&mut used, &mut unused] {
        let response = client.get("/version").await;
        assert_eq!((response.status.as_u16(), response.header("connection")), (200, "close"));
        client.closed().await;
    }
    // It does not wait for the time to pass.
    assert_eq!(process.ended().await.status, Some(0));
}

#[tokio::test]
async fn idle_connections_are_closed_at_the_end_of_the_time() {
    let process = Program::server().args(["--drain", "50ms", "--grace", "10min"]).start().await;
    let mut idle = process.connect().await;
    assert_eq!(idle.get("/version").await.status, 200);
    process.signal(Signal::TERM);
    idle.closed().await;
    assert_eq!(process.ended().await.status, Some(0));
}

#[tokio::test]
async fn endless_requests_are_dropped_after_the_grace_period() {
    let (process, pending) = spinning(&["--grace", "200ms"]).await;
    process.signal(Signal::TERM);
    let ended = process.ended().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let message = "connections dropped after the grace period connections=1 grace=200ms";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    // The connection of the dropped request is closed.
    assert!(pending.await.unwrap_err().is_panic());
}

#[tokio::test]
async fn a_signal_during_the_start_ends_the_process_with_0() {
    let mut process = Program::server().spawn();
    // The first line of the log is written before the module is compiled.
    let mut line = String::new();
    let mut log = BufReader::new(process.child.stderr.take().unwrap());
    within("the first line of the log", log.read_line(&mut line)).await.unwrap();
    assert!(line.contains("serving a sample"), "{line}");
    process.signal(Signal::TERM);
    let ended = process.ended().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
}

/// Settings can come from a pipe.
#[tokio::test]
async fn a_signal_while_reading_a_pipe_ends_the_process_with_0() {
    let folder = Folder::new();
    for option in ["--config", "--relayer-config"] {
        let pipe = folder.join(option);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let process = Program::server().args([option.as_ref(), pipe.as_os_str()]).spawn();
        // A pipe opens when both ends are opened.
        let _writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        process.signal(Signal::TERM);
        let ended = process.ended().await;
        assert_eq!(ended.status, Some(0), "{ended:?}");
    }
}
