//! Admission control: requests run, wait or are rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use relayer_rest_common::histogram::{Histogram, Times};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::limits::Limits;

/// Limits of the number of running requests, of the number of waiting requests, and of
/// their wait.
pub(crate) struct Admission {
    running: Arc<Semaphore>,
    waiting: Semaphore,
    background: Arc<Semaphore>,
    wait: Duration,
    limits: [u32; 2],
    /// The requests that wait for a turn on the threads of their sockets, outside of the queue.
    awaiting_turn: AtomicUsize,
    waited: Histogram,
}

/// Counts a request as waiting for a turn until this is dropped.
pub(crate) struct TurnWait<'a> {
    admission: &'a Admission,
    start: Instant,
}

/// The queue is full, or the request waited in it for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overloaded;

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            running: Arc::new(Semaphore::new(limits.concurrency as usize)),
            waiting: Semaphore::new(limits.queue as usize),
            background: Arc::new(Semaphore::new(1)),
            wait: limits.queue_wait,
            limits: [limits.concurrency, limits.queue],
            awaiting_turn: AtomicUsize::new(0),
            waited: Histogram::default(),
        }
    }

    /// Acquires all of the `concurrency` permits and the background permit, if nothing
    /// runs; requests wait until these permits are dropped.
    pub(crate) fn try_hold_all(&self, concurrency: u32) -> Option<[OwnedSemaphorePermit; 2]> {
        let background = Arc::clone(&self.background).try_acquire_owned().ok()?;
        let running = Arc::clone(&self.running).try_acquire_many_owned(concurrency).ok()?;
        Some([background, running])
    }

    /// Waits for the background permit, which clients do not use, without a limit of
    /// time.
    pub(crate) async fn admit_background(&self) -> Result<OwnedSemaphorePermit, Overloaded> {
        Arc::clone(&self.background).acquire_owned().await.map_err(|_| Overloaded)
    }

    /// Returns a permit to run if there is one, and no request waits for it.
    pub(crate) fn try_admit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.running).try_acquire_owned().ok()
    }

    /// Waits for a permit to run, which is released when it is dropped.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, Overloaded> {
        if let Some(permit) = self.try_admit() {
            return Ok(permit);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Overloaded)?;
        let start = Instant::now();
        let admitted = timeout(self.wait, Arc::clone(&self.running).acquire_owned()).await;
        self.waited.record(start.elapsed());
        match admitted {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Overloaded),
        }
    }

    /// Counts a request that waits for a turn, which has no place in the queue.
    pub(crate) fn wait_for_turn(&self) -> TurnWait<'_> {
        self.awaiting_turn.fetch_add(1, Relaxed);
        TurnWait { admission: self, start: Instant::now() }
    }

    /// Returns the numbers of running and of waiting requests.
    pub(crate) fn admitted(&self) -> [usize; 2] {
        let [running, waiting] = self.limits;
        let [running, queued] = [(running, &*self.running), (waiting, &self.waiting)]
            .map(|(limit, free)| (limit as usize).saturating_sub(free.available_permits()));
        [running, queued + self.awaiting_turn.load(Relaxed)]
    }

    /// Returns the times of the waits of requests, admitted or not.
    pub(crate) fn waited(&self) -> Times {
        self.waited.times()
    }
}

impl Drop for TurnWait<'_> {
    fn drop(&mut self) {
        self.admission.awaiting_turn.fetch_sub(1, Relaxed);
        self.admission.waited.record(self.start.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Limits, Overloaded};
    use std::time::Duration;

    fn admission(queue: u32, queue_wait: Duration) -> Admission {
        Admission::new(&Limits { concurrency: 1, queue, queue_wait, ..Limits::default() })
    }

    #[tokio::test]
    async fn a_request_is_rejected_at_once_if_the_queue_is_full() {
        let admission = admission(0, Duration::MAX);
        let _running = admission.admit().await.unwrap();
        assert_eq!(admission.admit().await.map(drop), Err(Overloaded));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_bounded_time() {
        let admission = admission(1, Duration::from_secs(1));
        let _running = admission.admit().await.unwrap();
        let start = tokio::time::Instant::now();
        assert_eq!(admission.admit().await.map(drop), Err(Overloaded));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_waiting_request_gets_the_next_permit() {
        let admission = admission(1, Duration::MAX);
        let running = admission.admit().await.unwrap();
        let (waited, ()) = tokio::join!(admission.admit(), async {
            assert_eq!(admission.admitted(), [1, 1]);
            drop(running);
        });
        waited.map(drop).unwrap();
        assert_eq!((admission.admitted(), admission.waited().count()), ([0, 0], 1));
    }

    #[tokio::test]
    async fn a_cancelled_request_leaves_the_queue() {
        let admission = admission(1, Duration::MAX);
        let running = admission.admit().await.unwrap();
        tokio::select! {
            biased;
            _ = admission.admit() => unreachable!("the only permit is held"),
            () = async {} => {}
        }
        let (waited, ()) = tokio::join!(admission.admit(), async { drop(running) });
        waited.map(drop).unwrap();
    }
}
