//! Accepts connections, and ends when it is told to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::warn;

use super::connection::Connections;
use super::connection_manager::ConnectionManager;
use super::connection_tally::ConnectionTally;
use super::limits::HttpLimits;
use super::roster::Roster;
use super::send_admission::SendAdmission;
use super::service::Service;
use crate::module::Module;
use crate::registry::{Mount, Registry};
use crate::state::StateReader;

/// How often it is looked after clients that are silent.
const LOOK: Duration = Duration::from_secs(1);

/// How long an HTTP/2 connection may be silent before it is asked whether
/// anybody is there, and how long the answer may take.
const HTTP2_SILENCE: Duration = Duration::from_secs(20);
const HTTP2_PONG: Duration = Duration::from_secs(10);

/// How long what is in flight has to finish once the server is told to end.
const GRACE: Duration = Duration::from_secs(10);

/// The answers of HTTP/2 that a connection has at once, and what the library
/// takes of each before its client does, in bytes.
const STREAMS: u32 = 100;
const STREAM_BUFFER: usize = 64 << 10;

/// The streams of a connection that its client resets before they are handled, and
/// those that are reset for its errors, until the library closes it: those of clients
/// that are in order are few.
const PENDING_RESETS: usize = 20;
const ERROR_RESETS: usize = 100;

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves what is mounted, on the present state.
pub struct Server {
    service: Arc<Service>,
    limits: HttpLimits,
    grace: Duration,
    tally: ConnectionTally,
}

impl Server {
    /// A server of this module's API, on what is published to this reader.
    #[must_use]
    pub fn new(module: Module, state: StateReader) -> Self {
        Self::of(Arc::new(Registry::new(Mount::api(module))), state)
    }

    /// A server of all that is mounted, on what is published to this reader.
    /// What is exchanged in the registry is served from then on.
    #[must_use]
    pub fn of(registry: Arc<Registry>, state: StateReader) -> Self {
        let service = Arc::new(Service::new(registry, state));
        let tally = ConnectionTally::default();
        Self { service, limits: HttpLimits::default(), grace: GRACE, tally }
    }

    /// What clients may have of the sockets.
    #[must_use]
    pub fn with_limits(self, limits: HttpLimits) -> Self {
        Self { limits, ..self }
    }

    /// How long what is in flight has to finish once the server is told to end.
    /// Default: 10 s.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Its connections, counted: for the status that a control socket tells.
    #[must_use]
    pub fn connections(&self) -> ConnectionTally {
        self.tally.clone()
    }

    /// Serves the listener's connections until `shutdown` completes. Idle
    /// connections are closed then, requests in flight are answered; what is
    /// not done in the time for that is dropped.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let roster = Arc::new(Roster::new(self.tally.clone()));
        let budget = Arc::clone(self.tally.budget());
        let admission = SendAdmission::new(budget, Arc::clone(&roster), self.limits.unsent);
        let connections = Connections {
            service: self.service,
            builder: builder(&self.limits),
            limits: Arc::new(self.limits.clone()),
            admission: Arc::new(admission),
        };
        let mut open = ConnectionManager::new(self.limits, connections, roster, self.tally);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = open.ended() => {}
                _ = looks.tick() => open.tick(),
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => open.add(stream, address.ip()),
                    Err(error) => pause(&error).await,
                },
            }
        }
        drop(listener);
        open.close_all();
        let finished = async {
            while open.len() > 0 {
                open.ended().await;
            }
        };
        if timeout(self.grace, finished).await.is_err() {
            let count = open.len();
            warn!("{count} connections are not done after {:?} and are dropped", self.grace);
        }
    }
}

fn builder(limits: &HttpLimits) -> Builder<TokioExecutor> {
    let head = usize::try_from(limits.head.as_u64()).unwrap_or(usize::MAX);
    // What is larger than it may be, but not much, is answered by the host and not
    // by the library, which says nothing but the status.
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_SILENCE)
        .keep_alive_timeout(HTTP2_PONG)
        .max_header_list_size(u32::try_from(2 * head).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(ERROR_RESETS)
        .max_send_buf_size(STREAM_BUFFER);
    builder
}

/// A connection that failed before it was accepted is its client's affair; for
/// any other failure the listener waits for things to get better.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        warn!(%error, "cannot accept a connection; trying again");
        sleep(ACCEPT_PAUSE).await;
    }
}
