//! The server of the control socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use relayer_rest_state::StateReader;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};
use url::form_urlencoded;

use super::{ControlFault, ControlSocket, Reload, RolledBack, Status};
use crate::http::ConnectionTally;
use crate::registry::{Candidate, Mount, Registry, Source};
use crate::response::NOSNIFF;

/// The time that a client has for the head of a request, and for its body.
const MAX_HEAD_TIME: Duration = Duration::from_secs(10);
const MAX_BODY_TIME: Duration = Duration::from_mins(1);

/// The maximum size of a request's head, in bytes: it may contain the path of a module's
/// file.
const MAX_HEAD_SIZE: usize = 64 << 10;

/// The maximum number of clients that are served concurrently; others wait.
const MAX_CLIENTS: usize = 16;

const GET: &str = "GET";
const POST: &str = "POST";

/// A server on a control socket.
pub struct ControlServer {
    socket: ControlSocket,
    control: Control,
}

struct Control {
    registry: Arc<Registry>,
    state: StateReader,
    connections: Option<ConnectionTally>,
    reload: Option<Reload>,
}

type ControlResponse = Response<Full<Bytes>>;

/// The status and the message of a rejected request.
struct ErrorResponse(StatusCode, String);

impl ControlServer {
    /// Creates a server that controls the mounts of the registry from this socket.
    #[must_use]
    pub fn new(socket: ControlSocket, registry: Arc<Registry>, state: StateReader) -> Self {
        Self { socket, control: Control { registry, state, connections: None, reload: None } }
    }

    /// Includes the counts of connections in the status.
    #[must_use]
    pub fn with_connections(mut self, connections: ConnectionTally) -> Self {
        self.control.connections = Some(connections);
        self
    }

    /// Enables requests to reload the settings.
    #[must_use]
    pub fn with_reload(mut self, reload: Reload) -> Self {
        self.control.reload = Some(reload);
        self
    }

