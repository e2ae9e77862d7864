//! The clock that lets go of guests that run long.
//!
//! At each tick a running guest gives up its thread for a moment, and is
//! ended where its time is over. Nothing ticks while no guest runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

/// The time between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// After this many ticks without a guest the clock stops. Waking it costs a
/// request more than a few ticks cost the machine.
const IDLE_TICKS: u32 = 100;

pub(super) struct EpochTicker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    /// Guests that run.
    running: AtomicUsize,
    /// The clock has stopped, or is about to.
    stopped: AtomicBool,
    /// The engine is gone.
    ended: AtomicBool,
}

/// A guest runs as long as this lives.
pub(super) struct Running<'a>(&'a EpochTicker);

impl EpochTicker {
    pub(super) fn start(engine: &wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("ticker".to_owned()).spawn({
            let (shared, engine) = (Arc::clone(&shared), engine.weak());
            move || {
                shared
                    .tick(|| engine.upgrade().inspect(wasmtime::Engine::increment_epoch).is_some());
            }
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    pub(super) fn run(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, SeqCst);
        if self.shared.stopped.swap(false, SeqCst) {
            self.thread.unpark();
        }
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        self.thread.unpark();
    }
}

impl Shared {
    fn tick(&self, tick: impl Fn() -> bool) {
        let mut idle = 0;
        while !self.ended.load(SeqCst) {
            idle = if self.running.load(SeqCst) == 0 { idle + 1 } else { 0 };
            if idle > IDLE_TICKS {
                self.stop();
                idle = 0;
            }
            thread::sleep(TICK);
            if !tick() {
                return;
            }
        }
    }

    /// Waits for a guest. One that begins meanwhile is not missed: it either
    /// finds the clock stopped and wakes it, or is found running here.
    fn stop(&self) {
        self.stopped.store(true, SeqCst);
        while self.running.load(SeqCst) == 0
            && self.stopped.load(SeqCst)
            && !self.ended.load(SeqCst)
        {
            thread::park();
        }
        self.stopped.store(false, SeqCst);
    }
}
