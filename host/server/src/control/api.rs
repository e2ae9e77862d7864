//! The control API: its routes, and their handlers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    UPGRADE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode};
use relayer_rest_common::text::truncate;
use relayer_rest_oci::Reference;
use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::StateReader;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::info;
use url::form_urlencoded;

use super::listener::{AccessError, Policy};
use super::takeover::{self, Handover};
use super::{
    CancelledShadow, ControlFault, CurrentSettings, EffectiveConfig, ExplainRequest, LogLevel,
    Reload, RolledBack, Status, metrics, readiness,
};
use crate::capsules::{CapsuleRequestError, Capsules};
use crate::http::{BasePath, ConnectionTally};
use crate::openapi;
use crate::registry::{Candidate, ModuleLocation, Mount, Registry, Shadow, Source};
use crate::response::NOSNIFF;
use crate::tokens::{TokenName, TokenRefusal};

/// The time that a client has for the body of a request.
const MAX_BODY_TIME: Duration = Duration::from_mins(1);

/// The maximum number of concurrent requests for control over TCP.
const MAX_CONTROLLING: usize = 8;

/// The maximum size of a request to explain, in bytes.
const MAX_EXPLAIN: usize = 64 << 10;

/// The maximum size of a level of the log, in bytes.
const MAX_LEVEL: usize = 4 << 10;

/// The headers of a response that offers or begins a takeover.
const UPGRADE_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (CONNECTION, HeaderValue::from_static("upgrade")),
    (UPGRADE, HeaderValue::from_static(takeover::UPGRADE)),
];

/// The routes, and their clients.
const ROUTES: [Route; 15] = [
    Route { path: "/livez", method: Method::GET, access: Access::All, verb: Verb::Livez },
    Route { path: "/readyz", method: Method::GET, access: Access::All, verb: Verb::Readyz },
    Route { path: "/metrics", method: Method::GET, access: Access::All, verb: Verb::Metrics },
    Route { path: "/config", method: Method::GET, access: Access::All, verb: Verb::Config },
    Route { path: openapi::PATH, method: Method::GET, access: Access::All, verb: Verb::OpenApi },
    Route { path: "/log-level", method: Method::GET, access: Access::All, verb: Verb::LogLevel },
    Route {
        path: "/log-level",
        method: Method::PUT,
        access: Access::Control,
        verb: Verb::SetLogLevel,
    },
    Route { path: "/status", method: Method::GET, access: Access::Control, verb: Verb::Status },
    Route { path: "/explain", method: Method::POST, access: Access::Control, verb: Verb::Explain },
    Route { path: "/capsule", method: Method::GET, access: Access::Control, verb: Verb::Capsule },
    Route { path: "/swap", method: Method::POST, access: Access::Control, verb: Verb::Swap },
    Route {
        path: "/swap",
        method: Method::DELETE,
        access: Access::Control,
        verb: Verb::CancelShadow,
    },
    Route {
        path: "/rollback",
        method: Method::POST,
        access: Access::Control,
        verb: Verb::Rollback,
    },
    Route { path: "/reload", method: Method::POST, access: Access::Control, verb: Verb::Reload },
    Route { path: "/takeover", method: Method::POST, access: Access::Owner, verb: Verb::Takeover },
];

struct Route {
    path: &'static str,
    /// GET includes HEAD.
    method: Method,
    access: Access,
    verb: Verb,
}

/// The clients that may use a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Each client of the listener.
    All,
    /// The clients that may control the server.
    Control,
    /// The owner, over a Unix socket.
    Owner,
}

#[derive(Clone, Copy)]
enum Verb {
    Livez,
    Readyz,
    Metrics,
    Config,
    OpenApi,
    LogLevel,
    SetLogLevel,
    Status,
    Explain,
    Capsule,
    Swap,
    CancelShadow,
    Rollback,
    Reload,
    Takeover,
}

/// The control API of a server.
pub(super) struct ControlApi {
    registry: Arc<Registry>,
    state: StateReader,
    pub(super) connections: Option<ConnectionTally>,
    pub(super) capsules: Option<Arc<Capsules>>,
    pub(super) reload: Option<Reload>,
    pub(super) log_level: Option<Arc<dyn LogLevel>>,
    pub(super) settings: Option<CurrentSettings>,
    pub(super) base_path: BasePath,
    controlling: Semaphore,
    pub(super) handover: Option<Handover>,
}

