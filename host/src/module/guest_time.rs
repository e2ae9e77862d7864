//! The processor time that a guest has used, and its turns on the processors.
//!
//! `limits.time` is processor time: how long a guest waits for a processor says how
//! busy the machine is, not what the module does. The time in which a guest waits for
//! anything else, as one with WASI can, is its own. A guest that is done within its
//! first tick pays nothing for that. From then on the clock of its thread is read
//! around each poll.
//!
//! Of the guests that run long, as many go on at once as there are processors, the
//! one that has waited for longest first. If all of them took turns at each tick,
//! all would take as long as the last one, and where time is short, none would end.

use std::fs;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::sleep_until;

use super::call::CallError;
use super::epoch_ticker::TICK;

/// A guest that has used this much needs a turn to go on. Those that need little
/// more than a tick do not wait for those that need much.
const BEFORE_TURNS: Duration = TICK.saturating_mul(4);

/// After this much of its turn, a guest lets the next one have it, if there is one.
const TURN: Duration = TICK.saturating_mul(50);

/// What a guest may use and has used.
pub(super) struct GuestTime {
    limit: Duration,
    began: Instant,
    /// The turns of guests that run long; none where a thread has one guest.
    turns: Option<Arc<Semaphore>>,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    /// In all polls that have ended, and in this turn.
    total: Duration,
    in_turn: Duration,
    turn: Option<OwnedSemaphorePermit>,
    poll: Option<Measured>,
    /// Whether the next poll is measured.
    is_measured: bool,
    /// Whether the guest waits because it gives way to others.
    gives_way: bool,
    /// Since when it has been waiting for something else.
    idle: Option<Instant>,
}

/// A poll of the guest that goes on: its thread, and that thread's time when it began.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Measured {
    thread: i32,
    began: Duration,
}

/// A guest whose polls are measured.
pub(super) struct Metered<F> {
    guest: Pin<Box<F>>,
    time: Arc<GuestTime>,
}

impl GuestTime {
    /// The time of a guest that begins now. Its first poll counts as one tick,
    /// unless it is to be measured as well.
    pub(super) fn start(
        limit: Duration,
        turns: Option<Arc<Semaphore>>,
        first_is_measured: bool,
    ) -> Arc<Self> {
        let used = Used { is_measured: first_is_measured, ..Used::default() };
        Arc::new(Self { limit, began: Instant::now(), turns, used: Mutex::new(used) })
    }

    pub(super) fn meter<F>(self: &Arc<Self>, guest: F) -> Metered<F> {
        Metered { guest: Box::pin(guest), time: Arc::clone(self) }
    }

    /// Whether the guest has used all of its time. To be called on its thread.
    pub(super) fn is_over(&self) -> bool {
        // It cannot have used more than has passed.
        self.began.elapsed() >= self.limit && {
            let used = self.used();
            used.total + used.in_poll(thread_time()) >= self.limit
        }
    }

    /// Lets others go on, and waits for a turn where the guest needs one.
    pub(super) async fn give_way(self: Arc<Self>) {
        self.used().gives_way = true;
        yield_now().await;
        self.wait_for_turn().await;
        self.used().gives_way = false;
    }

    async fn wait_for_turn(&self) {
        let Some(turns) = &self.turns else { return };
        let needs_turn = {
            let mut used = self.used();
            if used.in_turn >= TURN {
                used.turn = None;
            }
            used.turn.is_none() && used.total >= BEFORE_TURNS
        };
        if needs_turn {
            let turn = Arc::clone(turns).acquire_owned().await.ok();
            let mut used = self.used();
            (used.turn, used.in_turn) = (turn, Duration::ZERO);
        }
    }

    /// Waits until the guest has used its time, or until it has waited for a
    /// processor for longer than this besides. Says which.
    pub(super) async fn end(&self, wait: Duration) -> CallError {
        let last = self.began.checked_add(self.limit.saturating_add(wait));
        loop {
            let used = self.used_by_now();
            // The timer may be a tick late.
            let late = TICK.min(self.limit / 10);
            let left = self.limit.saturating_sub(used + late);
            if left.is_zero() {
                return CallError::Timeout(self.limit);
            }
            let now = Instant::now();
            if last.is_some_and(|last| now >= last) {
                // It has not waited to speak of.
                if used >= self.limit.saturating_sub(self.limit / 10) {
                    return CallError::Timeout(self.limit);
                }
                return CallError::Starved(now - self.began);
            }
            let next = now.checked_add(left.max(TICK)).unwrap_or(now);
            sleep_until(last.map_or(next, |last| next.min(last)).into()).await;
        }
    }

    /// The same from any thread.
    fn used_by_now(&self) -> Duration {
        let by_then = |used: &Used| (used.total + used.idle(), used.poll);
        let (total, poll) = by_then(&self.used());
        let Some(poll) = poll else { return total };
        // A guest gives way at each tick, but not while the host works for it.
        let time = time_of(poll.thread).saturating_sub(poll.began);
        match by_then(&self.used()) {
            (_, Some(same)) if same == poll => total + time,
            // The thread may run another guest by now.
            (total, _) => total,
        }
    }

    fn poll_begins(&self) {
        let mut used = self.used();
        let idle = used.idle();
        used.total += idle;
        used.idle = None;
        if used.is_measured {
            let thread = gettid().as_raw_nonzero().get();
            used.poll = Some(Measured { thread, began: thread_time() });
        }
    }

