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
mod languages;
mod metrics;
mod openapi;
mod relayers;
mod systemd;
mod tls;
