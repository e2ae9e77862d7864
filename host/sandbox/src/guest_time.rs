//! The processor time of guests, and their turns on the processors.
//!
//! `limits.time` is processor time: the time that a guest waits for a processor depends
//! on the load of the machine, not on the module. Time that a guest waits for anything
//! else, as a guest with WASI can, counts. The clock of its thread is read at the start of
//! each poll.
//!
//! A tick interrupts only a guest that has used enough of the processor since it last
//! yielded: a short one that a tick happens to meet, or that the system interrupted, would
//! lose its place to all others.
//!
//! As many long-running guests continue at once as there are processors, the one that has
//! waited longest first. If all of them took turns at each tick, all would take as long
//! as the last one, and with little time left, none would complete.

use std::fs;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::sleep_until;

use super::call_error::CallError;
use super::epoch_ticker::TICK;

/// The time that a guest may use between two yields on the thread of its socket: together
/// with a tick, this delays the other connections of the thread.
const STEP: Duration = TICK.checked_div(2).unwrap();

/// A guest that has used this much time needs a turn to continue. Guests that need little
/// more than a tick do not wait for long-running ones. On threads without sockets, this is
/// the time between two yields while there are more guests than threads.
const BEFORE_TURNS: Duration = TICK.saturating_mul(4);

/// After this much of its turn, a guest yields the turn to the next one, if there is one. On
/// threads without sockets, this is the time between two yields while each guest has a thread:
/// a yield wakes another thread, and a guest with 115 of them in 500 ms ended 0.8 ms later.
const TURN: Duration = TICK.saturating_mul(50);

/// The time limit of a guest, and the time that it has used.
pub(super) struct GuestTime {
    limit: Duration,
    began: Instant,
    /// The turns of long-running guests; [`None`] if the guest has a thread to itself.
    turns: Option<Arc<Semaphore>>,
    /// Locked by the thread of the guest, which may have a lower priority than others: it makes no
    /// system call meanwhile, after which it would wait for a processor.
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    /// The time of all polls that have ended and of all waits; `in_turn` has that of this
    /// turn's polls.
    total: Duration,
    in_turn: Duration,
    turn: Option<OwnedSemaphorePermit>,
    poll: Option<PollStart>,
    /// Whether the guest is on a thread without sockets.
    is_off_sockets: bool,
    /// Whether the guest is waiting because it yields to others.
    gives_way: bool,
    /// The start of its wait for anything but a processor.
    idle: Option<Instant>,
}

/// A poll in progress: its thread, and that thread's time when it began.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PollStart {
    thread: i32,
    began: Duration,
}

/// A guest whose polls are measured.
pub(super) struct Metered<F> {
    guest: Pin<Box<F>>,
    time: Arc<GuestTime>,
}

impl GuestTime {
    /// Starts the time of a guest.
    pub(super) fn start(limit: Duration, turns: Option<Arc<Semaphore>>) -> Arc<Self> {
        Arc::new(Self { limit, began: Instant::now(), turns, used: Mutex::default() })
    }

    pub(super) fn meter<F>(self: &Arc<Self>, guest: F) -> Metered<F> {
        Metered { guest: Box::pin(guest), time: Arc::clone(self) }
    }

    /// Returns whether the guest has used all of its time. Must be called on its thread.
    pub(super) fn is_over(&self) -> bool {
        // The guest cannot have used more time than has passed.
        self.left_after(self.began.elapsed()).is_zero() && {
            let now = thread_time();
            let used = self.used();
            self.left_after(used.total + used.in_poll(now)).is_zero()
        }
    }

    /// Returns the time that is left after this much use, without the last tick: a timer may be
    /// that late, and a guest that yields instead of ending would have no location.
    fn left_after(&self, used: Duration) -> Duration {
        self.limit.saturating_sub(used + TICK.min(self.limit / 10))
    }

    /// Returns whether the guest waits for anything but a processor. Can be called on any thread.
    pub(super) fn is_idle(&self) -> bool {
        self.try_used().is_some_and(|used| used.idle.is_some())
    }

    /// Records that the guest continues on a thread without sockets.
    pub(super) fn leave_sockets(&self) {
        self.used().is_off_sockets = true;
    }

    /// Returns whether the guest must yield. Must be called on its thread.
    pub(super) fn must_yield(&self) -> bool {
        let (now, shares_threads) = (thread_time(), shares_threads());
        self.used().is_step_over(now, shares_threads)
    }

    /// Yields to other guests, and waits for a turn if the guest needs one.
    pub(super) async fn give_way(self: Arc<Self>) {
        self.used().gives_way = true;
        yield_now().await;
        self.wait_for_turn().await;
        self.used().gives_way = false;
    }

    async fn wait_for_turn(&self) {
        let Some(turns) = &self.turns else { return };
        let (ended, needs_turn) = {
            let mut used = self.used();
            let ended = if used.in_turn >= TURN { used.turn.take() } else { None };
            (ended, used.turn.is_none() && used.total >= BEFORE_TURNS)
        };
        // The next guest may have to be woken.
        drop(ended);
        if needs_turn {
            let turn = Arc::clone(turns).acquire_owned().await.ok();
            let mut used = self.used();
            (used.turn, used.in_turn) = (turn, Duration::ZERO);
        }
    }

