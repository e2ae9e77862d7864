//! One request, from its head to its response.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::Guard;
use futures_util::future::{BoxFuture, Either};
use hyper::header::HeaderMap;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode};
use relayer_rest_common::text::quote_for_log;
use relayer_rest_sandbox::{GuestRequest, Route};
use relayer_rest_state::{Snapshot, StateReader, TraceContext};
use tracing::{Instrument, Level, debug, enabled, field, info_span};

use super::base_path::BasePath;
use super::connections::{Admitted, ConnectionTally, Peer};
use super::cors::Cors;
use super::error::HostError;
use super::exchange::{ClientSide, Handling, Observation, Observed, Observers};
use super::fleet_generation;
use super::host;
use super::live::event_stream::{self, NoStream, StreamHead};
use super::live::long_poll::{self, has, long_poll};
use super::live::{
    self, Answer, Client, EventStream, Interest, Live, Outcome, OwnResponse, OwnRun,
};
use super::outgoing::{HttpResponse, Outgoing};
use super::received_body::ReceivedBody;
use super::reply;
use super::report;
use super::request_id::RequestId;
use super::source_header;
use crate::cache::{RecordedResponse, RequestRef};
use crate::capsules::Capsules;
use crate::commands::{CommandRequest, Commands, Refusal};
use crate::openapi::{self, OpenApiDocument};
use crate::registry::{ActiveModule, Found, Mount, Registry, Responded, Uncached};
use crate::request_metrics::{Origin, Served};
use crate::response::{X_RELAYER_MODULE, X_REQUEST_ID, set_first, vary};

/// The registry and the state that requests are served from.
pub(super) struct Service {
    pub(super) registry: Arc<Registry>,
    pub(super) state: StateReader,
    pub(super) commands: Option<Arc<Commands>>,
    pub(super) tally: ConnectionTally,
    /// Whether requests are counted for metrics.
    pub(super) is_metered: bool,
    pub(super) cors: Option<Cors>,
    pub(super) base_path: BasePath,
    pub(super) openapi: OpenApiDocument,
    pub(super) observers: Observers,
    pub(super) capsules: Option<Arc<Capsules>>,
    pub(super) live: Live,
}

/// The maximum number of runs for equal requests that a request waits for, none of which it can share.
const MAX_ROUNDS: u32 = 8;

/// The work that a request needs before its response.
enum Pending {
    /// The response is cached, but not in the encoding that the client prefers.
    Encode(Arc<ActiveModule>, Arc<RecordedResponse>),
    /// A request that waits has the answer of an equal one.
    Answered(Arc<ActiveModule>, Answer),
    Run {
        guest_request: Arc<GuestRequest>,
        uncached: Uncached,
    },
}

/// A request that is being handled.
struct PendingHandling {
    mount: Arc<Mount>,
    client: ClientSide,
    interest: Interest,
    admitted: Admitted,
    start: Option<Instant>,
}

/// A request that waits for a change, or for a stream.
struct WaitingRequest<'a> {
    interest: Interest,
    peer: Peer,
    /// The begin of its wait, before its run.
    begin: tokio::time::Instant,
    /// Taken when the request begins to wait.
    admitted: &'a mut Option<Admitted>,
}

/// How a request was handled, for its metrics.
struct Handled<'a> {
    has_tls: bool,
    route: Option<&'a Route>,
    origin: Origin,
}

impl Service {
    /// Begins to observe a request, if an observer wants it.
    pub(super) fn observe<B>(
        &self,
        request: &mut Request<B>,
        client: ClientSide,
    ) -> Option<Box<Observation>> {
        self.observers.begin(request, client)
    }

