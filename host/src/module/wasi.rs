//! WASI for modules whose runtime cannot do without it: JavaScript, Python.
//!
//! All of WASI 0.2 but `wasi:http` can be imported, and nothing of it leads
//! anywhere: there are no files, sockets, environment or arguments. What it tells
//! is the same for
//! whoever asks the same of the same state, so that a module is a pure function
//! with it, too:
//!
//! | what | is |
//! |---|---|
//! | the time | when the relayer last changed, which counts as read |
//! | the clock | stands still; who waits waits for nothing |
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

/// The packages of which a module may import all that the host's WASI has.
const PACKAGES: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// An interface as the library that defines it names it.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

/// What random numbers are made from.
const SEED: u64 = 0x0072_656c_6179_6572;

/// The most random bytes that are given at once.
const MAX_RANDOM: u64 = 1 << 20;

/// The streams, and what else is waited for, that an instance has at once.
const MAX_RESOURCES: usize = 1_000;

/// What is written at once, and the longest line, in bytes.
const MAX_WRITTEN: usize = 4 << 10;

/// What an instance has of WASI.
pub(super) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
    time: Time,
    log: Arc<Mutex<GuestLog>>,
}

/// When the relayer last changed, and whether that was asked for.
#[derive(Clone)]
struct Time {
    changed: SystemTime,
    is_read: Arc<AtomicBool>,
}

/// A clock that stands still. Some runtimes take 0 for no clock.
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

/// What is there already, for those who wait.
struct Ready;

impl Wasi {
    /// For one request of a module, on a relayer that last changed then.
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

    /// Whether the time was asked for.
    pub(super) fn has_read_time(&self) -> bool {
        self.time.is_read.load(Relaxed)
    }

    /// What the request may still write to the log, in whatever way.
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

/// Whether an import is of what [`define`] defines, as far as names go.
pub(super) fn is_defined(import: &str) -> bool {
    let is_version = import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2."));
    is_version && PACKAGES.iter().any(|package| import.starts_with(package))
}

/// The functions of WASI.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    // The library's own waits take the time that they say.
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

/// Something to wait for that is there already.
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
    /// What was begun and has no end is a line, too.
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.write();
        }
    }
}

impl StdoutStream for Lines {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Nothing here asks for it: that is for later versions of WASI.
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
