//! Does a restart lose no request if the service manager keeps the socket?

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use relayer_rest_tests::client::Client;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::until;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

/// The clients that keep their connections, and those with a connection for each request.
const CLIENTS: [bool; 6] = [true, true, true, false, false, false];
/// The responses before each restart.
const RESPONSES: usize = 100;

/// Requests that clients send until they are told to end.
#[derive(Default)]
struct Load {
    responses: AtomicUsize,
    has_ended: AtomicBool,
}

impl Load {
    /// Sends requests, each of which gets a response.
    async fn send(&self, address: SocketAddr, keeps: bool) {
        while !self.has_ended.load(SeqCst) {
            let mut client = Client::http1(address).await;
            loop {
                let response = client.get("/chains").await;
                assert_eq!(response.status, 200);
                self.responses.fetch_add(1, SeqCst);
                let is_last = response.headers.get("connection").is_some_and(|end| end == "close");
                if !keeps || is_last || self.has_ended.load(SeqCst) {
                    break;
                }
            }
        }
    }

    async fn progress(&self) {
        let enough = self.responses.load(SeqCst) + RESPONSES;
        until("there are responses", || self.responses.load(SeqCst) >= enough).await;
    }
}

async fn check(restarts: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The processes that this one starts get the socket, too.
    fcntl_setfd(&listener, FdFlags::empty()).unwrap();
    let socket = listener.as_raw_fd();
    let script = format!("export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\" 3<&{socket}");
    let program = Program::new(["serve"]).launched_by(&["bash", "-c", &script]);
    let mut serving = program.clone().start().await;
    assert_eq!(serving.address(), address);
    let load = Arc::new(Load::default());
    let clients = CLIENTS.map(|keeps| {
        let load = Arc::clone(&load);
        tokio::spawn(async move { load.send(address, keeps).await })
    });
    for _ in 0..restarts {
        load.progress().await;
        serving.signal(Signal::TERM);
        assert_eq!(serving.ended().await.status, Some(0));
        serving = program.clone().start().await;
    }
    load.progress().await;
    load.has_ended.store(true, SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_no_request() {
    check(3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: restarts the server 50 times"]
async fn fifty_restarts_lose_no_request() {
    check(50).await;
}