    fn poll_ends(&self) {
        let mut used = self.used();
        let time = if used.is_measured { used.in_poll(thread_time()) } else { TICK };
        used.total += time;
        used.in_turn += time;
        (used.poll, used.is_measured) = (None, true);
        used.idle = (!used.gives_way).then(Instant::now);
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn idle(&self) -> Duration {
        self.idle.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// What the poll has taken that goes on: a tick where that is not measured.
    fn in_poll(&self, now: Duration) -> Duration {
        self.poll.map_or(TICK, |poll| now.saturating_sub(poll.began))
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.time.poll_begins();
        let polled = self.guest.as_mut().poll(context);
        if polled.is_pending() {
            self.time.poll_ends();
        }
        polled
    }
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The processor time of a thread of this process. Zero where the system does not
/// tell: then the guest has what the host does for it.
fn time_of(thread: i32) -> Duration {
    let told = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let nanos = told.ok().and_then(|told| told.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{CallError, GuestTime, TICK, thread_time, time_of};
    use rustix::thread::gettid;
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    /// Uses the processor for so long.
    fn work(time: Duration) {
        let start = thread_time();
        while thread_time().saturating_sub(start) < time {
            std::hint::spin_loop();
        }
    }

    /// A guest that works for so many ticks, and gives way at each.
    async fn guest(time: Arc<GuestTime>, ticks: u32) {
        for _ in 0..ticks {
            work(TICK);
            Arc::clone(&time).give_way().await;
        }
    }

    #[tokio::test]
    async fn only_time_on_a_processor_counts() {
        let time = GuestTime::start(20 * TICK, None, false);
        let mut guest = time.meter({
            let time = Arc::clone(&time);
            async move {
                thread::sleep(40 * TICK);
                Arc::clone(&time).give_way().await;
                thread::sleep(40 * TICK);
                assert!(!time.is_over());
                work(20 * TICK);
                assert!(time.is_over());
            }
        });
        (&mut guest).await;
    }

    #[tokio::test]
    async fn a_first_poll_counts_as_a_tick_unless_it_is_measured() {
        for (is_measured, is_over) in [(false, false), (true, true)] {
            let time = GuestTime::start(5 * TICK, None, is_measured);
            let found = time.meter({
                let time = Arc::clone(&time);
                async move {
                    work(10 * TICK);
                    time.is_over()
                }
            });
            assert_eq!(found.await, is_over);
        }
    }

    #[test]
    fn the_time_of_a_thread_is_known_to_others() {
        let before = time_of(gettid().as_raw_nonzero().get());
        work(Duration::from_millis(100));
        let used = time_of(gettid().as_raw_nonzero().get()).saturating_sub(before);
        // The system counts when it schedules.
        assert!(used > Duration::from_millis(50), "{used:?}");
    }

    #[tokio::test]
    async fn a_guest_that_only_waits_is_starved_and_one_that_works_is_timed_out() {
        let time = GuestTime::start(TICK, None, false);
        thread::sleep(2 * TICK);
        let time = GuestTime { limit: 3 * TICK, ..Arc::into_inner(time).unwrap() };
        let error = time.end(Duration::ZERO).await;
        assert!(matches!(error, CallError::Starved(_)), "{error}");

        let time = GuestTime::start(5 * TICK, None, true);
        time.meter(guest(Arc::clone(&time), 6)).await;
        let error = time.end(Duration::from_hours(1)).await;
        assert!(matches!(error, CallError::Timeout(_)), "{error}");
    }

    #[tokio::test]
    async fn a_guest_that_waits_for_something_else_than_a_processor_is_timed_out() {
        let time = GuestTime::start(5 * TICK, None, false);
        let mut guest = time.meter(std::future::pending::<()>());
        let error = tokio::select! {
            biased;
            () = &mut guest => unreachable!("it does not end"),
            error = time.end(Duration::from_hours(1)) => error,
        };
        assert!(matches!(error, CallError::Timeout(_)), "{error}");
    }

    #[tokio::test]
    async fn guests_that_run_long_end_one_after_the_other_and_short_ones_do_not_wait() {
        let turns = Arc::new(Semaphore::new(1));
        let order = Mutex::new(Vec::new());
        let run = async |name, ticks| {
            let time = GuestTime::start(Duration::MAX, Some(Arc::clone(&turns)), true);
            time.meter(guest(Arc::clone(&time), ticks)).await;
            order.lock().unwrap().push(name);
        };
        tokio::join!(run("first", 30), run("second", 20), run("third", 10), run("short", 2));
        assert_eq!(order.into_inner().unwrap(), ["short", "first", "second", "third"]);
    }

    #[tokio::test]
    async fn a_guest_that_does_not_end_does_not_keep_the_others_waiting() {
        let turns = Arc::new(Semaphore::new(1));
        let run = async |ticks| {
            let time = GuestTime::start(Duration::MAX, Some(Arc::clone(&turns)), true);
            time.meter(guest(Arc::clone(&time), ticks)).await;
        };
        tokio::select! {
            biased;
            () = run(u32::MAX) => unreachable!("it does not end"),
            () = run(20) => {}
        }
    }
}
