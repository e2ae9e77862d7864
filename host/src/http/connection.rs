//! One connection: HTTP/1.1 or HTTP/2, as the client begins.

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::Either;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tracing::debug;

use super::limits::HttpLimits;
use super::liveness::{Closing, Handling, Liveness};
use super::request_check;
use super::service::{Answered, Service};
use super::watched::Watched;

/// What all connections have.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) service: Arc<Service>,
    pub(super) builder: Builder<TokioExecutor>,
    pub(super) limits: Arc<HttpLimits>,
}

type Answering = Either<
    Ready<Result<Answered, Infallible>>,
    Pin<Box<dyn Future<Output = Result<Answered, Infallible>> + Send>>,
>;

pub(super) async fn serve(stream: TcpStream, connections: Connections, liveness: Arc<Liveness>) {
    let Connections { service, builder, limits } = connections;
    if let Err(error) = prepare(&stream) {
        debug!(%error, "a connection is gone");
        return;
    }
    let answer = service_fn({
        let liveness = Arc::clone(&liveness);
        move |request| answer(&service, &limits, &liveness, request)
    });
    let stream = Watched::new(stream, Arc::clone(&liveness));
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

/// What is not sent yet stays here, where it is shared by all who are sent the
/// same: the system takes no more of it than this, in bytes.
const UNSENT: u32 = 128 << 10;

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT)?;
    Ok(())
}

/// A request whose answer its connection waits for.
enum Begun {
    /// Of HTTP/1, which has one at a time.
    One(Arc<Liveness>),
    /// Of HTTP/2.
    OfSeveral(Handling),
}

impl Begun {
    fn new(liveness: &Arc<Liveness>, version: Version) -> Self {
        if version == Version::HTTP_2 {
            return Self::OfSeveral(liveness.begins_one());
        }
        liveness.begins();
        Self::One(Arc::clone(liveness))
    }

    /// There is the answer.
    fn done(self, response: Answered) -> Answered {
        match self {
            Self::One(liveness) => {
                liveness.sends(response.body().len());
                response
            }
            Self::OfSeveral(handling) => response.map(|body| {
                let bytes = body.len();
                body.seen(handling.sends(bytes))
            }),
        }
    }
}

/// Answers a request: at once where it can be, which leaves nothing behind.
fn answer(
    service: &Arc<Service>,
    limits: &Arc<HttpLimits>,
    liveness: &Arc<Liveness>,
    request: Request<Incoming>,
) -> Answering {
    let begun = Begun::new(liveness, request.version());
    if let Err(error) = request_check::head(&request, limits) {
        if error.ends_connection() || !request.body().is_end_stream() {
            liveness.linger();
        }
        return Either::Left(ready(Ok(begun.done(Service::refuse(error, &request)))));
    }
    if request.body().is_end_stream() {
        return match service.answer(request) {
            Either::Left(response) => Either::Left(ready(Ok(begun.done(response)))),
            // In a box: what is rare does not make room for itself in every
            // connection.
            Either::Right(answering) => {
                Either::Right(Box::pin(async move { Ok(begun.done(answering.await)) }))
            }
        };
    }
    let (service, limits) = (Arc::clone(service), Arc::clone(limits));
    let liveness = Arc::clone(liveness);
    Either::Right(Box::pin(async move {
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, ());
        let awaited = liveness.waits_for_body();
        let discarded = request_check::discard(body, &limits, &awaited).await;
        drop(awaited);
        let response = match discarded {
            Err(error) => {
                liveness.linger();
                Service::refuse(error, &request)
            }
            Ok(()) => match service.answer(request) {
                Either::Left(response) => response,
                Either::Right(answering) => answering.await,
            },
        };
        Ok(begun.done(response))
    }))
}
