//! Targets whose runs take long, so that their next runs start on other threads.
//!
//! The time of each run is attributed to its method and path, even if the run is
//! cancelled: a client that resets its requests is charged like any other. The table has
//! a fixed size. An entry of a slow target is replaced by other targets only after many
//! collisions.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::epoch_ticker::Ticks;
use super::long_steps;
use super::request::GuestRequest;

/// The processor time of a run, in microseconds, above which its target is slow:
/// sixty guests that are each just short of a tick delay the sockets as much as one
/// that never ends.
const MAX_SHORT: u32 = 300;

/// The number of runs of targets without an entry that start on other threads after a
/// target turned out to be slow: clients can invent paths.
const FOLLOWING: u32 = 64;

const SLOTS: usize = 256;

/// The run times of the targets of an engine's modules.
pub(super) struct SlowTargets {
    /// The upper half of each is the tag of a target, the lower half its time in
    /// microseconds.
    slots: [AtomicU64; SLOTS],
    following: AtomicU32,
    hasher: RandomState,
}

/// A mount, a method and a path, hashed with a secret of the process: mounts may
/// share an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target(u64);

/// The state of a run when its time is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Completed,
    /// The run was cancelled or continues: it takes at least this time.
    Unfinished,
}

/// A run whose time is recorded when it completes or is dropped.
pub(super) struct RecordedRun<F> {
    run: F,
    used: Duration,
    is_recorded: bool,
    /// The last poll was a long step.
    was_long: bool,
    ticks: Ticks,
    /// None if the time is not recorded.
    target: Option<Target>,
    targets: Arc<SlowTargets>,
}

