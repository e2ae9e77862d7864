//! Swaps, rollbacks and the circuit breaker.

mod circuit_breaker;
mod comparison;
mod endurance;
mod hot_swap;
mod rejection;
mod rollback;

use relayer_rest_host::module::{Digest, Limits};
use relayer_rest_host::registry::{Outcome, Rejection, SwapReport};
use relayer_rest_tests::server::TestServer;

/// Starts a server with a component under these limits, and the sample state.
async fn server(component: &[u8], limits: &Limits) -> TestServer {
    TestServer::builder().component(component).limits(limits).start().await
}

/// Returns the `x-relayer-module` header of a component that serves the API.
fn label(component: &[u8]) -> String {
    format!("api@{}", short(component))
}

fn short(component: &[u8]) -> String {
    Digest::new(component).short()
}

#[track_caller]
fn check_rejected(report: &SwapReport, expected: Rejection, parts: &[&str]) {
    let Outcome::Rejected { reason, message } = &report.outcome else {
        panic!("not refused: {report:?}")
    };
    assert_eq!(*reason, expected, "{message}");
    assert!(message.starts_with("mount /: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}