    /// Serves the socket until the future is dropped; then a swap in progress is
    /// cancelled, and the socket's file is removed.
    pub async fn serve(self) {
        let mut clients = JoinSet::new();
        let control = Arc::new(self.control);
        loop {
            tokio::select! {
                Some(_) = clients.join_next() => {}
                accepted = self.socket.listener.accept(), if clients.len() < MAX_CLIENTS => match accepted {
                    Ok((stream, _)) => {
                        clients.spawn(serve(stream, Arc::clone(&control)));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection on the control socket; retrying");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }
}

async fn serve(stream: UnixStream, control: Arc<Control>) {
    let service = service_fn(move |request| {
        let control = Arc::clone(&control);
        async move { Ok::<_, Infallible>(control.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD_TIME)
        .max_buf_size(MAX_HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "connection to the control socket ended early");
    }
}

impl Control {
    async fn respond(&self, request: Request<Incoming>) -> ControlResponse {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        if method == Method::CONNECT {
            return not_implemented();
        }
        let result = match (path.as_str(), &method) {
            ("/status", &Method::GET) => self.status(&request),
            ("/swap", &Method::POST) => self.swap(request).await,
            ("/rollback", &Method::POST) => self.rollback(&request),
            ("/reload", &Method::POST) => self.reload(&request).await,
            ("/status", _) => return not_allowed(&method, &path, GET),
            ("/swap" | "/rollback" | "/reload", _) => return not_allowed(&method, &path, POST),
            _ => Err(ErrorResponse(
                StatusCode::NOT_FOUND,
                format!(
                    "unknown path {path}; expected GET /status, POST /swap, POST /rollback or POST /reload"
                ),
            )),
        };
        result.unwrap_or_else(|ErrorResponse(status, error)| json(status, &ControlFault { error }))
    }

    fn status(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let _: [Option<String>; 0] = parameters(request, [])?;
        let mounts = self.registry.mounts().iter().map(|mount| mount.status()).collect();
        let connections = self.connections.as_ref().map(ConnectionTally::status);
        let status = Status::new(&self.state.snapshot(), connections, mounts);
        Ok(json(StatusCode::OK, &status))
    }

    async fn swap(&self, request: Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let [mount, name, sha256, dialect, dry_run, force] =
            parameters(&request, ["mount", "name", "sha256", "dialect", "dry-run", "force"])?;
        let mount = self.mount(mount)?;
        let sha256 = parsed("sha256", sha256)?;
        let dialect = parsed("dialect", dialect)?;
        let dry_run = parsed("dry-run", dry_run)?.unwrap_or(false);
        let force = parsed("force", force)?.unwrap_or(false);
        let bytes = self.component(&mount, request).await?;
        let name = name.unwrap_or_else(|| "from the control socket".to_owned());
        let source = Source::Bytes { name, bytes };
        let candidate = Candidate { source, sha256, dialect, dry_run, force };
        let report = mount.swap(candidate, &self.state).await;
        let status = if report.is_accepted() { StatusCode::OK } else { StatusCode::CONFLICT };
        Ok(json(status, &report))
    }

    /// Reads the component from the body of a request, up to the mount's limit of size.
    async fn component(
        &self,
        mount: &Mount,
        request: Request<Incoming>,
    ) -> Result<Bytes, ErrorResponse> {
        let size = mount.swap_limits().size;
        let limit = usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
        let body = Limited::new(request.into_body(), limit).collect();
        match timeout(MAX_BODY_TIME, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(ErrorResponse(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the component is larger than {size}; raise swap.size"),
            )),
            Ok(Err(error)) => {
                let message =
                    format!("the component was not received completely: {error}; send it again");
                Err(ErrorResponse(StatusCode::BAD_REQUEST, message))
            }
            Err(_) => {
                let message = format!(
                    "the component was not received within {MAX_BODY_TIME:?}; send it again"
                );
                Err(ErrorResponse(StatusCode::REQUEST_TIMEOUT, message))
            }
        }
    }

    fn rollback(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let [mount] = parameters(request, ["mount"])?;
        let mount = self.mount(mount)?;
        let (from, to) = mount
            .rollback()
            .map_err(|error| ErrorResponse(StatusCode::CONFLICT, error.to_string()))?;
        let from = from.to_string();
        let to = to.to_string();
        let mount = mount.path().to_string();
        Ok(json(StatusCode::OK, &RolledBack { mount, from, to }))
    }

    async fn reload(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let _: [Option<String>; 0] = parameters(request, [])?;
        let Some(reload) = &self.reload else {
            let message = "this server has no settings to reload".to_owned();
            return Err(ErrorResponse(StatusCode::CONFLICT, message));
        };
        match reload().await {
            Ok(reloaded) => Ok(json(StatusCode::OK, &reloaded)),
            Err(error) => Err(ErrorResponse(StatusCode::CONFLICT, error)),
        }
    }

    fn mount(&self, path: Option<String>) -> Result<Arc<Mount>, ErrorResponse> {
        let path = path.unwrap_or_else(|| "/".to_owned());
        self.registry.at(&path).ok_or_else(|| {
            let mounts: Vec<_> =
                self.registry.mounts().iter().map(|mount| mount.path().to_string()).collect();
            let message = format!("unknown mount {path}; expected one of {}", mounts.join(", "));
            ErrorResponse(StatusCode::NOT_FOUND, message)
        })
    }
}

/// Returns the values of a request's parameters. Rejects parameters that are repeated or
/// not among `names`.
fn parameters<const N: usize>(
    request: &Request<Incoming>,
    names: [&str; N],
) -> Result<[Option<String>; N], ErrorResponse> {
    let mut values = [const { None }; N];
    let query = request.uri().query().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let bad = |message: String| ErrorResponse(StatusCode::BAD_REQUEST, message);
        let place = names.iter().position(|parameter| *parameter == name).ok_or_else(|| {
            bad(match names.join(", ") {
                expected if expected.is_empty() => {
                    format!("unknown parameter {name}; expected none")
                }
                expected => format!("unknown parameter {name}; expected one of {expected}"),
            })
        })?;
        if values[place].replace(value.into_owned()).is_some() {
            return Err(bad(format!("duplicate parameter {name}; give it once")));
        }
    }
    Ok(values)
}

fn parsed<T>(name: &str, value: Option<String>) -> Result<Option<T>, ErrorResponse>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let parse = |value: String| {
        value
            .parse()
            .map_err(|error| ErrorResponse(StatusCode::BAD_REQUEST, format!("{name}: {error}")))
    };
    value.map(parse).transpose()
}

/// Rejects CONNECT and closes the connection: the bytes that follow may be meant for the
/// tunnel.
fn not_implemented() -> ControlResponse {
    let error = "CONNECT is not implemented".to_owned();
    let mut response = json(StatusCode::NOT_IMPLEMENTED, &ControlFault { error });
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn not_allowed(method: &Method, path: &str, allowed: &'static str) -> ControlResponse {
    let error = format!("method {method} is not allowed on {path}; use {allowed}");
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, &ControlFault { error });
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(status: StatusCode, value: &impl Serialize) -> ControlResponse {
    let body = serde_json::to_vec(value).expect("writing to memory succeeds and keys are texts");
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}
