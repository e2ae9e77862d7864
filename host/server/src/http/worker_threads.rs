//! The threads that serve connections: one for each core that the process may use, each
//! with a runtime of its own.
//!
//! A connection stays on the thread that it was assigned to, so that its requests need no
//! synchronization between cores. Connections are assigned in proportion to the time that each
//! thread has left. The thread that accepted one keeps it, unless it has more than its share: the
//! kernel's distribution among several sockets is random, and a few connections can pile up on one
//! core.

use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use relayer_rest_common::threads;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::interval;
use tracing::warn;

use crate::{cache, request_metrics};

/// The interval in which a thread releases the copies of responses that had no hits, and the
/// counts of modules that are not active any more.
pub(super) const RELEASE_INTERVAL: Duration = Duration::from_secs(60);

/// The threads, which end when this is dropped.
pub(super) struct WorkerThreads(Vec<WorkerThread>);

struct WorkerThread {
    handle: Handle,
    /// Ends the thread when it is dropped; `None` for the runtime of the caller.
    _end: Option<oneshot::Sender<()>>,
}

/// The connections of the threads, and the time that each has left for others.
pub(super) struct Loads {
    threads: Vec<Load>,
    measured_at: Instant,
}

/// The load of a thread. The number of its connections is no measure: a client can keep
/// idle ones to a thread, so that new connections are assigned to the thread that it
/// occupies.
struct Load {
    /// The open connections.
    connections: u64,
    /// The time for which the thread was busy since its start, as of the last measurement.
    busy: Duration,
    /// The share of `PARTS` in which the thread was idle before the last measurement, at
    /// least 1.
    free: u64,
    /// The connections that were assigned since the last measurement.
    assigned: u64,
}

/// The precision of a load. Threads that differ by less than a part have the same load.
const PARTS: u64 = 16;

/// The part of another thread's load by which a thread may exceed it to keep the connections that
/// it accepts, which saves their move.
const TOLERANCE: u64 = 8;

/// The number of a worker thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WorkerId(usize);

impl WorkerThreads {
    /// Starts this many threads, or as many as the system allows. If it allows none, the
    /// connections are served by the current runtime.
    pub(super) fn start(count: NonZeroUsize) -> Self {
        let mut workers = Vec::with_capacity(count.get());
        for number in 0..count.get() {
            match WorkerThread::start(number) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    warn!(%error, started = number, wanted = count, "worker threads missing: no more threads can be created; raise the limit of processes (ulimit -u, or pids.max of the control group)");
                    break;
                }
            }
        }
        if workers.is_empty() {
            workers.push(WorkerThread { handle: Handle::current(), _end: None });
        }
        Self(workers)
    }

    /// Returns the runtimes of the threads, in the order of their numbers.
    pub(super) fn runtimes(&self) -> impl ExactSizeIterator<Item = (WorkerId, &Handle)> {
        self.0.iter().enumerate().map(|(number, worker)| (WorkerId(number), &worker.handle))
    }

    /// Returns the runtime of a thread.
    pub(super) fn runtime(&self, WorkerId(number): WorkerId) -> &Handle {
        &self.0[number].handle
    }

    /// Returns the loads of the threads, which have no connections yet.
    pub(super) fn loads(&self) -> Loads {
        let threads = self.0.iter().map(|_| Load::new()).collect();
        Loads { threads, measured_at: Instant::now() }
    }
}

impl Loads {
    /// Returns the thread for the next connection: the one that accepted it, if there is one and
    /// it has not more than its share, or else the one with the most time for it; of equal ones
    /// the one with the fewest connections.
    pub(super) fn choose(&self, here: Option<WorkerId>) -> WorkerId {
        let threads = self.threads.iter().enumerate();
        let (number, best) = threads
            .min_by_key(|(_, load)| (load.after_assignment(), load.connections))
            .expect("there is one");
        here.filter(|here| self.threads[here.0].has_share(best)).unwrap_or(WorkerId(number))
    }

    /// Records a connection of this thread.
    pub(super) fn assign(&mut self, WorkerId(number): WorkerId) {
        let load = &mut self.threads[number];
        load.connections += 1;
        load.assigned += 1;
    }

    /// Records the end of a connection of this thread.
    pub(super) fn release(&mut self, WorkerId(number): WorkerId) {
        self.threads[number].connections -= 1;
    }

    /// Measures the loads of the threads since the last measurement.
    pub(super) fn measure(&mut self, workers: &WorkerThreads) {
        let now = Instant::now();
        let elapsed = now - std::mem::replace(&mut self.measured_at, now);
        for (load, worker) in self.threads.iter_mut().zip(&workers.0) {
            load.measure(worker.handle.metrics().worker_total_busy_duration(0), elapsed);
        }
    }
}

impl WorkerId {
    /// Returns its place among the threads.
    pub(super) fn index(self) -> usize {
        self.0
    }
}

impl WorkerThread {
    fn start(number: usize) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let name = format!("worker-{number}");
        let handle = threads::start_runtime(&name, |runtime| serve(runtime, ended))?;
        Ok(Self { handle, _end: Some(end) })
    }
}

impl Load {
    fn new() -> Self {
        Self { connections: 0, busy: Duration::ZERO, free: PARTS, assigned: 0 }
    }

    /// Returns whether another connection would not be more than the share of the thread, given
    /// the thread with the most time for it. With up to seven connections, that is the exact share.
    fn has_share(&self, best: &Self) -> bool {
        let is_near = |own: u64, best: u64| own <= best + best / TOLERANCE;
        is_near(self.after_assignment(), best.after_assignment())
            && is_near(self.connections + 1, best.connections + 1)
    }

    /// Returns the relative load if another connection were assigned.
    fn after_assignment(&self) -> u64 {
        (self.assigned + 1) * (PARTS * PARTS) / self.free
    }

