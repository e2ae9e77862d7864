//! The log: lines on stderr. `RUST_LOG` says how much; by default `info`.

use std::io::{self, IsTerminal};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The lines that wait where the log is read slowly or not at all; those beyond
/// are lost: nobody waits for the log.
const WAITING: usize = 4096;

/// Writes what waits, at its end, where it is read.
pub(super) fn start() -> WorkerGuard {
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(WAITING).finish(io::stderr());
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(io::stderr().is_terminal())
        // Nobody reads the log any more: that ends no request.
        .log_internal_errors(false)
        .init();
    guard
}