    /// Responds to a request, whose [`ReceivedBody`] is an extension if it had one. A cached
    /// response is valid for this snapshot of the state; a run gets the one of its time.
    ///
    /// The request is resolved once: to its mount, the mount's active module, and the
    /// target that the module sees. A cached response is returned immediately, without a
    /// future that keeps the request: the connection can use its memory for the next one.
    /// An uncached request is refused with the error of `admit`, if that returns one.
    pub(super) fn respond<B>(
        self: &Arc<Self>,
        mut request: Request<B>,
        client: ClientSide,
        snapshot: &Arc<Snapshot>,
        admit: &mut dyn FnMut() -> Result<Admitted, HostError>,
    ) -> Either<HttpResponse, impl Future<Output = HttpResponse> + use<B>> {
        let start = self.is_metered.then(Instant::now);
        let id = RequestId::from_headers(request.headers());
        self.base_path.strip(&mut request);
        host::settle(&mut request);
        if let Some(response) = self.cors.as_ref().and_then(|cors| cors.preflight(&request)) {
            return Either::Left(self.of_host(response, &request, id));
        }
        let mounts = self.registry.now();
        if request.uri().path() == openapi::PATH && is_read(request.method()) {
            let document = self.openapi.get(&mounts);
            let response = reply::resource(&document.headers, &document.body, &request);
            return Either::Left(self.of_host(response, &request, id));
        }
        let mount = mounts.route(request.uri().path());
        let Some(active) = mount.active() else {
            return Either::Left(self.refuse(&HostError::without_module(mount), &request));
        };
        // The response to a request with a body may be for this request only.
        let interest = match body(&request) {
            None => Interest::take_from(&mut request),
            Some(_) => Interest::Now,
        };
        let target = target(mount, &request);
        let found = mount.find(active, request_ref(&request, &target), snapshot);
        if interest == Interest::Now
            && let Ok(Found { active, hit }) = &found
            && let Some(encoded) = hit.made(reply::encoding(hit, request.headers()))
        {
            if enabled!(Level::DEBUG) {
                log_hit(&id, &request, hit.status());
            }
            let mut response = reply::reply(hit, encoded, &request, snapshot);
            if is_observed(&request) {
                describe(&mut response, mount, hit.route(), Origin::Cache);
            }
            if let Some(start) = start {
                let has_tls = client.has_tls;
                let handled = Handled { has_tls, route: hit.route(), origin: Origin::Cache };
                let time = start.elapsed();
                record(mount, active, request.method(), response.status(), handled, time);
            }
            if let Some(capsules) = &self.capsules {
                capsules.hit(id.header(), active.module(), hit.shared(), snapshot);
            }
            self.complete(&mut response, request.headers(), id, snapshot);
            return Either::Left(response);
        }
        if let Err(uncached) = &found
            && uncached.module().reads_bodies()
            && body(&request).is_some_and(ReceivedBody::is_discarded)
        {
            return Either::Left(self.refuse(&HostError::Overloaded, &request));
        }
        let admitted = match admit() {
            Ok(admitted) => admitted,
            Err(error) => return Either::Left(self.refuse(&error, &request)),
        };
        let pending = match found {
            Ok(Found { active, hit }) => {
                if let Some(capsules) = &self.capsules {
                    capsules.hit(id.header(), active.module(), hit.shared(), snapshot);
                }
                Pending::Encode(Guard::into_inner(active), hit.into_shared())
            }
            Err(uncached) => {
                let guest_request = self.guest_request(&request, &target, &id);
                Pending::Run { guest_request, uncached }
            }
        };
        let mount = Arc::clone(mount);
        let handling = PendingHandling { mount, client, interest, admitted, start };
        Either::Right(Arc::clone(self).finish(request, id, handling, pending))
    }

    /// Returns the response to a request that is refused.
    #[cold]
    pub(super) fn refuse<B>(&self, error: &HostError, request: &Request<B>) -> HttpResponse {
        let id = RequestId::from_headers(request.headers());
        let status = error.status().as_u16();
        let name = error.name();
        debug!(%id, status, name, "request refused");
        self.tally.refused_request(name);
        self.of_host(reply::host_error(error, request), request, id)
    }

    /// Returns a response that the host gives itself.
    #[cold]
    fn of_host<B>(
        &self,
        mut response: HttpResponse,
        request: &Request<B>,
        id: RequestId,
    ) -> HttpResponse {
        self.share(&mut response, request.headers());
        response.headers_mut().insert(X_REQUEST_ID, id.into_header());
        response
    }

