//! One request, on a fresh instance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use tokio::sync::SemaphorePermit;
use tracing::Span;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, InstancePre, TypedFunc};
use wasmtime::{FrameInfo, Store, Trap, UpdateDeadline, WasmBacktrace};

use super::contract::HANDLER;
use super::limiter::Limiter;
use super::load::Module;
use super::reads::{Reads, View};
use super::ticker::TICK;
use super::wire;
use crate::state::Snapshot;
use crate::text::{cut, cut_at, one_line};

/// What a module is asked.
#[derive(Debug, Clone)]
pub struct ModuleRequest {
    /// The method.
    pub method: Method,
    /// The path as the client sent it, and what follows the `?`.
    pub target: PathAndQuery,
    /// The headers, which the module can ask for by name.
    pub headers: HeaderMap,
}

/// What a module answers.
#[derive(Debug)]
pub struct ModuleAnswer {
    /// The answer.
    pub response: Response<Bytes>,
    /// What it was made from.
    pub reads: Reads,
    /// The most memory that the instance had, in bytes.
    pub memory: usize,
}

/// A place for one request among those that run at once.
pub struct Place<'a> {
    module: &'a Module,
    clock: Clock,
    _permit: SemaphorePermit<'a>,
}

/// What a module's time is measured with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// The time that passes: a client waits for it.
    Wall,
    /// The ticks that found the module running: on a thread that others are
    /// preferred to, the time that passes says how busy the machine is.
    Running,
}

/// A module gave no answer that can be sent. What is in it is for the log:
/// clients are not told.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No instance could be made.
    #[error("the module could not be instantiated: {0:#}")]
    Instantiate(wasmtime::Error),
    /// The module trapped: a bug in it, or it wanted more memory than it may.
    /// Why, and where.
    #[error("the module trapped: {0}")]
    Trap(String),
    /// The module took longer than it may.
    #[error("the module took longer than {0:?}")]
    Timeout(Duration),
    /// There is no place for the request, or there was none for too long.
    #[error("turned away: too many requests are being handled")]
    Overloaded,
    /// The host failed while the module ran: a bug in the host.
    #[error("the host failed: {0}; this is a bug, please report it")]
    Host(String),
    /// The module answered what HTTP does not allow.
    #[error("the module's answer is invalid: {0}")]
    Invalid(InvalidAnswer),
}

impl CallError {
    /// Whether it is the module that is to blame.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Trap(_) | Self::Timeout(_) | Self::Invalid(_) => true,
            Self::Instantiate(_) | Self::Overloaded | Self::Host(_) => false,
        }
    }
}

/// What HTTP does not allow in a module's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnswer {
    /// The status is not from 200 to 599.
    #[error("status {0} is not from 200 to 599")]
    Status(u16),
    /// A header's name is not a token.
    #[error("header name {0:?} is not a token")]
    HeaderName(String),
    /// A header's value has a byte that it cannot have.
    #[error("the value of header {0} has a byte that HTTP does not allow")]
    HeaderValue(HeaderName),
    /// There are more headers than clients take.
    #[error("there are {count} headers of {bytes} bytes; the most are 128 of 64 KiB")]
    TooManyHeaders {
        /// How many.
        count: usize,
        /// The bytes of their names and values.
        bytes: usize,
    },
    /// A header is the host's to set.
    #[error("header {0} is the host's to set")]
    HostHeader(HeaderName),
}

/// Headers that frame a message or are about the connection.
const HOST_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The callers of a function that trapped which are told of, and the most that
/// is told of a name, in characters.
const MOST_CALLERS: usize = 3;
const LONGEST_NAME: usize = 60;

/// More ticks than there will be.
const NO_TICK: u64 = 1 << 40;

/// The most headers of an answer, and the most bytes of their names and
/// values.
const MOST_HEADERS: usize = 128;
const MOST_HEADER_BYTES: usize = 64 << 10;

/// What an instance's imports have.
pub(super) struct Call {
    pub(super) view: View,
    pub(super) span: Span,
    limiter: Limiter,
}

type Params<'a> = (wire::Request<'a>,);
type Results = (wire::Response,);

/// An instance's handler.
pub(super) type Handle<'a> = TypedFunc<Params<'a>, Results>;

/// Finds the handler and checks that its types are those of the contract.
pub(super) fn handler(
    pre: &InstancePre<Call>,
    interface: &str,
) -> wasmtime::Result<ComponentExportIndex> {
    let component = pre.component();
    let missing = || wasmtime::format_err!("{interface} has no function {}", HANDLER.1);
    let (_, instance) = component.get_export(None, interface).ok_or_else(missing)?;
    match component.get_export(Some(&instance), HANDLER.1).ok_or_else(missing)? {
        (ComponentItem::ComponentFunc(function), index) => {
            function.typecheck::<Params<'_>, Results>(&pre.instance_type())?;
            Ok(index)
        }
        _ => Err(missing()),
    }
}

