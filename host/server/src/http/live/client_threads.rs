//! The threads of the clients that wait, each with the groups of clients that it has still to wake.
//!
//! Thousands of clients may wait for an event, and sending it to one takes longer than a cached
//! response. So clients that ask now come first: a thread pauses after each group, and the more of
//! its time other requests use, the longer is the pause. No queue of events arises: a client that
//! is woken gets the newest version.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use std::vec;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// The maximum number of clients that a thread wakes at once: sending an event to all of them
/// takes about a millisecond.
pub(super) const GROUP: usize = 64;

/// The time that sending an event to one client takes at most. A thread that took longer was
/// interrupted.
const MAX_COST: Duration = Duration::from_micros(100);

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
    /// The groups of each publication. They take turns, so that many clients of one entry do not
    /// delay the others.
    publications: VecDeque<vec::IntoIter<Arc<Group>>>,
    /// Whether a task of the thread wakes them.
    is_waking: bool,
    /// The part of the thread's time that others used in the last pauses, between 0 and 1.
    used: f64,
    /// The time of the next pause so far.
    owed: Duration,
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
            // Runtimes without clients may have ended.
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

    /// Lets the thread wake these clients without pauses.
    pub(super) fn wake_now(&self, groups: Vec<Arc<Group>>) {
        self.runtime.spawn(async move {
            for group in groups {
                group.wake();
                yield_now().await;
            }
        });
    }

    /// Lets the queued clients wait without end.
    #[cfg(test)]
    pub(super) fn delay(&self) {
        self.queue().is_waking = true;
    }

    /// Queues groups, and returns whether the caller must wake all queued ones.
    fn enqueue(&self, mut groups: Vec<Arc<Group>>) -> bool {
        let mut queue = self.queue();
        groups.retain(|group| !group.is_queued.swap(true, Ordering::AcqRel));
        queue.publications.push_back(groups.into_iter());
        !mem::replace(&mut queue.is_waking, true)
    }

    async fn wake_all(&self) {
        loop {
            let groups = self.queue().next();
            if groups.is_empty() {
                return;
            }
            let time = wake(&groups).await;
            // The rest of their work is not a use by others.
            yield_now().await;
            let owed = self.queue().owe(time);
            if owed >= MIN_PAUSE {
                self.pause(owed).await;
            }
        }
    }

    /// Pauses, and measures how much of the time others use.
    async fn pause(&self, time: Duration) {
        let (start, busy) = (Instant::now(), self.busy());
        sleep(time).await;
        let (elapsed, busy) = (start.elapsed(), self.busy().saturating_sub(busy));
        self.queue().paused(elapsed, busy);
    }

    /// Returns the time for which the thread was busy since its start.
    fn busy(&self) -> Duration {
        self.runtime.metrics().worker_total_busy_duration(0)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns the next groups, whose clients are woken at once. Without one, the next task that
    /// queues groups must wake them.
    fn next(&mut self) -> Vec<Arc<Group>> {
        let mut groups = Vec::new();
        let mut clients = 0;
        while clients < GROUP
            && let Some(mut publication) = self.publications.pop_front()
        {
            let Some(group) = publication.next() else { continue };
            clients += group.changed.receiver_count();
            groups.push(group);
            self.publications.push_back(publication);
        }
        self.is_waking = !groups.is_empty();
        groups
    }

    /// Records the time that events took, and returns the time of the next pause so far.
    fn owe(&mut self, time: Duration) -> Duration {
        // Events get the share that others leave.
        let share = (1.0 - self.used / MAX_USED).clamp(MIN_SHARE, MAX_SHARE);
        self.owed += time.mul_f64(1.0 / share - 1.0);
        self.owed
    }

    /// Records a pause, in which others used the thread for this time.
    fn paused(&mut self, elapsed: Duration, busy: Duration) {
        self.owed = self.owed.saturating_sub(elapsed);
        let used = busy.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        self.used = f64::midpoint(self.used, used.min(1.0));
    }
}