    /// Returns the module's response, or an error response of the host if there is none.
    async fn finish<B>(
        self: Arc<Self>,
        request: Request<B>,
        id: RequestId,
        handling: PendingHandling,
        pending: Pending,
    ) -> HttpResponse {
        let request = request.map(drop);
        let PendingHandling { mount, client, interest, admitted, start } = handling;
        let mut admitted = Some(admitted);
        let method = quote_for_log(request.method().as_str());
        let path = quote_for_log(request.uri().path());
        let span = info_span!("request", %id, method = %method, path, trace_id = field::Empty);
        if let Some(trace) = trace(&request) {
            span.record("trace_id", trace.trace_id());
        }
        let mut served = None;
        // A wait for a run, or for a change, is not part of the time of the request.
        let mut paced = Duration::ZERO;
        let peer = client.address.map_or(Peer::SEVERAL, Peer::from);
        let response = async {
            let mut is_failure = false;
            let mut asked_at = self.state.peek().generation();
            let (mut pending, mut run) = (pending, None);
            let begin = tokio::time::Instant::now();
            if matches!(pending, Pending::Run { .. }) && interest.waits() {
                let waiting = self.client(&request, peer, &id).request();
                // Boxed, as the wait is.
                let ready = Box::pin(self.pace(&mount, pending, &waiting, interest)).await;
                paced = begin.elapsed();
                match ready {
                    Ok(ready) => (pending, run) = ready,
                    Err(active) => return (active, self.refuse_to_wait(&request), Origin::Run),
                }
                asked_at = self.state.peek().generation();
            }
            let (active, outcome, origin) = match pending {
                Pending::Encode(active, response) => (active, Ok(response), Origin::Cache),
                Pending::Answered(active, answer) => {
                    is_failure = answer.is_failure;
                    asked_at = answer.asked_at;
                    (active, answer.outcome, Origin::Cache)
                }
                Pending::Run { guest_request, uncached } => {
                    match mount.run(guest_request, uncached, &self.state).await {
                        Ok(Responded { active, response }) => (active, Ok(response), Origin::Run),
                        Err(error) => {
                            let response = report::failure(&mount, &error);
                            is_failure = error.is_of_request();
                            (error.active, Err(Arc::new(response)), Origin::Run)
                        }
                    }
                }
            };
            let answer = |outcome| Answer {
                mount: Arc::clone(&mount),
                active: Some(Arc::clone(&active)),
                outcome,
                is_failure,
                asked_at,
            };
            if let Some(run) = run {
                run.end(&answer(outcome.clone()));
            }
            if let Ok(response) = &outcome
                && let Err(refusal) = self.execute(response, &request, &id).await
            {
                let mut refused = reply::host_error(&HostError::Command(refusal), &request);
                let label = response.plain().headers.get(X_RELAYER_MODULE).cloned();
                refused.headers_mut().extend(label.map(|label| (X_RELAYER_MODULE, label)));
                return (active, refused, origin);
            }
            let response = if interest == Interest::Now {
                self.reply(&outcome, &request).await
            } else {
                let answer = answer(outcome);
                let waiting = WaitingRequest { interest, peer, begin, admitted: &mut admitted };
                served = start.map(|start| start.elapsed().saturating_sub(paced));
                // Boxed, because it is rare, and enlarges the future of each request.
                let response: BoxFuture<'_, HttpResponse> =
                    Box::pin(self.wait(waiting, answer, &request, &id));
                response.await
            };
            (active, response, origin)
        };
        let (active, mut response, origin) = response.instrument(span.clone()).await;
        if let Some(admitted) = admitted {
            admitted.complete();
        }
        let route = || {
            let path = mount.path().strip_prefix(request.uri().path());
            let openapi = active.module().openapi()?;
            openapi.route(&path).map(|route| &**route)
        };
        if is_observed(&request) {
            describe(&mut response, &mount, route(), origin);
        }
        if let Some(start) = start {
            let handled = Handled { has_tls: client.has_tls, route: route(), origin };
            let time = served.unwrap_or_else(|| start.elapsed().saturating_sub(paced));
            record(&mount, &active, request.method(), response.status(), handled, time);
        }
        span.in_scope(|| debug!(status = response.status().as_u16(), "response sent"));
        self.complete(&mut response, request.headers(), id, &self.state.peek());
        response
    }

    /// Returns the HTTP response to a request, in the encoding that its client prefers.
    async fn reply(&self, outcome: &Outcome, request: &Request<()>) -> HttpResponse {
        match outcome {
            Ok(response) => {
                let encoding = reply::encoding(response, request.headers());
                let representation = response.encoded(encoding).await;
                reply::reply(response, representation, request, &self.state.peek())
            }
            Err(response) => reply::of_host(response, request),
        }
    }

    /// Returns the client of a request that waits.
    fn client(&self, request: &Request<()>, peer: Peer, id: &RequestId) -> Client {
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        Client::new(&self.guest_request(request, target, id), peer)
    }

    /// Returns the response to a request that would wait too long for its run.
    fn refuse_to_wait(&self, request: &Request<()>) -> HttpResponse {
        self.live.refuse();
        varying(reply::host_error(&HostError::Overloaded, request))
    }