    /// Waits until the guest has used its time, or until its [last](Self::last) time with this
    /// wait. Returns the error for that.
    pub(super) async fn end(&self, wait: Duration) -> CallError {
        let last = self.last(wait);
        loop {
            let used = self.used_by_now();
            let left = used.map_or(TICK, |used| self.left_after(used));
            if left.is_zero() {
                return CallError::Timeout(self.limit, None);
            }
            let now = Instant::now();
            if last.is_some_and(|last| now >= last) {
                // The guest has hardly waited for a processor.
                if used.is_some_and(|used| used >= self.limit.saturating_sub(self.limit / 10)) {
                    return CallError::Timeout(self.limit, None);
                }
                return CallError::Starved(now - self.began);
            }
            let next = now.checked_add(left.max(TICK)).unwrap_or(now);
            sleep_until(last.map_or(next, |last| next.min(last)).into()).await;
        }
    }

    /// Returns the time at which a guest that waits for a processor must end: when the limit and
    /// `wait` have passed, without the last tick of `wait`, or a tenth of a shorter one, because a
    /// timer may be that late.
    fn last(&self, wait: Duration) -> Option<Instant> {
        let wait = wait.saturating_sub(TICK.min(wait / 10));
        self.began.checked_add(self.limit.saturating_add(wait))
    }

    /// Returns the time that the guest has used by now; `None` while its thread changes it. Can be
    /// called on any thread.
    fn used_by_now(&self) -> Option<Duration> {
        let by_now = || self.try_used().map(|used| (used.total + used.idle(), used.poll));
        let (total, poll) = by_now()?;
        let Some(poll) = poll else { return Some(total) };
        // A guest may not yield for long, such as while the host works for it.
        let time = time_of(poll.thread).saturating_sub(poll.began);
        let (later, current) = by_now()?;
        // The thread may run another guest by now.
        Some(if current == Some(poll) { total + time } else { later })
    }

    fn poll_begins(&self) {
        let poll = PollStart { thread: thread_id(), began: thread_time() };
        let mut used = self.used();
        let idle = used.idle();
        used.total += idle;
        used.idle = None;
        used.poll = Some(poll);
    }

