//! WASI for modules whose runtime requires it: JavaScript, Python.
//!
//! A module can import all of WASI 0.2 except `wasi:http`, and none of it leads outside:
//! it has no files, sockets, environment or arguments. Its results depend only on the
//! calls and on the state, so a module with WASI is a pure function, too:
//!
//! | part | behaviour |
//! |---|---|
//! | time | when the relayer last changed; reading it is recorded |
//! | monotonic clock | stands still; waits complete at once |
//! | random numbers | from a fixed seed, the same for each request: no secrets |
//! | stdout, stderr | lines of the log, as `info` and as `warn` |
//! | stdin | at its end |

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::AsyncWrite;
use tracing::Span;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{
    self, DynPollable, OutputStream, Pollable, StreamError, StreamResult, subscribe,
};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView, async_trait,
};

use super::call::GuestRequest;
use super::guest_log::GuestLog;
use super::instance::StoreData;
use super::load::Module;
use super::wire::Level;

/// The packages of which a module may import every interface that the host's WASI has.
const PACKAGES: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// The interface, by the name that the library defines it under.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

/// The seed of all random numbers.
const SEED: u64 = 0x0072_656c_6179_6572;

/// The maximum number of random bytes that one call returns.
const MAX_RANDOM: u64 = 1 << 20;

/// The maximum number of streams and pollables that an instance has at once.
const MAX_RESOURCES: usize = 1_000;

/// The maximum size of a write, and the size at which an unfinished line is logged, in
/// bytes.
const MAX_WRITTEN: usize = 4 << 10;

/// The WASI part of an instance's store.
pub(super) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
    time: Time,
    log: Arc<Mutex<GuestLog>>,
}

/// The time when the relayer last changed, and whether the module has read it.
#[derive(Clone)]
struct Time {
    changed: SystemTime,
    is_read: Arc<AtomicBool>,
}

/// A clock that stands still. Some runtimes take 0 for a missing clock.
struct FixedClock;

/// A stream whose lines go to the log.
#[derive(Clone)]
struct Lines(Arc<Mutex<Printed>>);

struct Printed {
    level: Level,
    module: Module,
    span: Span,
    log: Arc<Mutex<GuestLog>>,
    begun: Vec<u8>,
}

/// A pollable that is always ready.
struct Ready;

impl Wasi {
    /// Creates the WASI part for one request of a module, on a relayer that last changed
    /// at this time.
    pub(super) fn new(
        module: &Module,
        request: &GuestRequest,
        span: &Span,
        changed: SystemTime,
    ) -> Self {
        let time = Time { changed, is_read: Arc::default() };
        let log = Arc::new(Mutex::new(GuestLog::new(module, request)));
        let lines = |level| Lines::new(level, module, span, &log);
        let context = WasiCtxBuilder::new()
            .wall_clock(time.clone())
            .monotonic_clock(FixedClock)
            .secure_random(StdRng::seed_from_u64(SEED))
            .insecure_random(StdRng::seed_from_u64(SEED))
            .insecure_random_seed(SEED.into())
            .max_random_size(MAX_RANDOM)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .stdout(lines(Level::Info))
            .stderr(lines(Level::Warn))
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        Self { context, table, time, log }
    }

    /// Returns whether the module has read the time.
    pub(super) fn has_read_time(&self) -> bool {
        self.time.is_read.load(Relaxed)
    }

    /// Returns the log of the request, with one budget for all ways to write to it.
    pub(super) fn log(&self) -> &Mutex<GuestLog> {
        &self.log
    }
}

impl WasiView for StoreData {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi.as_mut().expect("only where it has WASI is it linked");
        WasiCtxView { ctx: &mut wasi.context, table: &mut wasi.table }
    }
}

/// Returns whether [`define`] defines an import, judging by its name.
pub(super) fn is_defined(import: &str) -> bool {
    let is_version = import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2."));
    is_version && PACKAGES.iter().any(|package| import.starts_with(package))
}

/// Defines the functions of WASI.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    // The library's own functions wait for as long as the module requests.
    linker.allow_shadowing(true);
    let mut root = linker.root();
    let mut clock = root.instance(MONOTONIC_CLOCK)?;
    for name in ["subscribe-instant", "subscribe-duration"] {
        clock.func_wrap(name, |mut store: StoreContextMut<'_, StoreData>, (_,): (u64,)| {
            Ok((at_once(store.data_mut().ctx().table)?,))
        })?;
    }
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns a pollable that is ready at once.
fn at_once(table: &mut ResourceTable) -> wasmtime::Result<Resource<DynPollable>> {
    let ready = table.push(Ready)?;
    subscribe(table, ready)
}

#[async_trait]
impl Pollable for Ready {
    async fn ready(&mut self) {}
}

impl HostWallClock for Time {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.is_read.store(true, Relaxed);
        self.changed.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl HostMonotonicClock for FixedClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        1_000_000_000
    }
}

impl Lines {
    fn new(level: Level, module: &Module, span: &Span, log: &Arc<Mutex<GuestLog>>) -> Self {
        Self(Arc::new(Mutex::new(Printed {
            level,
            module: module.clone(),
            span: span.clone(),
            log: Arc::clone(log),
            begun: Vec::new(),
        })))
    }
}

impl Printed {
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= MAX_WRITTEN {
                self.write();
            }
        }
    }

    fn write(&mut self) {
        let line = take(&mut self.begun);
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line));
        let _span = self.span.enter();
        // Nothing that panics is done while it is held.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(&self.module, self.level, &line);
    }
}

impl Drop for Printed {
    /// Writes the last line, even if it has no end.
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.write();
        }
    }
}

impl StdoutStream for Lines {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Nothing calls this here: it is for later versions of WASI.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl IsTerminal for Lines {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl OutputStream for Lines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITTEN {
            return Err(StreamError::trap("more is written than was allowed"));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITTEN)
    }
}

#[async_trait]
impl Pollable for Lines {
    async fn ready(&mut self) {}
}