    /// Waits until a run for this request, which waits, may begin. Another request may have its
    /// response by then.
    ///
    /// # Errors
    /// Returns the active module if the run could begin only after the wait, or equal requests have had
    /// too many runs.
    async fn pace(
        &self,
        mount: &Arc<Mount>,
        mut pending: Pending,
        waiting: &GuestRequest,
        interest: Interest,
    ) -> Result<(Pending, Option<OwnRun>), Arc<ActiveModule>> {
        let since = self.state.peek().generation();
        let end = match interest {
            Interest::Change(preferred) => {
                let wait = preferred.min(self.live.limits().max_wait);
                Some(tokio::time::Instant::now() + wait)
            }
            _ => None,
        };
        let mut rounds = 0;
        while let Pending::Run { guest_request, .. } = &pending {
            let next = match self.live.own_response(waiting, since) {
                OwnResponse::Run(run) => return Ok((pending, Some(run))),
                OwnResponse::Later(next) => next,
                OwnResponse::Answered(answer) => match &answer.active {
                    Some(active) if Arc::ptr_eq(mount, &answer.mount) => {
                        return Ok((Pending::Answered(Arc::clone(active), answer), None));
                    }
                    // Another mount has the path now.
                    _ => break,
                },
            };
            if self.live.is_ending() {
                break;
            }
            let is_after_wait = next.time.zip(end).is_some_and(|(time, end)| time > end);
            if (is_after_wait || rounds >= MAX_ROUNDS)
                && let Some(active) = mount.active()
            {
                return Err(Guard::into_inner(active));
            }
            rounds += u32::from(next.time.is_none());
            next.over().await;
            if !Arc::ptr_eq(self.registry.now().route(waiting.target.path()), mount) {
                break;
            }
            // The state, the module and the cache may have changed.
            let Some(active) = mount.active() else { break };
            let guest_request = Arc::clone(guest_request);
            let request = RequestRef::from(&*guest_request);
            pending = match mount.find(active, request, &self.state.peek()) {
                Ok(Found { active, hit }) => {
                    Pending::Encode(Guard::into_inner(active), hit.into_shared())
                }
                Err(uncached) => Pending::Run { guest_request, uncached },
            };
        }
        Ok((pending, None))
    }

    /// Returns the HTTP response to a request that waits for a change, or for a stream.
    async fn wait(
        &self,
        waiting: WaitingRequest<'_>,
        answer: Answer,
        request: &Request<()>,
        id: &RequestId,
    ) -> HttpResponse {
        let WaitingRequest { interest, peer, begin, admitted } = waiting;
        let client = || self.client(request, peer, id);
        let is_repeatable = |outcome: &Outcome| match outcome {
            Ok(response) => response.commands().is_empty(),
            Err(_) => true,
        };
        match interest {
            Interest::Stream { patches } if is_repeatable(&answer.outcome) => {
                let head = match event_stream::head(&answer.outcome, request.headers()) {
                    Ok(head) => head,
                    Err(NoStream::NotText) => {
                        let error = reply::host_error(&HostError::NotText, request);
                        return varying(error);
                    }
                    Err(NoStream::Response) => return self.reply(&answer.outcome, request).await,
                };
                let StreamHead { headers, is_compressed } = head;
                let body = match self.live.wait(client(), answer).await {
                    Ok(waiter) => {
                        let stream =
                            EventStream::new(waiter, patches, is_compressed, request.headers());
                        Outgoing::events(stream)
                    }
                    Err(live::Refusal::Ending(_)) => {
                        Outgoing::new(event_stream::ended(is_compressed))
                    }
                    Err(live::Refusal::Overloaded) => {
                        let error = reply::host_error(&HostError::Overloaded, request);
                        return varying(error);
                    }
                };
                let mut response = HttpResponse::new(body);
                *response.headers_mut() = headers;
                if patches {
                    long_poll::add_applied(response.headers_mut(), "patch");
                }
                response
            }
            Interest::Change(preferred) => {
                let wait = preferred.min(self.live.limits().max_wait);
                let mut outcome = answer.outcome.clone();
                if !wait.is_zero()
                    && let Ok(response) = &outcome
                    && is_repeatable(&outcome)
                    && has(request, response).await
                {
                    let _waiting = admitted.take().map(Admitted::wait);
                    let changed =
                        long_poll(&self.live, client(), answer, (begin, wait), request).await;
                    let Ok(changed) = changed else {
                        let error = reply::host_error(&HostError::Overloaded, request);
                        return varying(error);
                    };
                    outcome = changed.unwrap_or(outcome);
                }
                let mut response = self.reply(&outcome, request).await;
                long_poll::add_headers(response.headers_mut(), wait);
                response
            }
            _ => self.reply(&answer.outcome, request).await,
        }
    }

    /// Executes the commands that the module has recorded, if it has responded with success.
    async fn execute(
        &self,
        response: &RecordedResponse,
        request: &Request<()>,
        id: &RequestId,
    ) -> Result<(), Refusal> {
        if response.commands().is_empty() || !response.status().is_success() {
            return Ok(());
        }
        let Some(commands) = &self.commands else { return Err(Refusal::Disabled) };
        let has_body = request.extensions().get::<ReceivedBody>().is_some();
        let id = id.to_string();
        let trace = trace(request).cloned();
        let request = CommandRequest { id: &id, headers: request.headers(), has_body, trace };
        commands.execute(response.commands(), request).await
    }

