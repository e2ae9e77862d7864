//! Threads for guests that yield twice.
//!
//! Most guests complete before, on the thread of their request, which costs
//! nothing more. A guest that takes longer continues here, together with other slow
//! guests, and frees the threads that serve sockets. Each module's mount has such
//! threads, with a lower priority: a module that spins competes with itself. Guests of
//! slow targets start here (`slow_targets.rs`), and so do all guests of a mount while
//! there are as many slow guests as threads. Only a guest that yields is slow: if those
//! that start here counted as well, they would keep the pool full, and most guests of a
//! busy server would start here (`docs/decisions/011-one-runtime-per-core.md`).
//!
//! Measured on two cores, which the clients shared: the p99 of a cached `/version`, with a
//! hundred clients on an extension that spins, and on a quiet server
//! (`cargo bench -p relayer-rest-tests -- spinning`, whose clients have other cores now).
//!
//! | guests run | p99: spinning, quiet | cost of a cache miss |
//! |---|---|---|
//! | on the thread of their request, yielding at each tick | 51.3 ms, 0.21 ms | |
//! | always on threads of their own | 0.28 ms, 0.23 ms | two more hops between threads |
//! | on threads of their own after two yields | 0.22 ms, 0.23 ms | same as the first |

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use relayer_rest_common::{priority, threads};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::task::JoinSet;

/// The threads that the system must allow in excess of a pool's: other parts of the process
/// may start some at the same time, and the runtime panics if one of its own is missing.
const SPARE_THREADS: usize = 8;

/// Held while a pool starts: two that start at once would find the same threads free.
static STARTING: Mutex<()> = Mutex::new(());

/// A pool of threads, which are started when a guest first yields, or starts here.
pub(super) struct SlowGuestPool {
    count: usize,
    /// The number of slow guests.
    slow: Arc<AtomicUsize>,
    /// The number of runs that started here.
    started: AtomicU64,
    /// One permit per thread: as many guests continue at once.
    turns: Arc<Semaphore>,
    threads: OnceCell<Threads>,
    /// Whether a task starts the threads.
    is_preparing: AtomicBool,
}

/// The threads of a pool. They end in the background when this is dropped: the last user may be
/// a task, which must not wait for threads.
struct Threads(Option<Runtime>);

/// Counts a guest as slow until it is dropped.
struct SlowGuest(Arc<AtomicUsize>);

/// The place at which a guest of the pool starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// In the pool. The guest is slow once it yields.
    InPool,
    /// On the thread of its request. It has yielded there.
    OnSocketThread,
}

impl SlowGuestPool {
    pub(super) fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, Into::into);
        Self {
            count,
            slow: Arc::default(),
            started: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(count)),
            threads: OnceCell::new(),
            is_preparing: AtomicBool::new(false),
        }
    }

    /// Returns whether there is a slow guest for each thread.
    pub(super) fn is_full(&self) -> bool {
        self.slow.load(Relaxed) >= self.count
    }

    /// Returns the number of runs that started here.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Returns the permits for which its guests take turns.
    pub(super) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    /// Runs a guest, and returns its result, or that of `end` if this completes first.
    /// With `end`, a client need not wait for a guest that waits for a turn or for the host.
    pub(super) async fn run<T: Send + 'static, E>(
        &self,
        start: Start,
        guest: impl Future<Output = T> + Send + 'static,
        end: impl Future<Output = E>,
    ) -> Result<T, E> {
        let count = Arc::clone(&self.slow);
        let mut slow = (start == Start::OnSocketThread).then(|| SlowGuest::count(&count));
        if start == Start::InPool {
            self.started.fetch_add(1, Relaxed);
        }
        let guest = async move {
            let mut guest = pin!(guest);
            poll_fn(|context| {
                let polled = guest.as_mut().poll(context);
                if polled.is_pending() && slow.is_none() {
                    slow = Some(SlowGuest::count(&count));
                }
                polled
            })
            .await
        };
        let result = async {
            let Some(runtime) = self.threads().await else {
                // The system has no more threads, so the guest must run on this one.
                return guest.await;
            };
            let mut guests = JoinSet::new();
            guests.spawn_on(guest, runtime.handle());
            match guests.join_next().await {
                Some(Ok(value)) => value,
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => unreachable!("there is one"),
            }
        };
        tokio::select! {
            biased;
            value = result => Ok(value),
            error = end => Err(error),
        }
    }

    /// Starts the threads in a task if necessary, and does not wait for them.
    pub(super) fn prepare(self: &Arc<Self>) {
        if self.is_started() || self.is_preparing.swap(true, Relaxed) {
            return;
        }
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            // Without threads, the next run tries again.
            _ = pool.threads().await;
            pool.is_preparing.store(false, Relaxed);
        });
    }

    pub(super) fn is_started(&self) -> bool {
        self.threads.initialized()
    }

    /// Returns the threads, and starts them if necessary. If the system has none left, the next
    /// run tries again.
    async fn threads(&self) -> Option<&Runtime> {
        let count = self.count;
        let threads = self.threads.get_or_try_init(|| start(count)).await.ok()?;
        threads.0.as_ref()
    }
}

