//! Guests that run for longer than a tick, on threads of their own.
//!
//! Most guests are done within a tick and run where their request came in:
//! that costs nothing. One that is not done by then goes on here, among its
//! like, and leaves the threads that have the sockets to those. Each module's
//! mount has such threads, of a lesser priority: a module that spins takes
//! turns with itself. Guests of targets that are slow start here (`slow_targets.rs`),
//! and all of a mount's guests while all of these threads are busy.
//!
//! What was measured, on two cores: the p99 of `/version` that is remembered,
//! with a hundred clients on an extension that spins, to that of a quiet server
//! (`cargo bench -p relayer-rest-tests -- spinning`).
//!
//! | where guests run | p99, to quiet | a miss |
//! |---|---|---|
//! | where their request came in, giving way at each tick | 51.3 ms, 0.21 ms | |
//! | always on threads of their own | 0.28 ms, 0.23 ms | two hops between threads more |
//! | on threads of their own from the first tick on | 0.22 ms, 0.23 ms | as fast as the first |

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::{priority, threads};

/// Threads that are started when there is something to do.
pub(super) struct SlowGuestPool {
    count: usize,
    running: Arc<AtomicUsize>,
    /// Runs that started here.
    started: AtomicU64,
    /// As many guests go on at once as there are threads.
    turns: Arc<Semaphore>,
    runtime: OnceLock<Runtime>,
    starting: Mutex<()>,
}

/// A guest runs here as long as this lives.
struct Running(Arc<AtomicUsize>);

impl SlowGuestPool {
    pub(super) fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, Into::into);
        Self {
            count,
            running: Arc::default(),
            started: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(count)),
            runtime: OnceLock::new(),
            starting: Mutex::default(),
        }
    }

    /// Whether each thread has something to do.
    pub(super) fn is_full(&self) -> bool {
        self.running.load(Relaxed) >= self.count
    }

    /// Counts a run that starts here.
    pub(super) fn count_start(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    /// The number of runs that started here.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// The turns of its guests.
    pub(super) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    /// What comes of a guest that gives way at each tick; or why it is given up,
    /// where that comes first. Its client need not wait until it has its turn and
    /// finds that its time is over.
    pub(super) async fn finish<T: Send + 'static, E>(
        &self,
        guest: impl Future<Output = T> + Send + 'static,
        end: impl Future<Output = E>,
    ) -> Result<T, E> {
        self.running.fetch_add(1, Relaxed);
        let running = Running(Arc::clone(&self.running));
        let guest = async move {
            let _running = running;
            guest.await
        };
        let Some(runtime) = self.runtime() else {
            // The system has no more threads: it has to be done here.
            return tokio::select! {
                biased;
                value = guest => Ok(value),
                error = end => Err(error),
            };
        };
        let mut guests = JoinSet::new();
        guests.spawn_on(guest, runtime.handle());
        tokio::select! {
            biased;
            value = guests.join_next() => match value {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => unreachable!("there is one"),
            },
            error = end => Err(error),
        }
    }

    /// Starts the threads, if that is not done yet. The next run tries again if there
    /// are none to be had.
    fn runtime(&self) -> Option<&Runtime> {
        self.runtime.get().or_else(|| {
            // Nothing that panics is done while it is held.
            let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.runtime.get().is_none() {
                self.runtime.set(start(self.count).ok()?).ok();
            }
            self.runtime.get()
        })
    }
}

fn start(count: usize) -> io::Result<Runtime> {
    threads::ensure(count)?;
    Builder::new_multi_thread()
        .worker_threads(count)
        .thread_name("long-runs")
        .on_thread_start(priority::lower_thread)
        .build()
}

impl Drop for SlowGuestPool {
    fn drop(&mut self) {
        // The last to use this may be a task, which must not wait for threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