    /// Adds the headers that differ between the requests for a response of a module.
    fn complete(
        &self,
        response: &mut HttpResponse,
        request: &HeaderMap,
        id: RequestId,
        snapshot: &Snapshot,
    ) {
        self.share(response, request);
        let headers = response.headers_mut();
        set_first(headers, [source_header::value(snapshot), id.into_header()]);
        fleet_generation::add(headers, snapshot);
    }

    /// Lets pages of allowed origins read a response.
    fn share(&self, response: &mut HttpResponse, request: &HeaderMap) {
        if let Some(cors) = &self.cors {
            cors.add(request, response.headers_mut());
        }
    }

    /// Returns the request that the module handles, with owned parts.
    fn guest_request<B>(
        &self,
        request: &Request<B>,
        target: &str,
        id: &RequestId,
    ) -> Arc<GuestRequest> {
        let RequestRef { method, headers, .. } = request_ref(request, target);
        let method = method.clone();
        let mut headers = headers.clone();
        if let Some(commands) = &self.commands {
            commands.hide_token(&mut headers);
        }
        let whole = request.uri().path_and_query();
        let target = match whole {
            Some(whole) if whole.as_str() == target => whole.clone(),
            // A part of a target that begins with a slash is a target, too.
            _ => PathAndQuery::try_from(target).unwrap_or(PathAndQuery::from_static("/")),
        };
        let body = body(request).map(ReceivedBody::bytes).unwrap_or_default();
        let mut guest_request = GuestRequest { body, ..GuestRequest::new(method, target, headers) };
        if let Some(capsules) = &self.capsules {
            guest_request.recorder = Some(capsules.recorder(id.header()));
        }
        Arc::new(guest_request)
    }
}

/// Logs a request with a cached response. Apart, so that the code is not between that of each hit.
#[cold]
fn log_hit<B>(id: &RequestId, request: &Request<B>, status: StatusCode) {
    let (method, path) = (request.method(), request.uri().path());
    debug!(%id, %method, path, status = status.as_u16(), "cache hit");
}

/// Counts a request that got a response.
fn record(
    mount: &Mount,
    active: &ActiveModule,
    method: &Method,
    status: StatusCode,
    Handled { has_tls, route, origin }: Handled<'_>,
    time: Duration,
) {
    let (id, label) = (active.id(), active.module().label());
    mount.requests().record(Served { id, label, route, method, status, origin, has_tls, time });
}

/// Returns the trace of a request, if an observer has one.
fn trace<B>(request: &Request<B>) -> Option<&TraceContext> {
    request.extensions().get::<Observed>()?.trace.as_ref()
}

/// Returns whether an observer waits for the response.
fn is_observed<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Observed>().is_some()
}

/// Describes the handling of a request to its observers.
fn describe(response: &mut HttpResponse, mount: &Mount, route: Option<&Route>, origin: Origin) {
    let route = route.map(|route| route.path().to_owned());
    let handling = Handling { mount: mount.path().clone(), route, origin };
    response.extensions_mut().insert(handling);
}

/// Adds the headers by which clients wait, to a response that is an error for one that does.
fn varying(mut response: HttpResponse) -> HttpResponse {
    vary::add(response.headers_mut(), &vary::INTEREST);
    response
}

/// Returns whether a request with this method only reads a resource of the host.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns the body of a request, if it had one.
fn body<B>(request: &Request<B>) -> Option<&ReceivedBody> {
    request.extensions().get::<ReceivedBody>()
}

/// Returns the target of a request as its module sees it.
fn target<'a, B>(mount: &Mount, request: &'a Request<B>) -> Cow<'a, str> {
    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    mount.path().strip_prefix(target)
}

/// Returns the request that the cache looks up. HEAD becomes GET, since the module's
/// response is the same.
fn request_ref<'a, B>(request: &'a Request<B>, target: &'a str) -> RequestRef<'a> {
    static GET: Method = Method::GET;
    let method = if *request.method() == Method::HEAD { &GET } else { request.method() };
    // In fewer instructions than `split_once`, which searches long texts faster.
    let (path, query) = match target.bytes().position(|byte| byte == b'?') {
        Some(place) => (&target[..place], Some(&target[place + 1..])),
        None => (target, None),
    };
    let has_body = body(request).is_some_and(|body| !body.is_empty());
    RequestRef { method, path, query, headers: request.headers(), has_body }
}
