//! One connection: HTTP/1.1 or HTTP/2, depending on the client's first bytes.

use std::error::Error;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::net::IpAddr;
use std::ops::DerefMut;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::Either;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulConnection;
use relayer_rest_state::Snapshot;
use tracing::debug;

use super::activity::ConnectionActivity;
use super::admitted::Admitted;
use super::awaited_body::AwaitedBody;
use super::closing::Closing;
use super::http2_request::{Http2Request, RequestMemory};
use super::open_connections::OpenConnection;
use super::protocol::{Detected, Protocols, detect};
use super::roster::Peer;
use super::sending::Sending;
use super::socket::{AssignedSocket, Socket};
use super::stream::Stream;
use super::tracked_stream::TrackedStream;
use crate::http::cancelled::Cancelled;
use crate::http::error::HostError;
use crate::http::exchange::{ClientSide, Observation};
use crate::http::fleet_generation;
use crate::http::forwarded::ForwardedClients;
use crate::http::held::Held;
use crate::http::limits::HttpLimits;
use crate::http::live::StreamConnection;
use crate::http::outgoing::{HttpResponse, Outgoing};
use crate::http::received_body::RequestBodies;
use crate::http::request_check;
use crate::http::send_admission::SendAdmission;
use crate::http::service::Service;
use crate::http::tls::{self, TlsConfig};
use crate::response::{X_RELAYER_MODULE, X_REQUEST_ID};

/// The context that the connections of a thread share. The alignment, which the count of references
/// gets as well, keeps it out of the cache lines of other threads.
#[derive(Clone)]
#[repr(align(128))]
pub(in crate::http) struct Connections {
    pub(in crate::http) service: Arc<Service>,
    pub(in crate::http) protocols: Arc<Protocols>,
    pub(in crate::http) limits: Arc<HttpLimits>,
    pub(in crate::http) admission: Arc<SendAdmission>,
    pub(in crate::http) clients: Arc<ForwardedClients>,
    pub(in crate::http) bodies: RequestBodies,
}

impl Connections {
    /// Returns the context for the connections of another thread.
    pub(in crate::http) fn for_another_thread(&self) -> Self {
        Self { admission: Arc::new(self.admission.for_another_thread()), ..self.clone() }
    }
}

/// A response, or the reason that a request of HTTP/2 gets none.
type Outcome = Result<HttpResponse, h2::Error>;

type PendingOutcome = Either<Ready<Outcome>, Pin<Box<dyn Future<Output = Outcome> + Send>>>;

/// A connection that was accepted.
#[derive(Debug)]
pub(in crate::http) struct Accepted {
    pub(in crate::http) socket: Socket,
    pub(in crate::http) peer: Peer,
    /// The address of the client; none for a Unix socket.
    pub(in crate::http) address: Option<IpAddr>,
    /// The configuration of its TLS, if its listener has TLS.
    pub(in crate::http) tls: Option<Arc<TlsConfig>>,
}

/// Serves a connection, which counts as open until its memory is released.
pub(super) async fn serve(
    _open: OpenConnection,
    socket: AssignedSocket,
    tls: Option<Arc<TlsConfig>>,
    client: ClientSide,
    connections: Arc<Connections>,
    activity: Arc<ConnectionActivity>,
) {
    let protocols = Arc::clone(&connections.protocols);
    let (stream, detected) = match start(socket, tls, &activity).await {
        Ok(Some(started)) => started,
        Ok(None) => return,
        Err(error) => {
            debug!(%error, "connection lost");
            return;
        }
    };
    let service = service_fn({
        let activity = Arc::clone(&activity);
        let cancelled = Arc::new(Cancelled::new());
        let connection = Connection { connections, activity, cancelled, client };
        move |request| handle(&connection, request)
    });
    let stream = TokioIo::new(TrackedStream::new(stream, Arc::clone(&activity)));
    let ended = match detected {
        Detected::Http1 => {
            let connection = pin!(protocols.http1.serve_connection(stream, service));
            run(connection, &activity).await
        }
        // Boxed, so that it does not enlarge the memory of each connection.
        Detected::Http2 => {
            let connection = Box::pin(protocols.http2.serve_connection(stream, service));
            run(connection, &activity).await
        }
    };
    if let Err(error) = ended {
        let cause = error.source();
        debug!(%error, cause, "connection ended early");
    }
}

