//! The newest version of an entry, and the clients that wait for the next one.
//!
//! A thread that wakes a client of another thread interrupts that thread, and the evaluator has
//! a lower priority than the threads that it wakes. So it wakes each thread once, which then
//! wakes its own clients, in groups between which it serves other requests.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::yield_now;

use super::version::Version;

/// The sender of the versions of an entry.
pub(super) struct Broadcast {
    newest: Arc<ArcSwap<Newest>>,
    threads: Vec<Thread>,
}

/// The receiver of a client, on the thread of its connection.
pub(super) struct Subscriber {
    newest: Arc<ArcSwap<Newest>>,
    changed: watch::Receiver<()>,
    /// The sequence number of the version that was returned last.
    seen: Option<u64>,
}

struct Newest {
    version: Arc<Version>,
    /// The number of versions before it.
    sequence: u64,
}

/// The maximum number of clients that a thread wakes at once: sending an event to each takes
/// about half a millisecond.
const GROUP: usize = 64;

/// The clients of a thread.
struct Thread {
    id: Id,
    runtime: Handle,
    groups: Vec<Arc<watch::Sender<()>>>,
}

impl Broadcast {
    pub(super) fn new(version: Arc<Version>) -> Self {
        let newest = Arc::new(ArcSwap::from_pointee(Newest { version, sequence: 0 }));
        Self { newest, threads: Vec::new() }
    }

    /// Returns the newest version.
    pub(super) fn newest(&self) -> Arc<Version> {
        Arc::clone(&self.newest.load().version)
    }

    /// Publishes the next version.
    pub(super) fn publish(&mut self, version: Arc<Version>) {
        let sequence = self.newest.load().sequence + 1;
        self.newest.store(Arc::new(Newest { version, sequence }));
        for thread in &mut self.threads {
            thread.groups.retain(|group| group.receiver_count() > 0);
        }
        self.threads.retain(|thread| !thread.groups.is_empty());
        for Thread { runtime, groups, .. } in &self.threads {
            let groups = groups.clone();
            runtime.spawn(async move {
                for group in groups {
                    group.send_replace(());
                    yield_now().await;
                }
            });
        }
    }

    /// Adds a client on this thread, which gets the newest version first.
    pub(super) fn subscribe(&mut self) -> Subscriber {
        let runtime = Handle::current();
        let id = runtime.id();
        let place = self.threads.iter().position(|thread| thread.id == id);
        let place = place.unwrap_or_else(|| {
            self.threads.push(Thread { id, runtime, groups: Vec::new() });
            self.threads.len() - 1
        });
        let groups = &mut self.threads[place].groups;
        let last = groups.last().filter(|group| group.receiver_count() < GROUP);
        let changed = if let Some(group) = last {
            group.subscribe()
        } else {
            // Clients may come and go without a publication.
            groups.retain(|group| group.receiver_count() > 0);
            let (sender, receiver) = watch::channel(());
            groups.push(Arc::new(sender));
            receiver
        };
        Subscriber { newest: Arc::clone(&self.newest), changed, seen: None }
    }
}

impl Subscriber {
    /// Returns the newest version, whether it was returned before or not.
    pub(super) fn newest(&mut self) -> Arc<Version> {
        let newest = self.newest.load();
        self.seen = Some(newest.sequence);
        Arc::clone(&newest.version)
    }

    /// Waits for a version that was not returned before. May be cancelled.
    pub(super) async fn changed(&mut self) {
        // A version is stored before its clients are woken.
        while self.seen == Some(self.newest.load().sequence) {
            // The sender is dropped with the entry, after its last client.
            if self.changed.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Broadcast, GROUP};
    use crate::http::live::content::Content;
    use crate::http::live::version::{Body, Version};
    use std::sync::{Arc, Barrier, Mutex};
    use std::task::{Context, Wake, Waker};
    use std::thread::{self, ThreadId};
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    fn version(number: u64) -> Arc<Version> {
        let body = Body::new(number, Content::Moved, Vec::new(), None);
        Arc::new(Version { body, stale_since: None })
    }

    #[test]
    fn clients_of_all_threads_get_the_newest_version() {
        const LAST: u64 = 1_000;
        let subscribed = Arc::new(Barrier::new(4));
        let broadcast = Arc::new(Mutex::new(Broadcast::new(version(0))));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (subscribed, broadcast) = (Arc::clone(&subscribed), Arc::clone(&broadcast));
                thread::spawn(move || {
                    let runtime = Builder::new_current_thread().build().unwrap();
                    runtime.block_on(async {
                        let mut clients: Vec<_> =
                            (0..2 * GROUP).map(|_| broadcast.lock().unwrap().subscribe()).collect();
                        subscribed.wait();
                        for client in &mut clients {
                            let mut before = client.newest().body.number;
                            while before < LAST {
                                client.changed().await;
                                let now = client.newest().body.number;
                                assert!(now > before, "{now} after {before}");
                                before = now;
                            }
                        }
                    });
                })
            })
            .collect();
        subscribed.wait();
        for number in 1..=LAST {
            broadcast.lock().unwrap().publish(version(number));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(broadcast.lock().unwrap().newest().body.number, LAST);
        broadcast.lock().unwrap().publish(version(LAST + 1));
        assert!(broadcast.lock().unwrap().threads.is_empty());
    }

    #[tokio::test]
    async fn clients_that_come_and_go_without_a_publication_leave_no_memory() {
        let mut broadcast = Broadcast::new(version(0));
        let stays = broadcast.subscribe();
        for _ in 0..10 {
            drop((0..2 * GROUP).map(|_| broadcast.subscribe()).collect::<Vec<_>>());
        }
        assert!(broadcast.threads[0].groups.len() <= 3);
        drop(stays);
    }

    /// The threads that have woken clients.
    #[derive(Default)]
    struct Woken(Mutex<Vec<ThreadId>>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().push(thread::current().id());
        }
    }

    #[test]
    fn a_thread_wakes_its_own_clients_and_other_tasks_run_between_two_groups() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut broadcast = Broadcast::new(version(0));
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut clients: Vec<_> = runtime
            .block_on(async { (0..2 * GROUP).map(|_| broadcast.subscribe()).collect::<Vec<_>>() });
        let mut waiting = Vec::new();
        for client in &mut clients {
            client.newest();
            waiting.push(Box::pin(client.changed()));
        }
        for changed in &mut waiting {
            assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        thread::scope(|scope| drop(scope.spawn(|| broadcast.publish(version(1))).join()));
        let count = || woken.0.lock().unwrap().len();
        assert_eq!(count(), 0, "clients that another thread has woken");
        runtime.block_on(async {
            for groups in 1..=2 {
                while count() < groups * GROUP {
                    yield_now().await;
                }
                assert_eq!(count(), groups * GROUP, "clients that were woken at once");
            }
        });
        let own = thread::current().id();
        assert!(woken.0.lock().unwrap().iter().all(|thread| *thread == own));
    }
}
