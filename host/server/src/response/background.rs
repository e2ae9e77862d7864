//! Threads of a lower priority, for work that no socket may wait for.
//!
//! They are created on demand, reused, and end after some time without work. Their number
//! is bounded by the callers, which limit the work that they submit.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use relayer_rest_common::priority;
use tokio::sync::oneshot;

/// The time without work after which a thread ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

static POOL: Pool = Pool { state: Mutex::new(State::new()), submitted: Condvar::new() };

struct Pool {
    state: Mutex<State>,
    submitted: Condvar,
}

struct State {
    /// Work for waiting threads, at most one item for each.
    queue: VecDeque<Work>,
    waiting: usize,
}

/// Runs `work` on a thread of a lower priority. Returns `None` if no thread can be
/// created, or if the work panics.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    // The work is done even if the caller no longer waits for its result.
    let work = move || drop(sender.send(work()));
    POOL.submit(Box::new(work)).ok()?;
    receiver.await.ok()
}

impl State {
    const fn new() -> Self {
        Self { queue: VecDeque::new(), waiting: 0 }
    }
}

impl Pool {
    fn submit(&'static self, work: Work) -> io::Result<()> {
        let mut state = self.lock();
        if state.waiting > state.queue.len() {
            state.queue.push_back(work);
            self.submitted.notify_one();
            return Ok(());
        }
        drop(state);
        let run = move || {
            priority::lower_thread();
            work();
            while let Some(work) = self.next() {
                work();
            }
        };
        thread::Builder::new().name("background".to_owned()).spawn(run).map(drop)
    }

    /// Waits for more work. Returns [`None`] after [`KEEP_ALIVE`] without any.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        state.waiting += 1;
        let (mut state, _) = self
            .submitted
            .wait_timeout_while(state, KEEP_ALIVE, |state| state.queue.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.queue.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use relayer_rest_common::priority;
    use rustix::process::getpriority_process;
    use std::sync::{Arc, Barrier};
    use std::thread;

    #[tokio::test]
    async fn work_runs_at_a_lower_priority() {
        let priority_of = || getpriority_process(None).unwrap();
        let lowered = thread::spawn(move || {
            priority::lower_thread();
            priority_of()
        });
        assert_eq!(run(priority_of).await, Some(lowered.join().unwrap()));
    }

    #[tokio::test]
    async fn submitted_work_runs_concurrently() {
        let barrier = Arc::new(Barrier::new(3));
        let wait = || {
            let barrier = Arc::clone(&barrier);
            run(move || {
                barrier.wait();
            })
        };
        for _ in 0..20 {
            assert_eq!(tokio::join!(wait(), wait(), wait()), (Some(()), Some(()), Some(())));
        }
    }

    #[tokio::test]
    async fn panicking_work_has_no_result() {
        assert_eq!(run(|| panic!("as the test wants it")).await, None::<()>);
        assert_eq!(run(|| 1).await, Some(1));
    }
}
