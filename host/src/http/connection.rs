//! One connection: HTTP/1.1 or HTTP/2, as the client begins.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::debug;

use super::service::Service;

/// How long a client has for the head of its first request.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// What all connections have.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) service: Arc<Service>,
    pub(super) builder: Builder<TokioExecutor>,
    /// Turns true when the server is told to end.
    pub(super) closing: watch::Receiver<bool>,
}

pub(super) async fn serve(stream: TcpStream, connections: Connections) {
    let Connections { service, builder, mut closing } = connections;
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection is gone");
        return;
    }
    let asked = Arc::new(AtomicBool::new(false));
    let answer = service_fn({
        let asked = Arc::clone(&asked);
        move |request| {
            asked.store(true, Relaxed);
            let service = Arc::clone(&service);
            async move { Ok::<_, Infallible>(service.answer(request).await) }
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    // Closing lets a request in flight finish. A client that has not said
    // anything by its time has none.
    let close = async {
        let silent = async {
            sleep(FIRST_REQUEST).await;
            if asked.load(Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => {}
            () = silent => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = close => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(error, "a connection ended early");
    }
}