/// Starts the threads, on a thread of its own: the start of ten threads would delay the other
/// connections of this thread by a tick.
async fn start(count: usize) -> io::Result<Threads> {
    let (sender, started) = oneshot::channel();
    thread::Builder::new().name("start-pool".to_owned()).spawn(move || {
        // If the run has been cancelled meanwhile, the threads end.
        drop(sender.send(build(count).map(|runtime| Threads(Some(runtime)))));
    })?;
    started.await.map_err(io::Error::other)?
}

fn build(count: usize) -> io::Result<Runtime> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    threads::ensure(count + SPARE_THREADS)?;
    Builder::new_multi_thread()
        .worker_threads(count)
        .thread_name("long-runs")
        .on_thread_start(priority::lower_thread)
        .build()
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl SlowGuest {
    fn count(guests: &Arc<AtomicUsize>) -> Self {
        guests.fetch_add(1, Relaxed);
        Self(Arc::clone(guests))
    }
}

impl Drop for SlowGuest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{STARTING, SlowGuestPool, Start, Threads, build};
    use futures_util::future::{Either, FutureExt, join_all, select};
    use std::future::pending;
    use std::pin::pin;
    use std::sync::{Arc, Barrier};
    use std::task::{Context, Poll, Waker};
    use tokio::runtime::Handle;
    use tokio::sync::Barrier as AsyncBarrier;

    /// Otherwise, each guest of a busy server would find the threads in use, start here,
    /// and keep them in use.
    #[tokio::test]
    async fn guests_that_start_in_the_pool_fill_it_only_once_they_yield() {
        let pool = Arc::new(SlowGuestPool::new());
        // All threads have a guest that has not yielded when the barrier opens.
        let started = Arc::new(Barrier::new(pool.count));
        let yielded = Arc::new(AsyncBarrier::new(pool.count + 1));
        let guests = join_all((0..pool.count).map(|_| {
            let (observed, started) = (Arc::clone(&pool), Arc::clone(&started));
            let yielded = Arc::clone(&yielded);
            let guest = async move {
                started.wait();
                let was_full = observed.is_full();
                started.wait();
                yielded.wait().await;
                was_full
            };
            let pool = &pool;
            async move { pool.run(Start::InPool, guest, pending::<()>()).await }
        }));
        let all_yield = async {
            while !pool.is_full() {
                tokio::task::yield_now().await;
            }
        };
        let guests = pin!(guests);
        let guests = match select(guests, pin!(all_yield)).await {
            Either::Left(_) => panic!("the guests wait for the test"),
            Either::Right(((), guests)) => guests,
        };
        let (were_full, _) = tokio::join!(guests, yielded.wait());
        assert_eq!(were_full, vec![Ok(false); pool.count]);
        assert!(!pool.is_full());
        assert_eq!(pool.started(), pool.count as u64);
    }

    #[tokio::test]
    async fn a_start_of_the_pool_does_not_block_the_thread_of_a_request() {
        let pool = SlowGuestPool::new();
        let mut run = pin!(pool.run(Start::InPool, async { 1 }, pending::<()>()));
        {
            let _other = STARTING.lock().unwrap();
            assert_eq!(run.as_mut().now_or_never(), None);
        }
        assert_eq!(run.await, Ok(1));
    }

    #[tokio::test]
    async fn one_task_prepares_the_pool() {
        let pool = Arc::new(SlowGuestPool::new());
        (0..3).for_each(|_| pool.prepare());
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    }

    /// A task can be cancelled while the pool starts for it.
    #[tokio::test]
    async fn a_task_can_drop_threads() {
        drop(Threads(Some(build(1).unwrap())));
    }

    #[tokio::test]
    async fn a_guest_that_has_yielded_before_is_slow_from_the_start() {
        let pool = SlowGuestPool::new();
        let runs = (0..pool.count).map(|_| {
            let run = pool.run(Start::OnSocketThread, pending::<()>(), pending::<()>());
            Box::pin(run)
        });
        let mut runs = join_all(runs);
        assert_eq!(runs.poll_unpin(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        assert!(pool.is_full());
        assert_eq!(pool.started(), 0);
    }
}