impl Place<'_> {
    /// Asks the module, on a fresh instance and on this snapshot. Logs go to
    /// the present span.
    ///
    /// While the guest runs, the task gives way to others at each tick; where
    /// it is dropped, the guest is gone.
    pub async fn handle(
        self,
        request: Arc<ModuleRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Result<ModuleAnswer, CallError> {
        self.module.handle(self.clock, request, snapshot).await
    }
}

impl Clock {
    /// Says at each tick whether there is time left.
    fn start(self, time: Duration) -> impl FnMut() -> bool {
        let start = Instant::now();
        let mut running = Duration::ZERO;
        move || {
            running += TICK;
            match self {
                Self::Wall => start.elapsed() < time,
                Self::Running => running < time,
            }
        }
    }
}

impl Module {
    /// Waits for a place for a request.
    pub async fn place(&self) -> Result<Place<'_>, CallError> {
        let permit = self.engine.admission.admit().await.map_err(|_| CallError::Overloaded)?;
        Ok(Place { module: self, clock: Clock::Wall, _permit: permit })
    }

    /// Waits for the place that is kept for looking at modules: clients never
    /// have it, and it takes none of theirs. Only the time in which the module
    /// runs counts.
    pub(crate) async fn place_aside(&self) -> Result<Place<'_>, CallError> {
        let permit = self.engine.admission.aside().await.map_err(|_| CallError::Overloaded)?;
        Ok(Place { module: self, clock: Clock::Running, _permit: permit })
    }

    async fn handle(
        &self,
        clock: Clock,
        request: Arc<ModuleRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Result<ModuleAnswer, CallError> {
        let _running = self.engine.ticker.run();
        let run = self.tally.run();
        let answer = self.fresh(clock, request, snapshot).await;
        if answer.as_ref().is_err_and(CallError::is_fault) {
            self.tally.fault(run);
        }
        answer
    }

    async fn fresh(
        &self,
        clock: Clock,
        request: Arc<ModuleRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Result<ModuleAnswer, CallError> {
        let mut store = self.store(clock, Arc::clone(&request), snapshot);
        let handle = self.instantiate(&mut store).await?;
        let response = self.call(&mut store, &handle, &request).await?;
        let Call { view, limiter, .. } = store.into_data();
        Ok(ModuleAnswer { response, reads: view.into_reads(), memory: limiter.most_memory() })
    }

    /// What an instance for one request has.
    pub(super) fn store(
        &self,
        clock: Clock,
        request: Arc<ModuleRequest>,
        snapshot: Arc<Snapshot>,
    ) -> Store<Call> {
        let call = Call {
            view: View::new(snapshot, request),
            span: Span::current(),
            limiter: Limiter::new(&self.engine.limits),
        };
        let mut store = Store::new(&self.engine.wasmtime, call);
        store.limiter(|call| &mut call.limiter);
        let mut has_time = clock.start(self.engine.limits.time);
        store.epoch_deadline_callback(move |_| {
            Ok(if has_time() {
                UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
            } else {
                UpdateDeadline::Interrupt
            })
        });
        store
    }

    /// The handler of a fresh instance.
    pub(super) async fn instantiate<'a>(
        &self,
        store: &mut Store<Call>,
    ) -> Result<Handle<'a>, CallError> {
        // Where none of its code runs yet, it needs no fiber to give way from;
        // and must not be told to: the first tick is to come after.
        let instance = if self.has_start {
            store.set_epoch_deadline(1);
            self.pre.instantiate_async(&mut *store).await
        } else {
            store.set_epoch_deadline(NO_TICK);
            self.pre.instantiate(&mut *store)
        };
        let instance =
            instance.map_err(|error| self.failed(error, store, CallError::Instantiate))?;
        store.set_epoch_deadline(1);
        instance.get_typed_func(store, self.handle).map_err(CallError::Instantiate)
    }

    /// Calls the handler.
    pub(super) async fn call<'a>(
        &self,
        store: &mut Store<Call>,
        handle: &Handle<'a>,
        request: &'a ModuleRequest,
    ) -> Result<Response<Bytes>, CallError> {
        let request = wire::Request {
            method: request.method.as_str(),
            path: request.target.path(),
            query: request.target.query(),
        };
        let called = handle.call_async(&mut *store, (request,)).await;
        let trapped = |error| CallError::Trap(cause(&error, store.data()));
        let (response,) = called.map_err(|error| self.failed(error, store, trapped))?;
        answer(response).map_err(CallError::Invalid)
    }

    fn failed(
        &self,
        error: wasmtime::Error,
        store: &Store<Call>,
        otherwise: impl FnOnce(wasmtime::Error) -> CallError,
    ) -> CallError {
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => CallError::Timeout(self.engine.limits.time),
            Some(_) => CallError::Trap(cause(&error, store.data())),
            None => otherwise(error),
        }
    }
}