/// Waits for the first bytes of a connection. Returns `None` if the connection is told to
/// end before.
async fn start(
    socket: AssignedSocket,
    tls: Option<Arc<TlsConfig>>,
    activity: &ConnectionActivity,
) -> io::Result<Option<(Stream, Detected)>> {
    let socket = socket.attach()?;
    if let Some(config) = tls {
        // Boxed, so that it does not enlarge the memory of each connection.
        let accept = Box::pin(tls::accept(socket, config));
        return tokio::select! {
            biased;
            _ = activity.closing.closed() => Ok(None),
            accepted = accept => accepted.map(Some),
        };
    }
    tokio::select! {
        biased;
        // Without a request, there is no work in progress.
        _ = activity.closing.closed() => {
            // Bytes that were not read would reset the connection.
            drop(socket.try_read(&mut [0; 8]));
            Ok(None)
        }
        detected = detect(&socket) => Ok(Some((Stream::Plain(socket), detected?))),
    }
}

/// Runs a connection until it ends, or until it is told to end.
async fn run(
    mut connection: Pin<impl DerefMut<Target = impl GracefulConnection<Error = hyper::Error>>>,
    activity: &ConnectionActivity,
) -> hyper::Result<()> {
    let mut is_closing = false;
    let mut waker = None;
    poll_fn(|context| {
        match activity.closing.poll(context, &mut waker) {
            Poll::Ready(Closing::AtOnce) => return Poll::Ready(Ok(())),
            Poll::Ready(Closing::InOrder) if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            Poll::Ready(Closing::InOrder) | Poll::Pending => {}
        }
        connection.as_mut().poll(context)
    })
    .await
}

/// A connection, with the client on its other side.
#[derive(Clone)]
struct Connection {
    connections: Arc<Connections>,
    activity: Arc<ConnectionActivity>,
    cancelled: Arc<Cancelled>,
    client: ClientSide,
}

/// A request that waits for its response.
struct PendingResponse {
    /// The request, if it is of HTTP/2. One of HTTP/1 is the only one of its connection.
    http2: Option<Http2Request>,
    /// The memory of the request, for HTTP/2 only.
    memory: Option<RequestMemory>,
    observation: Option<Box<Observation>>,
}

impl PendingResponse {
    /// Registers a request. Returns `None` if it is of HTTP/2 and does not fit into
    /// memory.
    fn new<B>(connection: &Connection, request: &Request<B>) -> Option<Self> {
        let Connection { connections, activity, .. } = connection;
        let (http2, memory) = if request.version() == Version::HTTP_2 {
            Some(connections.admission.request(activity, request.headers())?).unzip()
        } else {
            activity.on_request();
            (None, None)
        };
        Some(Self { http2, memory, observation: None })
    }

    /// Hands a response to the connection, without a boxed future if it fits immediately.
    fn deliver(mut self, connection: &Connection, mut response: HttpResponse) -> PendingOutcome {
        if self.try_send(connection, &mut response) {
            return Either::Left(ready(Ok(response)));
        }
        let connection = connection.clone();
        Either::Right(Box::pin(async move { Ok(self.wait(&connection, response).await) }))
    }

    /// Hands a response to the connection as soon as it fits.
    async fn send(mut self, connection: &Connection, mut response: HttpResponse) -> HttpResponse {
        if self.try_send(connection, &mut response) {
            return response;
        }
        self.wait(connection, response).await
    }

    /// Hands a response to the connection. Returns `false` if it does not fit.
    fn try_send(&mut self, connection: &Connection, response: &mut HttpResponse) -> bool {
        if response.body().has_events() {
            self.begin(connection, response);
            return true;
        }
        let body = response.body().bytes();
        // A head alone is written immediately, or with those before it. Of HTTP/2 it waits for the
        // client, and always fits.
        let held = if body.is_empty() && self.http2.is_none() {
            None
        } else {
            let Connection { connections, activity, .. } = connection;
            let held = connections.admission.try_admit(activity, &mut self.memory, body);
            if held.is_none() {
                return false;
            }
            held
        };
        self.finish(connection, response, held);
        true
    }

    /// Begins to send a response whose body is a stream of events. Each of them is admitted for
    /// itself.
    #[cold]
    fn begin(&mut self, connection: &Connection, response: &mut HttpResponse) {
        let admission = Arc::clone(&connection.connections.admission);
        let activity = Arc::clone(&connection.activity);
        let memory = self.memory.take();
        self.finish(connection, response, None);
        response.body_mut().connect(StreamConnection { admission, activity, memory });
    }

    /// Waits until the response fits. If it does not in time, the client gets 503 with
    /// `retry-after`.
    async fn wait(mut self, connection: &Connection, mut response: HttpResponse) -> HttpResponse {
        let Connection { connections, activity, .. } = connection;
        let body = response.body().bytes();
        let held = connections.admission.admit(activity, &mut self.memory, body).await;
        if held.is_some() {
            self.finish(connection, &mut response, held);
        } else {
            self.refuse(connection, &mut response);
        }
        response
    }