    fn poll_ends(&self) {
        let now = thread_time();
        let mut used = self.used();
        let time = used.in_poll(now);
        used.total += time;
        used.in_turn += time;
        used.poll = None;
        used.idle = (!used.gives_way).then(Instant::now);
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` instead of waiting for the thread of the guest, which may wait for a processor
    /// itself.
    fn try_used(&self) -> Option<MutexGuard<'_, Used>> {
        match self.used.try_lock() {
            Ok(used) => Some(used),
            Err(TryLockError::Poisoned(used)) => Some(used.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Used {
    fn idle(&self) -> Duration {
        self.idle.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns whether the poll in progress has taken so long that the guest must yield.
    fn is_step_over(&self, now: Duration, shares_threads: bool) -> bool {
        let step = if !self.is_off_sockets {
            STEP
        } else if shares_threads {
            BEFORE_TURNS
        } else {
            TURN
        };
        self.in_poll(now) >= step
    }

    /// Returns the time of the poll in progress.
    fn in_poll(&self, now: Duration) -> Duration {
        self.poll.map_or(Duration::ZERO, |poll| now.saturating_sub(poll.began))
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

/// Returns whether the runtime of this thread has more tasks than threads, or there is none.
fn shares_threads() -> bool {
    Handle::try_current().ok().is_none_or(|runtime| {
        let metrics = runtime.metrics();
        metrics.num_alive_tasks() > metrics.num_workers()
    })
}

/// Returns the system's number of this thread.
fn thread_id() -> i32 {
    thread_local!(static ID: i32 = gettid().as_raw_nonzero().get());
    ID.with(|id| *id)
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the processor time of a thread of this process. It is zero if the system does
/// not report it: a poll in progress then counts only when it ends.
fn time_of(thread: i32) -> Duration {
    let schedstat = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let nanos = schedstat.ok().and_then(|fields| fields.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{
        BEFORE_TURNS, CallError, GuestTime, PollStart, TICK, TURN, Used, shares_threads, thread_id,
        thread_time, time_of,
    };
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::sync::Semaphore;

    /// Uses the processor for this time.
    fn work(time: Duration) {
        let start = thread_time();
        while thread_time().saturating_sub(start) < time {
            std::hint::spin_loop();
        }
    }

    /// Works for `ticks` ticks, and yields at each.
    async fn guest(time: Arc<GuestTime>, ticks: u32) {
        for _ in 0..ticks {
            work(TICK);
            Arc::clone(&time).give_way().await;
        }
    }

    #[tokio::test]
    async fn only_time_on_a_processor_is_counted() {
        let time = GuestTime::start(20 * TICK, None);
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

    #[test]
    fn a_guest_yields_after_half_a_tick_and_off_sockets_later() {
        let began = Duration::from_secs(1);
        let mut used = Used { poll: Some(PollStart { thread: 1, began }), ..Used::default() };
        let short = Duration::from_nanos(1);
        let mut yields_from = |is_off_sockets, step: Duration, shares_threads| {
            used.is_off_sockets = is_off_sockets;
            assert!(!used.is_step_over(began + step.saturating_sub(short), shares_threads));
            assert!(used.is_step_over(began + step, shares_threads));
        };
        yields_from(false, TICK / 2, false);
        yields_from(true, BEFORE_TURNS, true);
        yields_from(true, TURN, false);
    }

    #[test]
    fn threads_are_shared_by_more_tasks_than_there_are_threads() {
        assert!(shares_threads(), "there is no runtime");
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let on_runtime = || runtime.block_on(runtime.spawn(async { shares_threads() })).unwrap();
        assert!(!on_runtime());
        let _other = runtime.spawn(std::future::pending::<()>());
        assert!(on_runtime());
    }

    #[test]
    fn the_time_of_a_thread_is_visible_to_others() {
        let before = time_of(thread_id());
        work(Duration::from_millis(100));
        let used = time_of(thread_id()).saturating_sub(before);
        // The system counts when it schedules.
        assert!(used > Duration::from_millis(50), "{used:?}");
    }

    #[tokio::test]
    async fn a_waiting_guest_is_starved_and_a_working_one_times_out() {
        let time = GuestTime::start(TICK, None);
        thread::sleep(2 * TICK);
        let time = GuestTime { limit: 3 * TICK, ..Arc::into_inner(time).unwrap() };
        let error = time.end(Duration::ZERO).await;
        assert!(matches!(error, CallError::Starved(_)), "{error}");

        let time = GuestTime::start(5 * TICK, None);
        time.meter(guest(Arc::clone(&time), 6)).await;
        let error = time.end(Duration::from_hours(1)).await;
        assert!(matches!(error, CallError::Timeout(..)), "{error}");
    }

    /// A thread of a lower priority can wait for a processor at any moment.
    #[tokio::test]
    async fn the_end_of_a_guest_does_not_wait_for_the_thread_of_the_guest() {
        let time = GuestTime::start(3 * TICK, None);
        let (locked, is_locked) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        thread::spawn({
            let time = Arc::clone(&time);
            move || {
                let _used = time.used();
                locked.send(()).unwrap();
                ended.recv()
            }
        });
        is_locked.recv().unwrap();
        let error = time.end(TICK).await;
        assert!(matches!(error, CallError::Starved(_)), "{error}");
        assert!(!time.is_idle());
        drop(end);
    }

    #[test]
    fn a_starved_guest_ends_a_tick_early_if_it_may_wait_for_long() {
        let time = GuestTime::start(5 * TICK, None);
        let last = |wait| time.last(wait).unwrap() - time.began;
        assert_eq!(last(Duration::ZERO), 5 * TICK);
        assert_eq!(last(TICK), 5 * TICK + TICK * 9 / 10);
        assert_eq!(last(50 * TICK), 54 * TICK);
        assert_eq!(time.last(Duration::MAX), None, "it ends with its limit only");
    }

    #[tokio::test]
    async fn a_guest_that_waits_for_no_processor_times_out() {
        let time = GuestTime::start(5 * TICK, None);
        let mut guest = time.meter(std::future::pending::<()>());
        let error = tokio::select! {
            biased;
            () = &mut guest => unreachable!("it does not end"),
            error = time.end(Duration::from_hours(1)) => error,
        };
        assert!(matches!(error, CallError::Timeout(..)), "{error}");
    }

    /// Counts a tick, and yields, `ticks` times.
    async fn counted_guest(time: Arc<GuestTime>, ticks: u32) {
        for _ in 0..ticks {
            {
                let mut used = time.used();
                used.total += TICK;
                used.in_turn += TICK;
            }
            Arc::clone(&time).give_way().await;
        }
    }

    #[tokio::test]
    async fn long_guests_end_in_turn_and_short_ones_do_not_wait() {
        let turns = Arc::new(Semaphore::new(1));
        let order = Mutex::new(Vec::new());
        let run = async |name, ticks| {
            let time = GuestTime::start(Duration::MAX, Some(Arc::clone(&turns)));
            counted_guest(time, ticks).await;
            order.lock().unwrap().push(name);
        };
        tokio::join!(run("first", 30), run("second", 20), run("third", 10), run("short", 2));
        assert_eq!(order.into_inner().unwrap(), ["short", "first", "second", "third"]);
    }

    #[tokio::test]
    async fn an_endless_guest_does_not_block_the_others() {
        let turns = Arc::new(Semaphore::new(1));
        let run = async |ticks| {
            let time = GuestTime::start(Duration::MAX, Some(Arc::clone(&turns)));
            counted_guest(time, ticks).await;
        };
        tokio::select! {
            biased;
            () = run(u32::MAX) => unreachable!("it does not end"),
            () = run(20) => {}
        }
    }
}