    /// Records the total time for which the thread was busy, and the time since the last
    /// measurement.
    fn measure(&mut self, busy: Duration, elapsed: Duration) {
        let recent = busy.saturating_sub(self.busy).as_nanos();
        let parts = recent * u128::from(PARTS) / elapsed.as_nanos().max(1);
        let parts = u64::try_from(parts).unwrap_or(PARTS);
        self.busy = busy;
        self.free = PARTS.saturating_sub(parts).max(1);
        self.assigned = 0;
    }
}

/// Runs the tasks of a runtime until the sender is dropped.
fn serve(runtime: &Runtime, mut ended: oneshot::Receiver<()>) {
    runtime.block_on(async {
        let mut releases = interval(RELEASE_INTERVAL);
        loop {
            tokio::select! {
                // The sender sends nothing.
                _ = &mut ended => break,
                _ = releases.tick() => {
                    cache::release_unused_copies();
                    request_metrics::release_unused();
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Load, Loads, WorkerId, WorkerThreads};
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::num::NonZeroUsize;
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};
    use tokio::task::yield_now;

    async fn thread_of(workers: &WorkerThreads, loads: &mut Loads) -> (WorkerId, ThreadId) {
        let worker = loads.choose(None);
        loads.assign(worker);
        let thread = workers.runtime(worker).spawn(async { thread::current().id() });
        (worker, thread.await.unwrap())
    }

    #[tokio::test]
    async fn connections_are_distributed_evenly() {
        let workers = WorkerThreads::start(NonZeroUsize::new(3).unwrap());
        let mut loads = workers.loads();
        let mut threads = Vec::new();
        for _ in 0..3 {
            threads.push(thread_of(&workers, &mut loads).await);
        }
        let ids: std::collections::HashSet<_> = threads.iter().map(|(_, thread)| thread).collect();
        assert_eq!(ids.len(), 3);
        assert!(!ids.contains(&thread::current().id()));
        // The next one takes the place of one that ended.
        let (ended, thread) = threads[1];
        loads.release(ended);
        assert_eq!(thread_of(&workers, &mut loads).await, (ended, thread));
    }

    #[tokio::test]
    async fn a_thread_keeps_its_share_of_the_connections_that_it_accepts() {
        let workers = WorkerThreads::start(NonZeroUsize::new(2).unwrap());
        let mut loads = workers.loads();
        let [first, second] = [WorkerId(0), WorkerId(1)];
        // However few they are, one thread does not get more than the other.
        for count in 1..8 {
            for (accepts, expected) in [(second, second), (second, first)] {
                let worker = loads.choose(Some(accepts));
                assert_eq!(worker, expected, "{count}");
                loads.assign(worker);
            }
        }
        // Of many, it keeps a few more.
        let mut kept = [0; 2];
        for _ in 0..1_000 {
            let worker = loads.choose(Some(second));
            loads.assign(worker);
            kept[worker.0] += 1;
        }
        assert!((501..=540).contains(&kept[1]), "{kept:?}");
    }

    /// The kernel distributes by a hash. The counts are those of the measurements in
    /// `docs/decisions/011-one-runtime-per-core.md`.
    #[tokio::test]
    async fn connections_that_are_accepted_at_random_are_distributed_evenly() {
        let workers = WorkerThreads::start(NonZeroUsize::new(4).unwrap());
        let accepting = |number: u64| {
            let mut hasher = DefaultHasher::new();
            number.hash(&mut hasher);
            WorkerId(usize::try_from(hasher.finish() % 4).unwrap())
        };
        for (count, least, most) in [(8, 2, 2), (32, 7, 9), (256, 56, 72), (1_000, 220, 280)] {
            let mut loads = workers.loads();
            for number in 0..count {
                let worker = loads.choose(Some(accepting(number)));
                loads.assign(worker);
            }
            let counts: Vec<_> = loads.threads.iter().map(|load| load.connections).collect();
            assert_eq!(counts.iter().sum::<u64>(), count);
            assert!(counts.iter().all(|count| (least..=most).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn a_load_is_relative_to_the_free_time() {
        let second = Duration::from_secs(1);
        let mut load = Load::new();
        let idle = load.after_assignment();
        load.measure(second / 2, second);
        assert_eq!(load.after_assignment(), 2 * idle);
        load.assigned += 1;
        assert_eq!(load.after_assignment(), 4 * idle);
        // The thread was busy for longer than the time that is known to have passed.
        load.measure(3 * second, second);
        assert_eq!(load.after_assignment(), 16 * idle);
        load.measure(3 * second, second);
        assert_eq!(load.after_assignment(), idle);
    }

    #[tokio::test]
    async fn a_busy_thread_gets_few_connections_however_few_it_has() {
        let workers = WorkerThreads::start(NonZeroUsize::new(2).unwrap());
        let mut loads = workers.loads();
        let busy = loads.choose(None);
        loads.assign(busy);
        let spinning = workers.runtime(busy).spawn(async {
            loop {
                let end = Instant::now() + Duration::from_micros(500);
                while Instant::now() < end {}
                yield_now().await;
            }
        });
        let idle = loads.choose(Some(busy));
        assert_ne!(idle, busy);
        // Others keep idle connections to the other thread.
        loads.threads[idle.0].connections += 1_000;
        while loads.threads[busy.0].free > 1 || loads.threads[idle.0].free < 8 {
            loads.measure(&workers);
            thread::sleep(Duration::from_millis(1));
        }
        let mut to_busy = 0;
        for _ in 0..9 {
            let worker = loads.choose(Some(busy));
            loads.assign(worker);
            to_busy += usize::from(worker == busy);
        }
        assert!(to_busy <= 1);
        spinning.abort();
    }
}
