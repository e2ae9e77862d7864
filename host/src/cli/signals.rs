//! SIGINT and SIGTERM: the ways to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Completes when the process is told to end. Signals are caught from this
/// call on, not only once it is awaited.
pub(super) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let name = tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        };
        info!("{name}: no new connections; requests in flight are finished");
    })
}
