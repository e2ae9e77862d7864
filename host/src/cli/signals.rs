//! SIGINT and SIGTERM, the ways to end; SIGHUP, the way to have files read
//! again.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::sources::Reload;

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

/// Reads files again at each SIGHUP. Without files SIGHUP does nothing.
pub(super) fn reload_on_hangup(reloads: Vec<Reload>) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            info!("SIGHUP: reading files again");
            let reloads = reloads.clone();
            let reading =
                tokio::task::spawn_blocking(move || reloads.iter().for_each(|reload| reload()));
            // A panic is in the log; the next signal is another try.
            reading.await.ok();
        }
    });
    Ok(())
}
