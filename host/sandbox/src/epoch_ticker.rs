//! The epoch ticker, which interrupts guests that run long.
//!
//! At a tick a running guest can yield its thread for a moment, and is terminated if its
//! time is over. The ticker stops while no guest runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::thread::{self, Thread};
use std::time::Duration;

/// The time between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// The number of ticks without a guest after which the ticker stops. Waking it costs a
/// request more than a few ticks cost the machine.
const IDLE_TICKS: u32 = 100;

pub(super) struct EpochTicker {
    shared: Arc<Shared>,
    thread: Thread,
}

/// The number of ticks so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Ticks(Arc<AtomicU64>);

#[derive(Default)]
struct Shared {
    ticks: Ticks,
    /// The number of running guests.
    running: AtomicUsize,
    /// The ticker has stopped, or is about to.
    stopped: AtomicBool,
    /// The engine has been dropped.
    ended: AtomicBool,
}

/// Counts a guest as running until this is dropped.
pub(super) struct RunningGuest<'a>(&'a EpochTicker);

impl Ticks {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts a tick.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl EpochTicker {
    pub(super) fn start(engine: &wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("ticker".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            let engine = engine.weak();
            move || {
                shared
                    .tick(|| engine.upgrade().inspect(wasmtime::Engine::increment_epoch).is_some());
            }
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Returns the number of ticks, which grows while guests run.
    pub(super) fn ticks(&self) -> &Ticks {
        &self.shared.ticks
    }

    pub(super) fn run(&self) -> RunningGuest<'_> {
        self.shared.running.fetch_add(1, SeqCst);
        if self.shared.stopped.swap(false, SeqCst) {
            self.thread.unpark();
        }
        RunningGuest(self)
    }
}

impl Drop for RunningGuest<'_> {
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
            self.ticks.add();
        }
    }

    /// Waits for a guest. A guest that starts meanwhile is not missed: it either finds
    /// the ticker stopped and wakes it, or is found running here.
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