/// Wakes clients, and returns the time that their tasks took. A runtime runs its tasks in the order
/// in which they are woken: the one that notes the start, those of the clients, and the caller.
async fn wake(groups: &[Arc<Group>]) -> Duration {
    let start = tokio::spawn(async { Instant::now() });
    let clients = groups.iter().map(|group| group.wake()).sum();
    let mut is_woken = false;
    poll_fn(|context| {
        if mem::replace(&mut is_woken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    let end = Instant::now();
    let start = start.await.unwrap_or(end);
    end.saturating_duration_since(start).min(MAX_COST.saturating_mul(clients))
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

    /// Wakes the clients, and returns their number.
    fn wake(&self) -> u32 {
        // A version that is published from now on queues the group again.
        self.is_queued.swap(false, Ordering::AcqRel);
        self.changed.send_replace(());
        u32::try_from(self.changed.receiver_count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientThreads, GROUP, Group, MAX_COST, Queue, wake};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    #[test]
    fn events_get_the_time_that_others_leave() {
        let time = Duration::from_millis(90);
        for (used, millis) in [(0.0, 4), (0.04, 4), (0.2, 30), (0.4, 90), (0.8, 1710), (1.0, 1710)]
        {
            let mut queue = Queue { used, ..Queue::default() };
            let owed = queue.owe(time);
            assert_eq!(owed.as_millis(), millis, "{used}");
            queue.paused(owed, Duration::ZERO);
            assert!(queue.owed.is_zero() && queue.used <= used / 2.0);
        }
        let mut queue = Queue::default();
        queue.paused(Duration::ZERO, time);
        assert!(queue.used <= 0.5, "{}", queue.used);
    }

    #[test]
    fn entries_take_turns() {
        let mut threads = ClientThreads::default();
        let runtime = Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let thread = Arc::clone(threads.current());
        let new = |clients: usize| {
            let (group, first) = Group::new();
            let mut receivers = vec![first];
            receivers.extend((1..clients).map(|_| group.add().unwrap()));
            (group, receivers)
        };
        let (large, _receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| new(GROUP)).unzip();
        let (small, _receiver) = new(1);
        let (other, _other) = new(1);
        assert!(thread.enqueue(large.clone()));
        assert!(!thread.enqueue(vec![Arc::clone(&small)]), "one task wakes all");
        assert!(!thread.enqueue(vec![other.clone(), large[0].clone()]), "a group is queued once");
        let next = || thread.queue().next().iter().map(Arc::as_ptr).collect::<Vec<_>>();
        let pointers = |groups: &[&Arc<Group>]| {
            groups.iter().map(|group| Arc::as_ptr(group)).collect::<Vec<_>>()
        };
        assert_eq!(next(), pointers(&[&large[0]]));
        assert_eq!(next(), pointers(&[&small, &other, &large[1]]));
        assert_eq!(next(), pointers(&[&large[2]]));
        assert!(next().is_empty() && thread.enqueue(Vec::new()));
    }

    #[tokio::test]
    async fn queued_clients_are_woken() {
        let mut threads = ClientThreads::default();
        let thread = Arc::clone(threads.current());
        let (group, mut client) = Group::new();
        for _ in 0..3 {
            client.mark_unchanged();
            thread.wake(vec![Arc::clone(&group)]);
            while !client.has_changed().unwrap() {
                yield_now().await;
            }
        }
        client.mark_unchanged();
        thread.wake_now(vec![group]);
        while !client.has_changed().unwrap() {
            yield_now().await;
        }
    }

    /// Time in which the thread did not run is not the clients'.
    #[tokio::test]
    async fn the_time_of_events_is_that_of_the_tasks_of_clients() {
        let (group, mut client) = Group::new();
        client.mark_unchanged();
        let woken = tokio::spawn(async move {
            client.changed().await.unwrap();
            std::thread::sleep(Duration::from_millis(50));
        });
        yield_now().await;
        assert_eq!(wake(&[group]).await, MAX_COST);
        woken.await.unwrap();
    }

    #[tokio::test]
    async fn the_time_that_others_use_is_measured_in_pauses() {
        let mut threads = ClientThreads::default();
        let thread = Arc::clone(threads.current());
        let working = tokio::spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(20));
                yield_now().await;
            }
        });
        thread.pause(Duration::from_millis(100)).await;
        working.abort();
        let used = thread.queue().used;
        assert!(used > 0.0, "{used}");
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