type ControlResponse = Response<Full<Bytes>>;

/// The status and the message of a rejected request.
struct ErrorResponse(StatusCode, String);

impl ControlApi {
    pub(super) fn new(registry: Arc<Registry>, state: StateReader) -> Self {
        Self {
            registry,
            state,
            connections: None,
            capsules: None,
            reload: None,
            log_level: None,
            settings: None,
            base_path: BasePath::default(),
            controlling: Semaphore::new(MAX_CONTROLLING),
            handover: None,
        }
    }

    /// Waits until the sockets are handed over; if they never are, forever.
    pub(super) async fn handed_over(&self) {
        match &self.handover {
            Some(handover) => handover.completed().await,
            None => pending().await,
        }
    }

    /// Responds to a request that came in at this listener.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        policy: &Policy,
    ) -> ControlResponse {
        if *request.method() == Method::CONNECT {
            return not_implemented();
        }
        let route = match route(&request, policy) {
            Ok(route) => route,
            Err(response) => return *response,
        };
        if route.access == Access::Owner && !policy.is_of_owner() {
            let message =
                "a takeover passes sockets, which TCP cannot; use the control socket".to_owned();
            return ErrorResponse(StatusCode::NOT_FOUND, message).into();
        }
        let mut client = None;
        if route.access == Access::Control {
            match policy.check(request.headers()) {
                Ok(name) => client = name,
                Err(error) => return ErrorResponse::from(error).into(),
            }
        }
        // Slow ones must not keep probes of the health away.
        let permit = client.as_ref().map(|_| self.controlling.try_acquire());
        if let Some(Err(_)) = permit {
            let message = format!(
                "{MAX_CONTROLLING} other requests for control are in progress; try again later"
            );
            return ErrorResponse(StatusCode::SERVICE_UNAVAILABLE, message).into();
        }
        // A request for a shadow can have a long query.
        let line = truncate(&format!("{} {}", request.method(), request.uri()));
        let response = self.handle(route.verb, request).await.unwrap_or_else(ControlResponse::from);
        if let Some(client) = client.as_ref().map(TokenName::as_str) {
            let status = response.status().as_u16();
            info!(target: "audit", client, request = line, status, "control request");
        }
        response
    }

    async fn handle(
        &self,
        verb: Verb,
        request: Request<Incoming>,
    ) -> Result<ControlResponse, ErrorResponse> {
        match verb {
            Verb::Livez => Ok(text(StatusCode::OK, "ok".to_owned())),
            Verb::Readyz => Ok(self.readyz()),
            Verb::Metrics => Ok(self.metrics(&request)),
            Verb::Config => self.config(),
            Verb::OpenApi => {
                let document = openapi::merged(&self.registry.mounts(), self.base_path.as_str());
                Ok(json(StatusCode::OK, &document))
            }
            Verb::LogLevel => Ok(text(StatusCode::OK, self.log_level()?.level())),
            Verb::SetLogLevel => self.set_log_level(request).await,
            Verb::Status => self.status(&request),
            Verb::Explain => self.explain(request).await,
            Verb::Capsule => self.capsule(&request).await,
            Verb::Swap => self.swap(request).await,
            Verb::CancelShadow => self.cancel_shadow(&request),
            Verb::Rollback => self.rollback(&request),
            Verb::Reload => self.reload(&request).await,
            Verb::Takeover => self.take_over(request),
        }
    }

    fn readyz(&self) -> ControlResponse {
        let is_draining = self.connections.as_ref().is_some_and(ConnectionTally::is_draining);
        let mounts: Vec<_> = self.registry.mounts().iter().map(|mount| mount.status()).collect();
        let failures = match readiness::check(&self.state.snapshot(), is_draining, &mounts) {
            Ok(checks) => return text(StatusCode::OK, checks),
            Err(failures) => failures,
        };
        let mut response = text(StatusCode::SERVICE_UNAVAILABLE, failures);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    fn metrics(&self, request: &Request<Incoming>) -> ControlResponse {
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = metrics::Format::negotiate(accept);
        let (mounts, snapshot) = (self.registry.mounts(), self.state.snapshot());
        let capsules = self.capsules.as_ref().map(|capsules| capsules.tally());
        let metrics =
            metrics::collect(&mounts, &snapshot, self.connections.as_ref(), capsules.as_ref());
        let mut response = text(StatusCode::OK, metrics.text(format));
        let content_type = HeaderValue::from_static(format.content_type());
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    fn config(&self) -> Result<ControlResponse, ErrorResponse> {
        let Some(settings) = &self.settings else {
            let message = "this program does not show its settings".to_owned();
            return Err(ErrorResponse(StatusCode::NOT_FOUND, message));
        };
        Ok(json(StatusCode::OK, &EffectiveConfig { settings: settings().list() }))
    }

    fn log_level(&self) -> Result<&Arc<dyn LogLevel>, ErrorResponse> {
        let message = "this program does not let its log level be changed".to_owned();
        self.log_level.as_ref().ok_or(ErrorResponse(StatusCode::NOT_FOUND, message))
    }

    async fn set_log_level(
        &self,
        request: Request<Incoming>,
    ) -> Result<ControlResponse, ErrorResponse> {
        let log_level = self.log_level()?;
        let limit = format!("{MAX_LEVEL} bytes; give it fewer directives");
        let body = body(request, MAX_LEVEL, "level", &limit).await?;
        let level = str::from_utf8(&body).map(str::trim);
        let level = level.map_err(|error| error.to_string());
        let set = level.and_then(|level| log_level.set_level(level));
        set.map_err(|error| {
            let message = format!(
                "log level: {error}; expected a level such as info, or directives such as info,relayer_rest_server=debug"
            );
            ErrorResponse(StatusCode::BAD_REQUEST, message)
        })?;
        let level = log_level.level();
        info!(level, "log level set");
        Ok(text(StatusCode::OK, level))
    }

    fn status(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let _: [Option<String>; 0] = parameters(request, [])?;
        let mounts = self.registry.mounts().iter().map(|mount| mount.status()).collect();
        let connections = self.connections.as_ref().map(ConnectionTally::status);
        let status = Status::new(&self.state.snapshot(), connections, mounts);
        Ok(json(StatusCode::OK, &status))
    }

    async fn explain(&self, request: Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let _: [Option<String>; 0] = parameters(&request, [])?;
        let limit = format!("{MAX_EXPLAIN} bytes; give it fewer headers");
        let body = body(request, MAX_EXPLAIN, "request to explain", &limit).await?;
        let bad = |error: String| ErrorResponse(StatusCode::BAD_REQUEST, error);
        let request: ExplainRequest = serde_json::from_slice(&body)
            .map_err(|error| bad(format!("request to explain: {error}")))?;
        let mut request = request.to_http().map_err(bad)?;
        self.base_path.strip(&mut request);
        let mounts = self.registry.now();
        let mount = Arc::clone(mounts.route(request.uri().path()));
        drop(mounts);
        let (parts, ()) = request.into_parts();
        let target = parts.uri.into_parts().path_and_query;
        let target = target.unwrap_or(PathAndQuery::from_static("/"));
        let request = GuestRequest::new(parts.method, target, parts.headers);
        Ok(json(StatusCode::OK, &mount.explain(request, &self.state).await))
    }

    async fn capsule(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let [id] = parameters(request, ["id"])?;
        let id = id.ok_or_else(|| {
            let message = "id: missing; name the request by its x-request-id".to_owned();
            ErrorResponse(StatusCode::BAD_REQUEST, message)
        })?;
        let Some(capsules) = &self.capsules else {
            let message =
                "no capsules are kept; start the server with --capsules DIR (capsules.folder)";
            return Err(ErrorResponse(StatusCode::NOT_FOUND, message.to_owned()));
        };
        let json = capsules.capsule(&id).await.map_err(|error| {
            let status = match error {
                CapsuleRequestError::Unknown(_) => StatusCode::NOT_FOUND,
                CapsuleRequestError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            ErrorResponse(status, error.to_string())
        })?;
        let mut response = text(StatusCode::OK, String::new());
        *response.body_mut() = Full::new(json.into());
        let content_type = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        Ok(response)
    }

    async fn swap(&self, request: Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let [
            mount,
            name,
            module,
            signer,
            sha256,
            dialect,
            dry_run,
            force,
            time,
            expected,
            min_requests,
            max_slowdown,
            abort,
        ] = parameters(
            &request,
            [
                "mount",
                "name",
                "module",
                "signer",
                "sha256",
                "dialect",
                "dry-run",
                "force",
                "shadow",
                "expect",
                "min-requests",
                "max-slowdown",
                "abort",
            ],
        )?;
        let shadow = shadow(time, expected, min_requests, max_slowdown, abort)?;
        let mount = self.mount(mount)?;
        let sha256 = parsed("sha256", sha256)?;
        let dialect = parsed("dialect", dialect)?;
        let dry_run = parsed("dry-run", dry_run)?.unwrap_or(false);
        let force = parsed("force", force)?.unwrap_or(false);
        let source = if let Some(reference) = parsed::<Reference>("module", module)? {
            // The server pulls it itself, with its own signers and credentials.
            let mut access = mount.registries().clone();
            access.signer = access.signer.or(signer);
            Source::new(ModuleLocation::Registry(reference), &access)
        } else {
            let bytes = self.component(&mount, request).await?;
            let name = name.unwrap_or_else(|| "from the control socket".to_owned());
            Source::Bytes { name, bytes }
        };
        let candidate =
            Candidate { sha256, dialect, dry_run, force, shadow, ..Candidate::new(source) };
        let report = mount.swap(candidate, &self.state).await;
        let status = if report.is_accepted() { StatusCode::OK } else { StatusCode::CONFLICT };
        Ok(json(status, &report))
    }

    fn cancel_shadow(&self, request: &Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let [mount] = parameters(request, ["mount"])?;
        let mount = self.mount(mount)?;
        let path = mount.path().to_string();
        if !mount.cancel_shadow() {
            let message =
                format!("mount {path}: no shadow is in progress; start one with `swap --shadow`");
            return Err(ErrorResponse(StatusCode::CONFLICT, message));
        }
        Ok(json(StatusCode::OK, &CancelledShadow { mount: path }))
    }

    /// Reads the component from the body of a request, up to the mount's limit of size.
    async fn component(
        &self,
        mount: &Mount,
        request: Request<Incoming>,
    ) -> Result<Bytes, ErrorResponse> {
        let size = mount.swap_limits().size;
        let limit = usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
        body(request, limit, "component", &format!("{size}; raise swap.size")).await
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

    /// Begins a takeover, which continues when the connection is upgraded.
    fn take_over(&self, mut request: Request<Incoming>) -> Result<ControlResponse, ErrorResponse> {
        let _: [Option<String>; 0] = parameters(&request, [])?;
        let Some(handover) = &self.handover else {
            let message = "this program does not hand over its sockets".to_owned();
            return Err(ErrorResponse(StatusCode::NOT_FOUND, message));
        };
        let protocol = request.headers().get(UPGRADE);
        if protocol.is_none_or(|protocol| protocol != takeover::UPGRADE) {
            return Ok(upgrade_required());
        }
        let session = handover.begin(&self.registry, &self.state);
        let session =
            session.map_err(|error| ErrorResponse(StatusCode::CONFLICT, error.to_string()))?;
        tokio::spawn(session.run(hyper::upgrade::on(&mut request)));
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().extend(UPGRADE_HEADERS);
        Ok(response)
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

/// Returns the route of a request, or the response to one without.
fn route(
    request: &Request<Incoming>,
    policy: &Policy,
) -> Result<&'static Route, Box<ControlResponse>> {
    if !policy.serves(request) {
        let message =
            "the request is for another host; use localhost, or the address in admin.listen"
                .to_owned();
        return Err(Box::new(ErrorResponse(StatusCode::MISDIRECTED_REQUEST, message).into()));
    }
    let (path, method) = (request.uri().path(), request.method());
    let of_path = || ROUTES.iter().filter(|route| route.path == path);
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    if let Some(route) = of_path().find(|route| route.method == *method) {
        return Ok(route);
    }
    let allowed: Vec<_> = of_path().map(|route| route.method.as_str()).collect();
    Err(Box::new(if allowed.is_empty() {
        let paths = ROUTES.iter().map(|route| format!("{} {}", route.method, route.path));
        let paths = paths.collect::<Vec<_>>().join(", ");
        let message = format!("unknown path {path}; expected one of {paths}");
        ErrorResponse(StatusCode::NOT_FOUND, message).into()
    } else {
        not_allowed(request.method(), path, &allowed.join(", "))
    }))
}

/// Reads the body of a request, up to a limit of bytes.
async fn body(
    request: Request<Incoming>,
    limit: usize,
    what: &str,
    too_large: &str,
) -> Result<Bytes, ErrorResponse> {
    let body = Limited::new(request.into_body(), limit).collect();
    match timeout(MAX_BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(ErrorResponse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the {what} is larger than {too_large}"),
        )),
        Ok(Err(error)) => {
            let message = format!("the {what} was not received completely: {error}; send it again");
            Err(ErrorResponse(StatusCode::BAD_REQUEST, message))
        }
        Err(_) => {
            let message =
                format!("the {what} was not received within {MAX_BODY_TIME:?}; send it again");
            Err(ErrorResponse(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

impl From<AccessError> for ErrorResponse {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Disabled => Self(
                StatusCode::FORBIDDEN,
                "this listener does not control the server; set admin.token-file, or use the control socket".to_owned(),
            ),
            AccessError::Token(TokenRefusal::Unauthorized) => Self(
                StatusCode::UNAUTHORIZED,
                "the request needs the header authorization: Bearer TOKEN".to_owned(),
            ),
            AccessError::Token(TokenRefusal::Forbidden) => {
                Self(StatusCode::FORBIDDEN, "the token is not known".to_owned())
            }
            AccessError::File(error) => {
                Self(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
        }
    }
}

impl From<ErrorResponse> for ControlResponse {
    fn from(ErrorResponse(status, error): ErrorResponse) -> Self {
        let mut response = json(status, &ControlFault { error });
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Returns the shadow that these parameters request.
fn shadow(
    time: Option<String>,
    expected: Option<String>,
    min_requests: Option<String>,
    max_slowdown: Option<String>,
    abort: Option<String>,
) -> Result<Option<Shadow>, ErrorResponse> {
    let Some(time) = parsed("shadow", time)? else {
        if expected.or(min_requests).or(max_slowdown).or(abort).is_some() {
            let message = "expect, min-requests, max-slowdown and abort are for a shadow; give its time, such as shadow=10min";
            return Err(ErrorResponse(StatusCode::BAD_REQUEST, message.to_owned()));
        }
        return Ok(None);
    };
    let default = Shadow::new(time);
    Ok(Some(Shadow {
        expected: parsed("expect", expected)?.unwrap_or_default(),
        min_requests: parsed("min-requests", min_requests)?.unwrap_or(default.min_requests),
        max_slowdown: parsed("max-slowdown", max_slowdown)?,
        abort: parsed("abort", abort)?.unwrap_or(default.abort),
        ..default
    }))
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

/// Rejects a request for a takeover without the headers of an upgrade.
fn upgrade_required() -> ControlResponse {
    let error = format!(
        "a takeover needs the headers connection: upgrade and upgrade: {}; start `relayer-rest serve --takeover`",
        takeover::UPGRADE
    );
    let mut response = json(StatusCode::UPGRADE_REQUIRED, &ControlFault { error });
    response.headers_mut().extend(UPGRADE_HEADERS);
    response
}

fn not_allowed(method: &Method, path: &str, allowed: &str) -> ControlResponse {
    let error = format!("method {method} is not allowed on {path}; use {allowed}");
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, &ControlFault { error });
    let allowed = HeaderValue::from_str(allowed).expect("methods are valid values");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

/// Returns a response in text, whose lines are not data.
fn text(status: StatusCode, text: String) -> ControlResponse {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
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
