//! Accepts connections, and ends when it is told to.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::service::Service;
use crate::module::Module;
use crate::state::StateReader;

/// How long a client may take to send the head of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How long connections may take to finish once the server is told to end.
const GRACE: Duration = Duration::from_secs(10);

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves a module's API, on the present state.
pub struct Server {
    service: Arc<Service>,
    connection: Builder<TokioExecutor>,
}

impl Server {
    /// A server of this module, on what is published to this reader.
    #[must_use]
    pub fn new(module: Module, state: StateReader) -> Self {
        let mut connection = Builder::new(TokioExecutor::new());
        connection.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
        connection.http2().timer(TokioTimer::new());
        Self { service: Arc::new(Service::new(module, state)), connection }
    }

    /// Serves the listener's connections until `shutdown` completes and the
    /// requests in flight are answered, or 10 s later.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let connections = GracefulShutdown::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.connect(stream, &connections),
                    Err(error) => pause(&error).await,
                },
            }
        }
        drop(listener);
        if timeout(GRACE, connections.shutdown()).await.is_err() {
            warn!("connections were still busy after {GRACE:?} and are closed");
        }
    }

    fn connect(&self, stream: TcpStream, connections: &GracefulShutdown) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection is gone");
            return;
        }
        let service = Arc::clone(&self.service);
        let answer = service_fn(move |request| {
            let service = Arc::clone(&service);
            async move { Ok::<_, Infallible>(service.answer(request).await) }
        });
        let connection = self.connection.serve_connection(TokioIo::new(stream), answer);
        let connection = connections.watch(connection.into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(error, "a connection ended early");
            }
        });
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
