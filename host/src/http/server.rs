//! Accepts connections, and ends when it is told to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::connection::{self, Connections, FIRST_REQUEST};
use super::service::Service;
use crate::module::Module;
use crate::state::StateReader;

/// How long an HTTP/2 connection may be silent before it is asked whether
/// anybody is there, and how long the answer may take.
const HTTP2_SILENCE: Duration = Duration::from_secs(20);
const HTTP2_PONG: Duration = Duration::from_secs(10);

/// How long connections have to finish once the server is told to end, unless
/// a request may take longer.
const GRACE: Duration = Duration::from_secs(10);

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves a module's API, on the present state.
pub struct Server {
    service: Arc<Service>,
    builder: Builder<TokioExecutor>,
    grace: Duration,
}

impl Server {
    /// A server of this module, on what is published to this reader.
    ///
    /// A client has 10 s for the head of a request, and as long between two
    /// requests.
    #[must_use]
    pub fn new(module: Module, state: StateReader) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(FIRST_REQUEST);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_SILENCE)
            .keep_alive_timeout(HTTP2_PONG);
        let grace = GRACE.max(module.limits().time + module.limits().queue_wait);
        Self { service: Arc::new(Service::new(module, state)), builder, grace }
    }

    /// Serves the listener's connections until `shutdown` completes. Idle
    /// connections are closed then, requests in flight are answered; what is
    /// not done in 10 s, or the time that a request may take where that is
    /// more, is dropped.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(false);
        let connections = Connections { service: self.service, builder: self.builder, closing };
        let mut open = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = open.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        open.spawn(connection::serve(stream, connections.clone()));
                    }
                    Err(error) => pause(&error).await,
                },
            }
        }
        drop(listener);
        close.send_replace(true);
        let finished = async { while open.join_next().await.is_some() {} };
        if timeout(self.grace, finished).await.is_err() {
            warn!("{} connections are not done after {:?} and are dropped", open.len(), self.grace);
        }
    }
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
