//! The log: lines on stderr. `RUST_LOG` says how much; by default `info`.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub(super) fn start() {
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // Nobody reads the log any more: that ends no request.
        .log_internal_errors(false)
        .init();
}
