//! Swaps, rollbacks and the circuit breaker.

mod circuit_breaker;
mod comparison;
mod endurance;
mod hot_swap;
mod rejection;
mod rollback;
mod shadow;

use relayer_rest_host::module::Limits;
use relayer_rest_host::registry::{Rejection, SwapOutcome, SwapReport};
use relayer_rest_tests::server::TestServer;

/// Starts a server with a component under these limits, and the sample state.
async fn server(component: &[u8], limits: &Limits) -> TestServer {
    TestServer::builder().component(component).limits(limits).start().await
}

#[track_caller]
fn check_rejected(report: &SwapReport, expected: Rejection, parts: &[&str]) {
    let SwapOutcome::Rejected { reason, message } = &report.outcome else {
        panic!("not rejected: {report:?}")
    };
    assert_eq!(*reason, expected, "{message}");
    assert!(message.starts_with("mount /: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}
