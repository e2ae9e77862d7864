//! The service manager that has started the process, such as systemd: its sockets, and
//! notifications to it. Without one, there is nothing to do.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;
use relayer_rest_server::control::Reload;
use rustix::io::{FdFlags, fcntl_setfd};
use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

/// Returns the socket that the service manager listens on for this process, if it does.
pub(super) fn listener() -> io::Result<Option<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let Some(listener) = passed.take_tcp_listener(0)? else { return Ok(None) };
    if passed.len() > 1 {
        let message = format!("{} sockets are passed; pass one", passed.len());
        return Err(io::Error::other(message));
    }
    // The processes that compile modules do not get it.
    fcntl_setfd(&listener, FdFlags::CLOEXEC)?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// Reports that clients can connect, and keeps the watchdog from acting.
pub(super) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
    let Some(timeout) = watchdog_enabled() else { return };
    info!(?timeout, "watchdog of the service manager enabled");
    tokio::spawn(async move {
        // Half of the time is left for a busy machine.
        let mut ticks = interval((timeout / 2).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            send(&[NotifyState::Watchdog]);
        }
    });
}

/// Reports that the process completes its requests and ends.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Returns a function that reports the beginning and the end of each reload.
pub(super) fn reporting(reload: Reload) -> Reload {
    Arc::new(move || {
        let reload = reload();
        Box::pin(async move {
            if let Ok(time) = NotifyState::monotonic_usec_now() {
                send(&[NotifyState::Reloading, time]);
            }
            let result = reload.await;
            // The former settings are in effect if the new ones are invalid.
            send(&[NotifyState::Ready]);
            result
        })
    })
}

fn send(states: &[NotifyState]) {
    if let Err(error) = notify(states) {
        warn!(%error, "the service manager cannot be notified");
    }
}