/// Why a module trapped, what it was refused before, and where it was.
fn cause(error: &wasmtime::Error, call: &Call) -> String {
    let mut cause = vec![one_line(&cut(&error.root_cause().to_string()))];
    cause.extend(call.limiter.refusal());
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let frames: Vec<_> = backtrace.iter().flat_map(|trace| trace.frames()).map(name).collect();
    if let [innermost, callers @ ..] = &frames[..] {
        let callers =
            callers.iter().take(MOST_CALLERS).map(|caller| format!(", called by {caller}"));
        cause.push(format!("in {innermost}{}", callers.collect::<String>()));
    }
    cause.join("; ")
}

/// What a function is called: names are in a component's debug information.
fn name(frame: &FrameInfo) -> String {
    match frame.func_name() {
        Some(name) => one_line(&cut_at(name, LONGEST_NAME)),
        None => format!("function {}", frame.func_index()),
    }
}

/// The answer, where HTTP allows it.
fn answer(raw: wire::Response) -> Result<Response<Bytes>, InvalidAnswer> {
    let mut response = Response::new(raw.body);
    *response.status_mut() = StatusCode::from_u16(raw.status)
        .ok()
        .filter(|_| (200..600).contains(&raw.status))
        .ok_or(InvalidAnswer::Status(raw.status))?;
    let count = raw.headers.len();
    let bytes = raw.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if count > MOST_HEADERS || bytes > MOST_HEADER_BYTES {
        return Err(InvalidAnswer::TooManyHeaders { count, bytes });
    }
    for wire::Header { name, value } in raw.headers {
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| InvalidAnswer::HeaderName(name))?;
        if HOST_HEADERS.contains(&name) {
            return Err(InvalidAnswer::HostHeader(name));
        }
        let value = HeaderValue::from_maybe_shared(Bytes::from(value))
            .map_err(|_| InvalidAnswer::HeaderValue(name.clone()))?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::{Clock, InvalidAnswer, MOST_HEADER_BYTES, MOST_HEADERS, TICK, answer, wire};
    use http::HeaderName;
    use std::thread;

    fn response(status: u16, headers: &[(&str, &[u8])]) -> wire::Response {
        let headers = headers
            .iter()
            .map(|(name, value)| wire::Header { name: (*name).to_owned(), value: value.to_vec() })
            .collect();
        wire::Response { status, headers, body: "body".into() }
    }

    #[test]
    fn aside_only_the_time_in_which_the_module_runs_counts() {
        let (mut aside, mut serving) =
            (Clock::Running.start(3 * TICK), Clock::Wall.start(3 * TICK));
        thread::sleep(10 * TICK);
        assert!(!serving());
        assert_eq!([aside(), aside(), aside()], [true, true, false]);
    }

    #[test]
    fn a_valid_answer_is_taken_as_it_is() {
        let answer = answer(response(404, &[("X-A", b"1"), ("x-a", b"\xff")])).unwrap();
        assert_eq!(answer.status(), 404);
        assert_eq!(answer.headers().get_all("x-a").iter().count(), 2);
        assert_eq!(answer.body(), "body");
    }

    #[test]
    fn more_headers_than_clients_take_are_refused() {
        let same = |count| vec![("name", b"value".as_slice()); count];
        answer(response(200, &same(MOST_HEADERS))).unwrap();
        for headers in [same(MOST_HEADERS + 1), vec![("name", &[b'v'; MOST_HEADER_BYTES])]] {
            let refused = answer(response(200, &headers)).unwrap_err();
            assert!(matches!(refused, InvalidAnswer::TooManyHeaders { .. }), "{refused}");
        }
    }

    #[test]
    fn what_http_does_not_allow_is_refused() {
        let host_header =
            |name: &'static str| InvalidAnswer::HostHeader(HeaderName::from_static(name));
        for (status, headers, expected) in [
            (0, ("a", b"b".as_slice()), InvalidAnswer::Status(0)),
            (199, ("a", b"b"), InvalidAnswer::Status(199)),
            (600, ("a", b"b"), InvalidAnswer::Status(600)),
            (1000, ("a", b"b"), InvalidAnswer::Status(1000)),
            (200, ("a b", b"c"), InvalidAnswer::HeaderName("a b".into())),
            (200, ("", b"c"), InvalidAnswer::HeaderName(String::new())),
            (200, ("a", b"b\r\nc: d"), InvalidAnswer::HeaderValue(HeaderName::from_static("a"))),
            (200, ("Content-Length", b"1"), host_header("content-length")),
            (200, ("Transfer-Encoding", b"chunked"), host_header("transfer-encoding")),
            (200, ("Connection", b"close"), host_header("connection")),
        ] {
            assert_eq!(answer(response(status, &[headers])).unwrap_err(), expected);
        }
    }
}
