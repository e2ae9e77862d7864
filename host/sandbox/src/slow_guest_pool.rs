//! Threads for guests that yield twice.
//!
//! Most guests complete before, on the thread of their request, which costs
//! nothing more. A guest that takes longer continues here, together with other slow
//! guests, and frees the threads that serve sockets. Each module's mount has such
//! threads, with a lower priority: a module that spins competes with itself. Guests of
//! slow targets start here (`slow_targets.rs`), and so do all guests of a mount while all
//! of these threads are busy.
//!
//! Measured on two cores: the p99 of a cached `/version`, with a hundred clients on an
//! extension that spins, and on a quiet server
//! (`cargo bench -p relayer-rest-tests -- spinning`).
//!
//! | guests run | p99: spinning, quiet | cost of a cache miss |
//! |---|---|---|
//! | on the thread of their request, yielding at each tick | 51.3 ms, 0.21 ms | |
//! | always on threads of their own | 0.28 ms, 0.23 ms | two more hops between threads |
//! | on threads of their own after two yields | 0.22 ms, 0.23 ms | same as the first |

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use relayer_rest_common::{priority, threads};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The threads that the system must allow in excess of a pool's: other parts of the process
/// may start some at the same time, and the runtime panics if one of its own is missing.
const SPARE_THREADS: usize = 8;

/// A pool of threads, which are started on first use.
pub(super) struct SlowGuestPool {
    count: usize,
    running: Arc<AtomicUsize>,
    /// The number of runs that started here.
    started: AtomicU64,
    /// One permit per thread: as many guests continue at once.
    turns: Arc<Semaphore>,
    runtime: OnceLock<Runtime>,
}

/// Counts a guest as running here until it is dropped.
struct GuestCount(Arc<AtomicUsize>);

impl SlowGuestPool {
    pub(super) fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, Into::into);
        Self {
            count,
            running: Arc::default(),
            started: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(count)),
            runtime: OnceLock::new(),
        }
    }

    /// Returns whether each thread is busy.
    pub(super) fn is_full(&self) -> bool {
        self.running.load(Relaxed) >= self.count
    }

    /// Counts a run that starts here.
    pub(super) fn count_start(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    /// Returns the number of runs that started here.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Returns the permits for which its guests take turns.
    pub(super) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    /// Runs a guest that yields, and returns its result, or that of `end` if
    /// this completes first. With `end`, a client need not wait until its guest has a
    /// turn and finds that its time is over.
    pub(super) async fn finish<T: Send + 'static, E>(
        &self,
        guest: impl Future<Output = T> + Send + 'static,
        end: impl Future<Output = E>,
    ) -> Result<T, E> {
        self.running.fetch_add(1, Relaxed);
        let running = GuestCount(Arc::clone(&self.running));
        let guest = async move {
            let _running = running;
            guest.await
        };
        let Some(runtime) = self.runtime() else {
            // The system has no more threads, so the guest must run on this one.
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

    /// Returns the runtime, and starts its threads if necessary. If the system has no
    /// threads left, the next run tries again.
    fn runtime(&self) -> Option<&Runtime> {
        self.runtime.get().or_else(|| {
            // Two pools that start at once would find the same threads free.
            static STARTING: Mutex<()> = Mutex::new(());
            let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            if self.runtime.get().is_none() {
                self.runtime.set(start(self.count).ok()?).ok();
            }
            self.runtime.get()
        })
    }
}

fn start(count: usize) -> io::Result<Runtime> {
    threads::ensure(count + SPARE_THREADS)?;
    Builder::new_multi_thread()
        .worker_threads(count)
        .thread_name("long-runs")
        .on_thread_start(priority::lower_thread)
        .build()
}

impl Drop for SlowGuestPool {
    fn drop(&mut self) {
        // The last user may be a task, which must not wait for threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for GuestCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
