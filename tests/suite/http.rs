//! Connections, messages, and hostile clients.

mod access_log;
mod base_path;
mod cancellation;
mod connections;
mod cors;
mod forwarded;
mod limits;
mod listeners;
pub(crate) mod live;
mod live_failures;
mod live_hostile;
mod live_limits;
mod live_model;
mod live_pipelined;
pub(crate) mod live_streams;
mod memory;
mod openapi;
mod protocol;
mod proxy_protocol;
mod representations;
mod threads;
pub(crate) mod tls;
mod unsent;

use std::time::Duration;

use relayer_rest_host::HttpLimits;
use relayer_rest_tests::client::raw;
use relayer_rest_tests::server::TestServer;

fn limits() -> HttpLimits {
    HttpLimits {
        idle: Duration::from_secs(1),
        stalled: Duration::from_secs(2),
        ..HttpLimits::default()
    }
}

async fn server(limits: HttpLimits) -> TestServer {
    TestServer::builder().http(limits).start().await
}

fn request(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
}