impl SlowTargets {
    pub(super) fn new() -> Self {
        Self {
            slots: [const { AtomicU64::new(0) }; SLOTS],
            following: AtomicU32::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Returns the target of a request to the module at a mount.
    pub(super) fn target(&self, mount: &str, request: &GuestRequest) -> Target {
        let GuestRequest { method, target, .. } = request;
        Target(self.hasher.hash_one((mount, method.as_str(), target.path())))
    }

    /// Returns whether the next run of a target starts on another thread.
    pub(super) fn is_slow(&self, target: Target) -> bool {
        let (tag, time) = parts(self.slot(target).load(Relaxed));
        if tag == target.tag() {
            return time > MAX_SHORT;
        }
        self.following.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn record(&self, target: Target, used: Duration, run: Run) {
        let used = u32::try_from(used.as_micros()).unwrap_or(u32::MAX);
        let mut was_slow = false;
        let update = |slot| {
            let (tag, time) = parts(slot);
            was_slow = tag == target.tag() && time > MAX_SHORT;
            Some(if tag == target.tag() {
                entry(tag, combined(time, used, run))
            } else if time <= MAX_SHORT || used >= time {
                entry(target.tag(), used)
            } else {
                entry(tag, time - time / 8)
            })
        };
        // The update has a result in each case.
        _ = self.slot(target).fetch_update(Relaxed, Relaxed, update);
        if used > MAX_SHORT && !was_slow {
            self.following.store(FOLLOWING, Relaxed);
        }
    }

    fn slot(&self, target: Target) -> &AtomicU64 {
        &self.slots[usize::try_from(target.0 % SLOTS as u64).unwrap_or_default()]
    }
}

impl Target {
    /// Returns the tag of the target, which is never that of an empty slot.
    fn tag(self) -> u32 {
        (self.0 >> 32) as u32 | 1
    }
}

fn parts(slot: u64) -> (u32, u32) {
    ((slot >> 32) as u32, u32::try_from(slot & u64::from(u32::MAX)).unwrap_or(u32::MAX))
}

fn entry(tag: u32, time: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(time)
}

/// Returns the new time of a target, from its time so far and the time of this run.
fn combined(before: u32, used: u32, run: Run) -> u32 {
    match run {
        // A moving average: a target that is no longer slow starts on the thread of its
        // request again.
        Run::Completed => before - before / 4 + used / 4,
        // The time of unfinished runs adds up.
        Run::Unfinished => before.saturating_add(used),
    }
}

impl<F> RecordedRun<F> {
    pub(super) fn new(
        targets: &Arc<SlowTargets>,
        target: Option<Target>,
        ticks: &Ticks,
        run: F,
    ) -> Self {
        Self {
            run,
            used: Duration::ZERO,
            is_recorded: false,
            was_long: false,
            ticks: ticks.clone(),
            target,
            targets: Arc::clone(targets),
        }
    }

    /// Returns whether the last poll was a long step.
    pub(super) fn was_long(&self) -> bool {
        self.was_long
    }

    fn add(&self, run: Run) {
        if let Some(target) = self.target {
            self.targets.record(target, self.used, run);
        }
    }

    /// Records the time of a run that continues on another thread, so that other runs of
    /// its target start there.
    pub(super) fn record(&mut self) {
        self.add(Run::Unfinished);
        self.used = Duration::ZERO;
    }
}

impl<F: Future + Unpin> Future for RecordedRun<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        let cpu_start = cpu_time();
        let ticks = self.ticks.count();
        let output = Pin::new(&mut self.run).poll(context);
        let passed = start.elapsed();
        // The processor clock need not be read again for a short time.
        let is_short = passed.as_micros() <= MAX_SHORT.into();
        let used = if is_short { passed } else { cpu_time().saturating_sub(cpu_start) };
        self.was_long = long_steps::is_long(used, self.ticks.count() - ticks);
        self.used += used;
        if output.is_ready() {
            self.is_recorded = true;
            self.add(Run::Completed);
        }
        output
    }
}

/// Returns the processor time of this thread: wall-clock time depends on how busy the
/// machine is.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

impl<F> Drop for RecordedRun<F> {
    fn drop(&mut self) {
        // A run that was never polled is not evidence about its target.
        if !self.is_recorded && self.used > Duration::ZERO {
            self.add(Run::Unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLLOWING, RecordedRun, Run, SLOTS, SlowTargets, Target, Ticks, cpu_time};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    const FAST: Duration = Duration::from_micros(20);
    const SLOW: Duration = Duration::from_millis(5);

    fn spin() {
        let start = cpu_time();
        while cpu_time().saturating_sub(start) < SLOW {}
    }

    fn target(number: u64) -> Target {
        // Each target has its own slot.
        Target(number << 32 | number)
    }

    #[test]
    fn a_slow_target_starts_in_the_pool_and_a_fast_one_inline() {
        let targets = SlowTargets::new();
        let fast = target(2);
        let slow = target(4);
        targets.record(fast, FAST, Run::Completed);
        targets.record(slow, SLOW, Run::Completed);
        for _ in 0..2 * FOLLOWING {
            assert!(targets.is_slow(slow));
            assert!(!targets.is_slow(fast));
        }
    }

    #[test]
    fn a_target_that_is_fast_again_starts_inline_again() {
        let targets = SlowTargets::new();
        targets.record(target(2), SLOW, Run::Completed);
        for _ in 0..32 {
            targets.record(target(2), FAST, Run::Completed);
        }
        assert!(!targets.is_slow(target(2)));
    }

    #[test]
    fn cancelled_runs_add_up() {
        let targets = SlowTargets::new();
        for _ in 0..20 {
            targets.record(target(2), FAST, Run::Unfinished);
        }
        assert!(targets.is_slow(target(2)));
    }

    #[test]
    fn slow_targets_without_an_entry_move_others_without_one_to_the_pool() {
        let targets = SlowTargets::new();
        let elsewhere = |from: u64| (from..from + 100).filter(|n| targets.is_slow(target(*n)));
        assert_eq!(elsewhere(100).count(), 0);
        targets.record(target(2), SLOW, Run::Completed);
        assert_eq!(elsewhere(100).count(), FOLLOWING as usize);
        assert_eq!(elsewhere(100).count(), 0);
        targets.record(target(2), SLOW, Run::Completed);
        assert_eq!(elsewhere(100).count(), 0, "it is known to be slow");
    }

    #[test]
    fn fast_targets_replace_a_slow_one_only_after_many_collisions() {
        let targets = SlowTargets::new();
        let colliding = |number: u64| Target(number << 33 | 2);
        targets.record(target(2), SLOW, Run::Completed);
        for number in 2..12 {
            targets.record(colliding(number), FAST, Run::Completed);
        }
        assert!(targets.is_slow(target(2)));
        for number in 12..100 {
            targets.record(colliding(number), FAST, Run::Completed);
        }
        let (tag, _) = super::parts(targets.slots[2 % SLOTS].load(super::Relaxed));
        assert_ne!(tag, target(2).tag());
    }

    /// On a busy machine, threads of a lower priority are the last to run.
    #[test]
    fn a_run_that_waits_for_a_processor_is_not_slow() {
        let targets = Arc::new(SlowTargets::new());
        let mut run = Box::pin(RecordedRun::new(
            &targets,
            Some(target(2)),
            &Ticks::default(),
            Box::pin(async {
                std::thread::sleep(SLOW);
            }),
        ));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(!targets.is_slow(target(2)));
    }

    #[test]
    fn a_poll_that_ticks_did_not_interrupt_is_long() {
        let targets = Arc::new(SlowTargets::new());
        let ticks = Ticks::default();
        let work = async {
            for _ in 0..5 {
                spin();
                ticks.add();
            }
            tokio::task::yield_now().await;
        };
        let mut run = Box::pin(RecordedRun::new(&targets, None, &ticks, Box::pin(work)));
        for is_long in [true, false] {
            _ = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(run.was_long(), is_long);
        }
    }

    #[test]
    fn a_dropped_run_is_recorded_only_if_it_started() {
        let targets = Arc::new(SlowTargets::new());
        let run = async {
            spin();
            std::future::pending::<()>().await;
        };
        let ticks = Ticks::default();
        drop(RecordedRun::new(&targets, Some(target(2)), &ticks, Box::pin(async { spin() })));
        assert!(!targets.is_slow(target(2)));
        let mut cancelled =
            Box::pin(RecordedRun::new(&targets, Some(target(4)), &ticks, Box::pin(run)));
        let polled = cancelled.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Pending);
        drop(cancelled);
        assert!(targets.is_slow(target(4)));
    }
}
