//! Modules whose guests have kept a socket's thread for long without a yield.
//!
//! A tick does not interrupt one operation over the whole memory, nor the host's work in
//! one call, and a guest can choose a new path for each of them. If a poll on a socket's
//! thread was such a long step, all runs of the module start elsewhere for some minutes.
//! Until a module has completed some runs without one, it has at most one guest at a time
//! on such threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The processor time of one poll above which it is a long step.
const LONG: Duration = Duration::from_millis(10);

/// The ticks in one poll from which it is a long step. With fewer, the ticker was late,
/// and the guest could not yield.
const LONG_TICKS: u64 = 3;

/// The time after a long step in which all runs start elsewhere.
const PENALTY: Duration = Duration::from_mins(5);

/// The number of runs after which a module may have several guests on sockets' threads.
const TRIAL_RUNS: u32 = 64;

/// The long steps of a module, which its clones share.
#[derive(Debug, Clone)]
pub(super) struct LongSteps(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The time from which `until` counts.
    origin: Instant,
    /// The end of the penalty, in milliseconds; 0 if there is none.
    until: AtomicU64,
    /// The runs without a long step, up to [`TRIAL_RUNS`].
    completed: AtomicU32,
    /// Whether a guest of a module on trial is on a socket's thread.
    is_occupied: AtomicBool,
}

/// The permit of a guest to run on a socket's thread.
pub(super) struct SocketThreadPermit<'a> {
    module: &'a LongSteps,
    is_trial: bool,
}

/// Returns whether a poll was a long step, from its processor time and its ticks.
pub(super) fn is_long(used: Duration, ticks: u64) -> bool {
    used > LONG && ticks >= LONG_TICKS
}

impl Default for LongSteps {
    fn default() -> Self {
        Self(Arc::new(Shared {
            origin: Instant::now(),
            until: AtomicU64::new(0),
            completed: AtomicU32::new(0),
            is_occupied: AtomicBool::new(false),
        }))
    }
}

impl LongSteps {
    /// Returns whether a run may start on the thread of its socket now.
    pub(super) fn is_open(&self) -> bool {
        let is_closed = self.is_on_trial() && self.0.is_occupied.load(Relaxed);
        !is_closed && !self.has_penalty()
    }

    fn is_on_trial(&self) -> bool {
        self.0.completed.load(Relaxed) < TRIAL_RUNS
    }

    /// Returns a permit for a run on the thread of its socket, or `None` if the run must
    /// start elsewhere.
    pub(super) fn acquire(&self) -> Option<SocketThreadPermit<'_>> {
        if self.has_penalty() {
            return None;
        }
        let is_trial = self.is_on_trial();
        if is_trial && self.0.is_occupied.swap(true, Relaxed) {
            return None;
        }
        Some(SocketThreadPermit { module: self, is_trial })
    }

    fn has_penalty(&self) -> bool {
        let until = self.0.until.load(Relaxed);
        until > 0 && self.now() < until
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn record(&self, penalty: Duration) {
        let penalty = u64::try_from(penalty.as_millis()).unwrap_or(u64::MAX);
        self.0.until.store(self.now().saturating_add(penalty), Relaxed);
        self.0.completed.store(0, Relaxed);
    }
}

impl SocketThreadPermit<'_> {
    /// Records a long step of the guest.
    pub(super) fn long_step(&self) {
        self.module.record(PENALTY);
    }

    /// Returns whether the guest must continue elsewhere, because a guest of the module
    /// had a long step.
    pub(super) fn is_over(&self) -> bool {
        self.module.has_penalty()
    }

    /// Counts the completion of the run here.
    pub(super) fn completed(&self) {
        if self.is_trial && !self.is_over() {
            self.module.0.completed.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for SocketThreadPermit<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.module.0.is_occupied.store(false, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, LONG_TICKS, LongSteps, TRIAL_RUNS, is_long};
    use std::time::Duration;

    /// Returns how many guests can be on sockets' threads at once, up to 3.
    fn permits(steps: &LongSteps) -> usize {
        [steps.acquire(), steps.acquire(), steps.acquire()].into_iter().flatten().count()
    }

    #[test]
    fn a_module_on_trial_has_one_permit_and_several_afterwards() {
        let steps = LongSteps::default();
        for _ in 0..TRIAL_RUNS {
            assert_eq!(permits(&steps), 1);
            steps.acquire().unwrap().completed();
        }
        assert_eq!(permits(&steps), 3);
    }

    #[test]
    fn cancelled_runs_do_not_end_the_trial() {
        let steps = LongSteps::default();
        for _ in 0..2 * TRIAL_RUNS {
            drop(steps.acquire().unwrap());
        }
        assert_eq!(permits(&steps), 1);
    }

    #[test]
    fn a_long_step_of_a_clone_moves_all_runs_elsewhere() {
        let steps = LongSteps::default();
        for _ in 0..TRIAL_RUNS {
            steps.acquire().unwrap().completed();
        }
        let module = steps.clone();
        let [long, other] = [steps.acquire().unwrap(), module.acquire().unwrap()];
        long.long_step();
        assert!(other.is_over());
        drop([long, other]);
        assert_eq!((permits(&steps), permits(&module)), (0, 0));
    }

    #[test]
    fn a_module_is_on_trial_again_after_the_penalty() {
        let steps = LongSteps::default();
        for _ in 0..TRIAL_RUNS {
            steps.acquire().unwrap().completed();
        }
        steps.record(Duration::ZERO);
        assert_eq!(permits(&steps), 1);
    }

    /// While the ticker gets no processor, guests cannot yield.
    #[test]
    fn a_long_step_is_one_that_ticks_did_not_interrupt() {
        let used = LONG + Duration::from_nanos(1);
        assert!(is_long(used, LONG_TICKS));
        assert!(!is_long(used, LONG_TICKS - 1));
        assert!(!is_long(LONG, 1_000));
    }
}
