//! The threads that serve connections: one for each core that the process may use, each
//! with a runtime of its own.
//!
//! A connection stays on the thread that it was assigned to, so that its requests need no
//! synchronization between cores. One task accepts all connections and assigns each to
//! the thread with the fewest: the kernel's distribution among several listeners is
//! random, and a few connections can pile up on one core.

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tracing::warn;

/// The threads, which end when this is dropped.
pub(super) struct WorkerThreads(Vec<WorkerThread>);

struct WorkerThread {
    handle: Handle,
    connections: usize,
    /// Ends the thread when it is dropped; `None` for the runtime of the caller.
    _end: Option<oneshot::Sender<()>>,
}

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
            workers.push(WorkerThread { handle: Handle::current(), connections: 0, _end: None });
        }
        Self(workers)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Assigns a connection to the thread with the fewest.
    pub(super) fn assign(&mut self) -> (WorkerId, &Handle) {
        let workers = self.0.iter_mut().enumerate();
        let (number, worker) =
            workers.min_by_key(|(_, worker)| worker.connections).expect("there is one");
        worker.connections += 1;
        (WorkerId(number), &worker.handle)
    }

    /// Records the end of a connection of this thread.
    pub(super) fn release(&mut self, WorkerId(number): WorkerId) {
        self.0[number].connections -= 1;
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
        let (sender, started) = mpsc::channel();
        // The runtime is built by its thread: one that is dropped here, for want of a
        // thread, would panic.
        let serve = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                drop(sender.send(Ok(runtime.handle().clone())));
                serve(&runtime, ended);
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        thread::Builder::new().name(format!("worker-{number}")).spawn(serve)?;
        let handle = started.recv().map_err(io::Error::other)??;
        Ok(Self { handle, connections: 0, _end: Some(end) })
    }
}

/// Runs the tasks of a runtime until the sender is dropped.
fn serve(runtime: &Runtime, ended: oneshot::Receiver<()>) {
    // The sender sends nothing.
    drop(runtime.block_on(ended));
}

#[cfg(test)]
mod tests {
    use super::{WorkerId, WorkerThreads};
    use std::num::NonZeroUsize;
    use std::thread::{self, ThreadId};

    async fn thread_of(workers: &mut WorkerThreads) -> (WorkerId, ThreadId) {
        let (worker, handle) = workers.assign();
        (worker, handle.spawn(async { thread::current().id() }).await.unwrap())
    }

    #[tokio::test]
    async fn connections_are_distributed_evenly() {
        let mut workers = WorkerThreads::start(NonZeroUsize::new(3).unwrap());
        let mut threads = Vec::new();
        for _ in 0..3 {
            threads.push(thread_of(&mut workers).await);
        }
        let ids: std::collections::HashSet<_> = threads.iter().map(|(_, thread)| thread).collect();
        assert_eq!(ids.len(), 3);
        assert!(!ids.contains(&thread::current().id()));
        // The next one takes the place of one that ended.
        let (ended, thread) = threads[1];
        workers.release(ended);
        assert_eq!(thread_of(&mut workers).await, (ended, thread));
    }
}
