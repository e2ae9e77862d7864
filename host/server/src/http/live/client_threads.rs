//! The threads of the clients that wait, each with the groups of clients that it has still to wake.
//!
//! Thousands of clients may wait for an event, and sending it to one takes longer than a cached
//! response. So clients that ask now come first: a thread pauses between two groups, for the longer
//! the more of its time others took. No queue of events arises: a client that is woken gets the
//! newest version.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// The maximum number of clients that a thread wakes at once: sending an event to each takes
/// about a millisecond.
pub(super) const GROUP: usize = 64;

/// The shares of a thread's time for events: the least, although others may use all of it, and the
/// most, so that there are pauses in which the use by others is measured.
const MIN_SHARE: f64 = 0.05;
const MAX_SHARE: f64 = 0.95;

/// The part of a thread's time that others use at most: a thread that serves as many requests as
/// it can still waits for their clients at times.
const MAX_USED: f64 = 0.8;

/// The shortest pause: the timer of the runtime has no shorter one.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// The threads that have clients, by their runtimes.
#[derive(Default)]
pub(super) struct ClientThreads(HashMap<Id, Arc<ClientThread>>);

/// A thread that has clients.
pub(super) struct ClientThread {
    runtime: Handle,
    queue: Mutex<Queue>,
}

/// The clients that a thread has still to wake.
#[derive(Default)]
struct Queue {
    groups: VecDeque<Arc<Group>>,
    /// Whether a task of the thread wakes them.
    is_waking: bool,
    /// The part of the thread's time that others used in the last pauses, between 0 and 1.
    used: f64,
}

/// Some clients of a thread.
pub(super) struct Group {
    changed: watch::Sender<()>,
    is_queued: AtomicBool,
}

impl ClientThreads {
    /// Returns the thread of the caller, which is a task.
    pub(super) fn current(&mut self) -> &Arc<ClientThread> {
        let runtime = Handle::current();
        let id = runtime.id();
        if !self.0.contains_key(&id) {
            // The ones without clients may have ended.
            self.0.retain(|_, thread| Arc::strong_count(thread) > 1);
        }
        let new = || Arc::new(ClientThread { runtime, queue: Mutex::default() });
        self.0.entry(id).or_insert_with(new)
    }
}

impl ClientThread {
    /// Lets the thread wake these clients of its own: a thread that wakes a client of another
    /// thread interrupts that thread each time.
    pub(super) fn wake(self: &Arc<Self>, groups: Vec<Arc<Group>>) {
        let thread = Arc::clone(self);
        self.runtime.spawn(async move {
            if thread.enqueue(groups) {
                thread.wake_all().await;
            }
        });
    }

    /// Queues groups, and returns whether the caller must wake all that are queued.
    fn enqueue(&self, groups: Vec<Arc<Group>>) -> bool {
        let mut queue = self.queue();
        let is_new = |group: &Arc<Group>| !group.is_queued.swap(true, Ordering::AcqRel);
        queue.groups.extend(groups.into_iter().filter(is_new));
        !std::mem::replace(&mut queue.is_waking, true)
    }

    async fn wake_all(&self) {
        let mut owed = Duration::ZERO;
        while let Some((group, used)) = self.next() {
            let start = Instant::now();
            group.wake();
            yield_now().await;
            owed += pause(start.elapsed(), used);
            if owed >= MIN_PAUSE {
                owed = owed.saturating_sub(self.pause(owed).await);
            }
        }
    }

    /// Returns the next group, and the part of the thread's time that others use.
    fn next(&self) -> Option<(Arc<Group>, f64)> {
        let mut queue = self.queue();
        let next = queue.groups.pop_front();
        queue.is_waking = next.is_some();
        Some((next?, queue.used))
    }

    /// Pauses, measures how much of the time others use, and returns the time that it took.
    async fn pause(&self, time: Duration) -> Duration {
        let (start, busy) = (Instant::now(), self.busy());
        sleep(time).await;
        let (elapsed, busy) = (start.elapsed(), self.busy().saturating_sub(busy));
        let used = busy.as_secs_f64() / elapsed.as_secs_f64();
        let mut queue = self.queue();
        queue.used = f64::midpoint(queue.used, used.clamp(0.0, 1.0));
        elapsed
    }

    /// Returns the time for which the thread was busy since its start.
    fn busy(&self) -> Duration {
        self.runtime.metrics().worker_total_busy_duration(0)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the pause after events that took this time, if others use this part of a thread's time:
/// events get the rest.
fn pause(time: Duration, used: f64) -> Duration {
    let share = (1.0 - used / MAX_USED).clamp(MIN_SHARE, MAX_SHARE);
    time.mul_f64(1.0 / share - 1.0)
}

impl Group {
    /// Creates a group with its first client.
    pub(super) fn new() -> (Arc<Self>, watch::Receiver<()>) {
        let (changed, receiver) = watch::channel(());
        (Arc::new(Self { changed, is_queued: AtomicBool::new(false) }), receiver)
    }

    /// Adds a client, if there is room.
    pub(super) fn add(&self) -> Option<watch::Receiver<()>> {
        (self.changed.receiver_count() < GROUP).then(|| self.changed.subscribe())
    }

    pub(super) fn has_clients(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    fn wake(&self) {
        // A version that is published from now on queues the group again.
        self.is_queued.store(false, Ordering::Release);
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientThreads, Group, pause};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    #[test]
    fn events_get_the_time_that_others_leave() {
        let time = Duration::from_millis(90);
        for (used, millis) in [(0.0, 4), (0.04, 4), (0.2, 30), (0.4, 90), (0.8, 1710), (1.0, 1710)]
        {
            assert_eq!(pause(time, used).as_millis(), millis, "{used}");
        }
    }

    /// A publication while clients are still to be woken does not wake them twice.
    #[tokio::test]
    async fn a_group_is_queued_once() {
        let mut threads = ClientThreads::default();
        let thread = Arc::clone(threads.current());
        let (group, mut client) = Group::new();
        client.mark_unchanged();
        assert!(thread.enqueue(vec![Arc::clone(&group)]));
        assert!(!thread.enqueue(vec![Arc::clone(&group)]), "one task wakes all");
        assert_eq!(thread.queue().groups.len(), 1);
        thread.wake_all().await;
        assert!(client.has_changed().unwrap() && thread.queue().groups.is_empty());
        client.mark_unchanged();
        thread.wake(vec![group]);
        while !client.has_changed().unwrap() {
            yield_now().await;
        }
    }

    /// The busy time of a thread that only waits does not grow.
    #[tokio::test(start_paused = true)]
    async fn the_time_that_others_use_is_measured_in_pauses() {
        let mut threads = ClientThreads::default();
        let thread = Arc::clone(threads.current());
        thread.queue().used = 0.8;
        assert!(thread.pause(Duration::from_secs(10)).await >= Duration::from_secs(10));
        let used = thread.queue().used;
        assert!(used < 0.8, "{used}");
    }

    #[test]
    fn threads_without_clients_are_forgotten() {
        let mut threads = ClientThreads::default();
        let runtimes = [(); 4].map(|()| Builder::new_current_thread().build().unwrap());
        let mut current = |place: usize| {
            let _entered = runtimes[place].enter();
            Arc::clone(threads.current())
        };
        let stays = current(0);
        assert!(Arc::ptr_eq(&stays, &current(0)));
        for place in 1..4 {
            drop(current(place));
        }
        assert_eq!(threads.0.len(), 2, "the one with a client and the last one");
    }
}
