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

/// The processor time of a run, in microseconds, above which its target is slow.
const SLOW: u32 = 600;

/// The time below which a slow target is fast again. If the two were equal, the runs of a target
/// that takes this time would start on both kinds of threads in turn, and the ones on the lower
/// priority would wait for the others.
const FAST: u32 = 300;

/// The number of runs of targets without an entry that start on other threads after a
/// target turned out to be slow: clients can invent paths.
const FOLLOWING: u32 = 64;

const SLOTS: usize = 256;

/// The run times of the targets of an engine's modules.
pub(super) struct SlowTargets {
    /// An [`Entry`] each.
    slots: [AtomicU64; SLOTS],
    following: AtomicU32,
    hasher: RandomState,
}

/// The time of a target. As a number, the upper half is the tag, and the highest bit of the
/// lower half tells whether the target is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u32,
    is_slow: bool,
    /// In microseconds.
    time: u32,
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

/// A poll of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) used: Duration,
    pub(super) is_long: bool,
}

/// A run whose time is recorded when it completes or is dropped.
pub(super) struct RecordedRun<F> {
    run: F,
    used: Duration,
    is_recorded: bool,
    last: Step,
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
        let entry = Entry::of(self.slot(target).load(Relaxed));
        if entry.tag == target.tag() {
            return entry.is_slow;
        }
        self.following.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn record(&self, target: Target, used: Duration, run: Run) {
        let used = u32::try_from(used.as_micros()).unwrap_or(u32::MAX);
        let mut was_slow = false;
        let update = |slot| {
            let entry = Entry::of(slot);
            let is_own = entry.tag == target.tag();
            was_slow = is_own && entry.is_slow;
            let next = if is_own {
                entry.after(combined(entry.time, used, run))
            } else if !entry.is_slow || used >= entry.time {
                Entry { tag: target.tag(), is_slow: false, time: 0 }.after(used)
            } else {
                entry.after(entry.time - entry.time / 8)
            };
            Some(next.number())
        };
        // The update has a result in each case.
        _ = self.slot(target).fetch_update(Relaxed, Relaxed, update);
        if used > SLOW && !was_slow {
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

impl Entry {
    const IS_SLOW: u32 = 1 << 31;

    fn of(slot: u64) -> Self {
        let tag = (slot >> 32) as u32;
        let low = u32::try_from(slot & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { tag, is_slow: low & Self::IS_SLOW != 0, time: low & !Self::IS_SLOW }
    }

    fn number(self) -> u64 {
        let is_slow = if self.is_slow { Self::IS_SLOW } else { 0 };
        u64::from(self.tag) << 32 | u64::from(is_slow | self.time)
    }

    /// Returns the entry with another time.
    fn after(self, time: u32) -> Self {
        let is_slow = time > SLOW || self.is_slow && time > FAST;
        Self { is_slow, time: time.min(!Self::IS_SLOW), ..self }
    }
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
            last: Step::default(),
            ticks: ticks.clone(),
            target,
            targets: Arc::clone(targets),
        }
    }

    pub(super) fn last_step(&self) -> Step {
        self.last
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
        let is_short = passed.as_micros() <= FAST.into();
        let used = if is_short { passed } else { cpu_time().saturating_sub(cpu_start) };
        self.last = Step { used, is_long: long_steps::is_long(used, self.ticks.count() - ticks) };
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
    use super::{Entry, FOLLOWING, RecordedRun, Run, SLOTS, SlowTargets, Target, Ticks, cpu_time};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(5);

    fn spin() {
        let start = cpu_time();
        while cpu_time().saturating_sub(start) < LONG {}
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
        targets.record(fast, SHORT, Run::Completed);
        targets.record(slow, LONG, Run::Completed);
        for _ in 0..2 * FOLLOWING {
            assert!(targets.is_slow(slow));
            assert!(!targets.is_slow(fast));
        }
    }

    #[test]
    fn a_target_that_is_fast_again_starts_inline_again() {
        let targets = SlowTargets::new();
        targets.record(target(2), LONG, Run::Completed);
        for _ in 0..32 {
            targets.record(target(2), SHORT, Run::Completed);
        }
        assert!(!targets.is_slow(target(2)));
    }

    /// The runs of `/state` with 700 workers take about 300 µs.
    #[test]
    fn a_target_whose_time_varies_does_not_start_here_and_there_in_turn() {
        let targets = SlowTargets::new();
        let starts = |micros: [u64; 2]| {
            let runs = micros.into_iter().cycle().take(200);
            let starts = runs.map(|time| {
                targets.record(target(2), Duration::from_micros(time), Run::Completed);
                targets.is_slow(target(2))
            });
            starts.collect::<Vec<_>>()
        };
        assert!(starts([250, 350]).iter().all(|is_slow| !is_slow));
        // After a time that is certainly slow, it stays so until it is certainly fast.
        targets.record(target(2), LONG, Run::Completed);
        assert!(starts([350, 550]).iter().all(|is_slow| *is_slow));
        assert!(!starts([200, 250]).last().unwrap());
        assert!(starts([350, 550]).iter().all(|is_slow| !is_slow));
    }

    #[test]
    fn cancelled_runs_add_up() {
        let targets = SlowTargets::new();
        for _ in 0..40 {
            targets.record(target(2), SHORT, Run::Unfinished);
        }
        assert!(targets.is_slow(target(2)));
    }

    #[test]
    fn slow_targets_without_an_entry_move_others_without_one_to_the_pool() {
        let targets = SlowTargets::new();
        let elsewhere = |from: u64| (from..from + 100).filter(|n| targets.is_slow(target(*n)));
        assert_eq!(elsewhere(100).count(), 0);
        targets.record(target(2), LONG, Run::Completed);
        assert_eq!(elsewhere(100).count(), FOLLOWING as usize);
        assert_eq!(elsewhere(100).count(), 0);
        targets.record(target(2), LONG, Run::Completed);
        assert_eq!(elsewhere(100).count(), 0, "it is known to be slow");
    }

    #[test]
    fn fast_targets_replace_a_slow_one_only_after_many_collisions() {
        let targets = SlowTargets::new();
        let colliding = |number: u64| Target(number << 33 | 2);
        targets.record(target(2), LONG, Run::Completed);
        for number in 2..12 {
            targets.record(colliding(number), SHORT, Run::Completed);
        }
        assert!(targets.is_slow(target(2)));
        for number in 12..100 {
            targets.record(colliding(number), SHORT, Run::Completed);
        }
        let entry = Entry::of(targets.slots[2 % SLOTS].load(super::Relaxed));
        assert_ne!(entry.tag, target(2).tag());
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
                std::thread::sleep(LONG);
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
            assert_eq!(run.last_step().is_long, is_long);
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
