//! WASI for modules whose runtime requires it: JavaScript, Python.
//!
//! A module can import all of WASI 0.2, and none of it leads outside:
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
//!
//! The functions are defined in `wasi_functions.rs`, those of `wasi:http` in `wasi_http.rs`.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::AsyncWrite;
use tracing::Span;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder, async_trait};

use super::guest_log::GuestLog;
use super::info::ModuleInfo;
use super::request::GuestRequest;
use super::wasi_http::HttpState;
use super::wire::Level;

/// The seed of all random numbers.
const SEED: u64 = 0x0072_656c_6179_6572;

/// The maximum number of random bytes that one call returns.
const MAX_RANDOM: u64 = 1 << 20;

/// The maximum number of streams, pollables and parts of HTTP messages that an instance has at once.
const MAX_RESOURCES: usize = 1_000;

/// The maximum size of a write, and the size at which an unfinished line is logged, in
/// bytes.
const MAX_WRITTEN: usize = 4 << 10;

/// The WASI part of an instance's store.
pub(super) struct Wasi {
    pub(super) context: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) http: HttpState,
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
    module: Arc<ModuleInfo>,
    span: Span,
    log: Arc<Mutex<GuestLog>>,
    begun: Vec<u8>,
}

impl Wasi {
    /// Creates the WASI part for one request of a module, on a relayer that last changed
    /// at this time.
    pub(super) fn new(
        module: &Arc<ModuleInfo>,
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
        Self { context, table, http: HttpState::default(), time, log }
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
    fn new(
        level: Level,
        module: &Arc<ModuleInfo>,
        span: &Span,
        log: &Arc<Mutex<GuestLog>>,
    ) -> Self {
        Self(Arc::new(Mutex::new(Printed {
            level,
            module: Arc::clone(module),
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
