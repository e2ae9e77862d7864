//! One instance: its store, its creation, and calls of its handler.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use relayer_rest_common::text::{escape_control, for_log};
use relayer_rest_state::Snapshot;
use tracing::Span;
use wasmtime::component::InstancePre;
use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace, WasmCoreDump};

use super::backtrace;
use super::call_error::CallError;
use super::cost::{InstanceCost, Placement};
use super::guest_log::GuestLog;
use super::guest_time::GuestTime;
use super::handler::{Handle, Handler};
use super::info::ModuleInfo;
use super::limiter::{Limiter, Peaks};
use super::limits::{Limits, bytes};
use super::options::EngineOptions;
use super::read_set::TrackedSnapshot;
use super::request::GuestRequest;
use super::response::{HeaderRules, InvalidResponse, response};
use super::source_map::SourceMap;
use super::store::StoreData;
use super::trap::{TrapKind, Trapped};
use super::wasi::Wasi;
use super::wire;

/// The bytes that may cross beyond the limits, so that a response slightly above a limit
/// gets an exact error.
const CROSSING_SLACK: usize = 64 << 10;

/// The maximum number of resource handles that an instance has at once: WASI's limit, and
/// as many borrowed ones again. The engine keeps some tens of bytes for each.
const MAX_HANDLES: usize = 2_000;

/// The hint in a trap of a module that probably overflowed its own stack.
const PROBABLE_OVERFLOW: &str = "probably a stack overflow, as its stack pointer is below 0";

/// A number of ticks that is never reached.
const NO_TICK: u64 = 1 << 40;

/// Creates the instances of a module, and calls them.
#[derive(Clone)]
pub(super) struct Instantiator {
    pub(super) engine: wasmtime::Engine,
    pub(super) options: Arc<EngineOptions>,
    pub(super) peaks: Arc<Peaks>,
    pub(super) pre: InstancePre<StoreData>,
    pub(super) handler: Handler,
    pub(super) cost: InstanceCost,
    /// The source locations of its code, for the log.
    pub(super) sources: Arc<SourceMap>,
    pub(super) info: Arc<ModuleInfo>,
}

impl Instantiator {
    /// Returns the placement of new instances. Host functions of WASI may have to wait,
    /// which requires a fiber.
    pub(super) fn placement(&self) -> Placement {
        match self.cost.placement() {
            Placement::Inline if self.options.wasi => Placement::Fiber,
            placement => placement,
        }
    }

    /// Creates the store of an instance for one request.
    pub(super) fn store(
        &self,
        time: Arc<GuestTime>,
        request: Arc<GuestRequest>,
        snapshot: Arc<Snapshot>,
        span: Span,
    ) -> Store<StoreData> {
        let limits = &self.options.limits;
        let debug_output = request.debug_output.clone();
        if let Some(output) = &debug_output {
            output.begin(&self.engine, &self.info.name, self.pre.component());
        }
        let wasi = || Wasi::new(&self.info, &request, &span, snapshot.changed().time);
        let call = StoreData {
            wasi: self.options.wasi.then(|| Box::new(wasi())),
            log: GuestLog::new(&self.info, &request),
            snapshot: TrackedSnapshot::new(snapshot, request),
            span,
            limiter: Limiter::new(limits, self.cost.host_bytes(), &self.peaks),
            module: Arc::clone(&self.info),
            failure: None,
        };
        let mut store = Store::new(&self.engine, call);
        store.limiter(|call| &mut call.limiter);
        store.set_hostcall_fuel(most_crossing(limits));
        store.set_max_component_handles(MAX_HANDLES);
        store.epoch_deadline_callback(move |context| {
            if let Some(output) = &debug_output {
                output.sample(&context);
            }
            Ok(if time.is_over() {
                UpdateDeadline::Interrupt
            } else if !time.must_yield() {
                UpdateDeadline::Continue(1)
            } else {
                UpdateDeadline::YieldCustom(1, Box::pin(Arc::clone(&time).give_way()))
            })
        });
        store
    }

