//! One connection: HTTP/1.1 or HTTP/2, as the client begins.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::Either;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tracing::debug;

use super::liveness::{Closing, Liveness};
use super::service::Service;
use super::watched::Watched;

/// What all connections have.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) service: Arc<Service>,
    pub(super) builder: Builder<TokioExecutor>,
}

pub(super) async fn serve(stream: TcpStream, connections: Connections, liveness: Arc<Liveness>) {
    let Connections { service, builder } = connections;
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection is gone");
        return;
    }
    let answer = service_fn({
        let liveness = Arc::clone(&liveness);
        move |request: Request<_>| {
            // HTTP/2 asks by itself whether anybody is there.
            let is_watched = request.version() != Version::HTTP_2;
            liveness.begins();
            match service.answer(request) {
                Either::Left(response) => {
                    if is_watched {
                        liveness.waits();
                    }
                    Either::Left(ready(Ok::<_, Infallible>(response)))
                }
                Either::Right(answering) => {
                    let liveness = Arc::clone(&liveness);
                    // In a box: what is rare does not make room for itself in
                    // every connection.
                    Either::Right(Box::pin(async move {
                        let response = answering.await;
                        if is_watched {
                            liveness.waits();
                        }
                        Ok(response)
                    }))
                }
            }
        }
    });
    let stream = Watched { stream, liveness: Arc::clone(&liveness) };
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let mut is_closing = false;
    let mut waker = None;
    let ended = poll_fn(|context| {
        match liveness.poll_closing(context, &mut waker) {
            Poll::Ready(Closing::AtOnce) => return Poll::Ready(Ok(())),
            Poll::Ready(Closing::InOrder) if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            Poll::Ready(Closing::InOrder) | Poll::Pending => {}
        }
        connection.as_mut().poll(context)
    });
    if let Err(error) = ended.await {
        debug!(error, "a connection ended early");
    }
}