    /// Responds with 503 instead, without counting that response: with HTTP/2 it is not
    /// larger than the memory that was counted for its request.
    fn refuse(&mut self, connection: &Connection, response: &mut HttpResponse) {
        let error = HostError::Overloaded;
        connection.connections.admission.count_refused(error.name());
        let mut refusal = error.response().map(Outgoing::new);
        for name in [X_RELAYER_MODULE, X_REQUEST_ID] {
            if let Some(value) = response.headers().get(&name) {
                refusal.headers_mut().insert(name, value.clone());
            }
        }
        let held = self.memory.take().map(|request| {
            let sending = Sending::new(&connection.activity, 0);
            Held::new(sending, None, Some(request))
        });
        *response = refusal;
        self.finish(connection, response, held);
    }

    fn finish(&mut self, connection: &Connection, response: &mut HttpResponse, held: Option<Held>) {
        if let Some(observation) = self.observation.take() {
            observation.complete(response);
        }
        if self.http2.is_none() {
            connection.activity.waits();
            if connection.activity.is_draining() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        match held {
            Some(held) if self.http2.is_none() => response.body_mut().hold(held),
            Some(held) => {
                let mut id = response.headers_mut().remove(X_REQUEST_ID);
                response.body_mut().hold_with_head(held, id.as_mut());
                response.headers_mut().extend(id.map(|id| (X_REQUEST_ID, id)));
            }
            None => {}
        }
    }
}

/// Responds to a request, without a boxed future if the response is available
/// immediately.
fn handle(connection: &Connection, mut request: Request<Incoming>) -> PendingOutcome {
    let Connection { connections, activity, client, .. } = connection;
    let Connections { service, limits, clients, .. } = &**connections;
    let Some(mut pending) = PendingResponse::new(connection, &request) else {
        // RFC 9113, 8.7: the client can send it again.
        return Either::Left(ready(Err(h2::Reason::REFUSED_STREAM.into())));
    };
    let client = clients.client(*client, request.headers());
    pending.observation = service.observe(&mut request, client);
    if let Err(error) = request_check::head(&request, limits, client.default_port()) {
        if error.ends_connection() || !request.body().is_end_stream() {
            activity.closing.linger();
        }
        return pending.deliver(connection, service.refuse(&error, &request));
    }
    let snapshot = service.state.peek();
    let waits = fleet_generation::must_wait(&request, &snapshot);
    if request.body().is_end_stream() && !waits {
        return match respond(connection, client, &snapshot, request) {
            Either::Left(response) => pending.deliver(connection, response),
            // Boxed, so that a rare case does not enlarge the memory of each connection. `responding`
            // is not awaited by an async block, which would have room for two copies of it.
            Either::Right(responding) => {
                let connection = connection.clone();
                let sent = responding
                    .then(|response| async move { pending.send(&connection, response).await });
                Either::Right(Box::pin(sent.map(Ok)))
            }
        };
    }
    let connection = connection.clone();
    Either::Right(Box::pin(async move {
        let Connection { connections, activity, .. } = &connection;
        let Connections { service, limits, .. } = &**connections;
        let (head, body) = request.into_parts();
        let mut request = Request::from_parts(head, ());
        let received = if body.is_end_stream() {
            Ok(None)
        } else {
            let awaited = AwaitedBody::new(activity);
            connections.bodies.receive(body, limits, &awaited).await.map(Some)
        };
        if received.is_err() {
            activity.closing.linger();
        }
        let complete = match received {
            Ok(body) => {
                if let Some(body) = body {
                    request.extensions_mut().insert(body);
                }
                fleet_generation::wait(&request, &service.state).await
            }
            Err(error) => Err(error),
        };
        let response = match complete {
            Err(error) => Either::Left(ready(service.refuse(&error, &request))),
            Ok(()) => match respond(&connection, client, &service.state.peek(), request) {
                Either::Left(response) => Either::Left(ready(response)),
                Either::Right(responding) => Either::Right(responding.boxed()),
            },
        };
        let response = response.await;
        Ok(pending.send(&connection, response).await)
    }))
}

/// Returns the response to a request that is complete. Only a cached one is returned, or else
/// 429, if its connection has cancelled too many requests, or if its client has too many in
/// flight.
fn respond<B>(
    connection: &Connection,
    client: ClientSide,
    snapshot: &Arc<Snapshot>,
    request: Request<B>,
) -> Either<HttpResponse, impl Future<Output = HttpResponse> + use<B>> {
    let Connection { connections, activity, cancelled, .. } = connection;
    let mut admit = || {
        if cancelled.is_too_much() {
            return Err(HostError::CancelledTooMany);
        }
        let in_flight = connections.clients.admit(client)?;
        Ok(Admitted::new(cancelled, in_flight, activity))
    };
    connections.service.respond(request, client, snapshot, &mut admit)
}
