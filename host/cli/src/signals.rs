//! Signals: SIGINT and SIGTERM end the server, SIGHUP makes it read files again.

use std::io;

use relayer_rest_server::control::Reload;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

/// Returns a future that completes when the process gets a signal to end. Signals are caught
/// from this call on, not only once it is awaited.
pub(super) fn shutdown() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // If files may not grow (ulimit -f), a write must fail and not end the process.
    drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
    Ok(async move {
        let name = tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        };
        info!(signal = name, "shutting down");
    })
}

/// SIGHUP, which has no effect without files to read again.
pub(super) struct Hangup(Signal);

impl Hangup {
    /// Catches signals from this call on.
    pub(super) fn catch() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Reads files again at each signal.
    pub(super) fn reload(mut self, reload: Reload) {
        tokio::spawn(async move {
            while self.0.recv().await.is_some() {
                info!(signal = "SIGHUP", "reloading settings and files");
                // An error is in the log, as is a panic; the next signal is another attempt.
                drop(tokio::spawn(reload()).await);
            }
        });
    }
}
