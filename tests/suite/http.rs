//! Connections, messages, and hostile clients.

mod cancellation;
mod connections;
mod limits;
mod memory;
mod protocol;
mod representations;
mod unsent;

use std::net::SocketAddr;
use std::time::Duration;

use relayer_rest_host::HttpLimits;
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::registry::{Mount, Registry};
use relayer_rest_host::state::sample;
use relayer_rest_tests::client::raw;
use relayer_rest_tests::server::{TestServer, engine};
use tokio::time::timeout;

/// The time that the tests wait for the server to close a connection, much longer than it
/// takes.
const SOON: Duration = Duration::from_secs(30);

fn limits() -> HttpLimits {
    HttpLimits {
        idle: Duration::from_secs(1),
        stalled: Duration::from_secs(2),
        ..HttpLimits::default()
    }
}

async fn server(limits: HttpLimits) -> TestServer {
    let api = Module::embedded(&engine(&Limits::default())).unwrap();
    let server = TestServer::with_limits(Registry::new(Mount::api(api)), limits).await;
    sample(&server.publisher);
    server
}

/// Sends bytes, and returns the server's output until it closes the connection.
async fn said(address: SocketAddr, bytes: &[u8]) -> String {
    timeout(SOON, raw(address, bytes)).await.unwrap()
}

fn request(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
}