    /// Creates an instance and returns its handler.
    pub(super) async fn instantiate<'a>(
        &self,
        store: &mut Store<StoreData>,
    ) -> Result<Handle<'a>, CallError> {
        // Without guest code to run, this needs no fiber to yield from, and must not be
        // told to yield: the first tick must come afterwards.
        let instance = if self.placement() == Placement::Inline {
            store.set_epoch_deadline(NO_TICK);
            self.pre.instantiate(&mut *store)
        } else {
            store.set_epoch_deadline(1);
            // Boxed, because it is rare and large: it would enlarge the future of every
            // request.
            Box::pin(self.pre.instantiate_async(&mut *store)).await
        };
        let instance = instance.map_err(|error| {
            // A trap in its own code and a refused growth are failures of the module.
            let is_its_own = error.downcast_ref::<WasmBacktrace>().is_some()
                || store.data().limiter.refusal().is_some();
            self.failed(error, store, |error, store| {
                if is_its_own {
                    CallError::Trap(trapped(&error, store, &self.sources))
                } else {
                    CallError::Instantiate(error)
                }
            })
        })?;
        store.set_epoch_deadline(1);
        self.handler.of_instance(&instance, store).map_err(CallError::Instantiate)
    }

    /// Calls the handler and checks its response.
    pub(super) async fn call<'a>(
        &self,
        store: &mut Store<StoreData>,
        handle: &Handle<'a>,
        request: &'a GuestRequest,
    ) -> Result<Response<Bytes>, CallError> {
        let called = handle.call(store, request).await;
        if let Err(error) = &called
            && let Some(output) = &request.debug_output
        {
            output.failed(error, &mut *store, &self.info.name);
        }
        let failed = |error: wasmtime::Error, store: &mut Store<StoreData>| {
            // A host function of `wasi:http` may find that the response is invalid.
            if let Some(invalid) = error.downcast_ref::<InvalidResponse>() {
                return CallError::Invalid(invalid.clone());
            }
            let is_response = error.downcast_ref::<WasmBacktrace>().is_none();
            if is_response && is_too_much(&error) {
                let Limits { body, header_size, headers, .. } = self.options.limits;
                let invalid = InvalidResponse::TooLarge { body, header_size, headers };
                return CallError::Invalid(invalid);
            }
            CallError::Trap(trapped(&error, store, &self.sources))
        };
        let raw = called.map_err(|error| self.failed(error, store, failed))?;
        let allowed = HeaderRules {
            limits: &self.options.limits,
            headers: &self.options.headers,
            mount: &self.info.mount,
        };
        response(raw, &allowed).map_err(CallError::Invalid)
    }

    fn failed(
        &self,
        error: wasmtime::Error,
        store: &mut Store<StoreData>,
        otherwise: impl FnOnce(wasmtime::Error, &mut Store<StoreData>) -> CallError,
    ) -> CallError {
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => {
                CallError::Timeout(self.options.limits.time, location(&error, &self.sources))
            }
            Some(_) => CallError::Trap(trapped(&error, store, &self.sources)),
            None => otherwise(error, store),
        }
    }
}

/// Returns the maximum size of one transfer from an instance, in bytes: the largest
/// response, or a line for the log. Strings that overlap in its memory are copied one by
/// one, so its memory is not a bound.
fn most_crossing(limits: &Limits) -> usize {
    let headers = limits.headers as usize * size_of::<wire::Header>();
    let sum = bytes(limits.body) + bytes(limits.header_size) + headers;
    sum.max(bytes(limits.log)) + CROSSING_SLACK
}

/// Returns whether the transfer was larger than that. The engine has no type for this
/// error.
fn is_too_much(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls has been exhausted")
}

/// Describes why a module trapped: the cause that it reported or the engine's, the growth
/// that it was refused before, and the location.
fn trapped(error: &wasmtime::Error, store: &mut Store<StoreData>, sources: &SourceMap) -> Trapped {
    let overflow = has_stack_overflow(error, store).then(|| PROBABLE_OVERFLOW.to_owned());
    let call = store.data();
    let refusal = call.limiter.refusal();
    let kind = match (&refusal, &call.failure) {
        // The trap that follows is the module's way to end.
        (Some(_), _) => TrapKind::OutOfMemory,
        (None, Some(_)) => TrapKind::Panic,
        (None, None) => TrapKind::new(error.downcast_ref()),
    };
    let cause = match &call.failure {
        Some(reported) => escape_control(reported),
        None => for_log(&error.root_cause().to_string()),
    };
    let parts: Vec<_> =
        [Some(cause), overflow, refusal, location(error, sources)].into_iter().flatten().collect();
    Trapped { kind, cause: parts.join("; ") }
}

/// Returns whether a module probably overflowed its own stack. Compilers such as rustc put it at the
/// start of the memory, and its pointer is the first variable global, which is below 0 then.
fn has_stack_overflow(error: &wasmtime::Error, store: &mut Store<StoreData>) -> bool {
    let is_out_of_bounds = matches!(error.downcast_ref(), Some(Trap::MemoryOutOfBounds));
    let globals = error.downcast_ref().map(WasmCoreDump::globals).unwrap_or_default();
    is_out_of_bounds
        && globals
            .iter()
            .find(|global| {
                let kind = global.ty(&*store);
                kind.mutability().is_var() && kind.content().is_i32()
            })
            .is_some_and(|pointer| pointer.get(store).i32().is_some_and(i32::is_negative))
}

/// Describes the location of a trap or of an interrupt.
fn location(error: &wasmtime::Error, sources: &SourceMap) -> Option<String> {
    error.downcast_ref().and_then(|trace| backtrace::describe(trace, sources))
}
