//! Does a restart lose no request if the service manager keeps the socket?

use std::net::TcpListener;
use std::time::Duration;

use relayer_rest_tests::program::Program;
use relayer_rest_tests::steady_clients::SteadyClients;
use rustix::process::Signal;

/// The responses before each restart.
const RESPONSES: usize = 100;

async fn check(restarts: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = Program::new(["serve"]).listening_on(&listener);
    let mut serving = program.clone().start().await;
    assert_eq!(serving.address(), listener.local_addr().unwrap());
    let clients = SteadyClients::start(serving.address(), Duration::ZERO);
    for _ in 0..restarts {
        clients.progress(RESPONSES).await;
        serving.signal(Signal::TERM);
        assert_eq!(serving.ended().await.status, Some(0));
        serving = program.clone().start().await;
    }
    clients.progress(RESPONSES).await;
    assert_eq!(clients.end().await, [""; 0]);
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
