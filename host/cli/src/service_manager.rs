//! The service manager that has started the process, such as systemd: its sockets, and
//! notifications to it. Without one, there is nothing to do.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;
use relayer_rest_server::Listener;
use relayer_rest_server::control::Reload;
use rustix::io::{FdFlags, fcntl_setfd};
use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

/// Returns the sockets that the service manager listens on for this process.
///
/// Must be called within a Tokio runtime.
pub(super) fn listeners() -> io::Result<Vec<Listener>> {
    let mut passed = ListenFd::from_env();
    (0..passed.len()).filter_map(|place| listener(&mut passed, place).transpose()).collect()
}

fn listener(passed: &mut ListenFd, place: usize) -> io::Result<Option<Listener>> {
    // A socket of another kind is put back.
    if let Ok(listener) = passed.take_tcp_listener(place) {
        let Some(listener) = listener else { return Ok(None) };
        close_on_exec(&listener)?;
        return Listener::from_tcp(listener).map(Some);
    }
    let Some(listener) = passed.take_unix_listener(place)? else { return Ok(None) };
    close_on_exec(&listener)?;
    Listener::from_unix(listener).map(Some)
}

/// Keeps the processes that compile modules from getting a socket.
fn close_on_exec(socket: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(socket, FdFlags::CLOEXEC)?)
}

/// Returns the timeout of the watchdog, if it is enabled for this process.
pub(super) fn watchdog() -> Option<Duration> {
    watchdog_enabled()
}

/// Reports the process that serves, which the service manager must supervise. An id of 0 is of
/// a process in another namespace.
pub(super) fn main_process(id: u32) {
    if id != 0 {
        send(&[NotifyState::MainPid(id)]);
    }
}

/// Reports that clients can connect, and keeps the watchdog from acting.
pub(super) fn ready(status: &str, watchdog: Option<Duration>) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
    let Some(timeout) = watchdog else { return };
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
