//! The tests that need other programs, which not every machine has. Each file is
//! about one question, and names these programs.
//!
//! ```sh
//! cargo test --workspace --test outside -- --ignored
//! ```

mod alerts;
mod browser;
mod container;
mod cors;
mod dashboard;
mod fleet;
mod fleet_access;
mod languages;
mod live;
mod metrics;
mod openapi;
mod proxies;
mod registry;
mod relayers;
mod replay;
mod rollouts;
mod sdk;
mod systemd;
mod tls;
mod wasi_http;

use std::net::{SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Returns an address with a free port for a program that cannot choose one. No other
/// program takes the port meanwhile: the loopback address is only for this call.
fn free_address() -> SocketAddr {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let [_, high, middle, low] = process::id().to_be_bytes();
    let ip = [127, 128 | high, middle ^ low, COUNT.fetch_add(1, Relaxed)];
    TcpListener::bind(SocketAddr::from((ip, 0))).unwrap().local_addr().unwrap()
}
