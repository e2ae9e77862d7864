//! The newest version of an entry, and the clients that wait for the next one.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::client_threads::{ClientThread, Group};
use super::content::Content;
use super::version::Version;

/// The sender of the versions of an entry.
pub(super) struct Broadcast {
    newest: Arc<ArcSwap<Newest>>,
    /// The groups of its clients, by their threads.
    threads: Vec<(Arc<ClientThread>, Vec<Arc<Group>>)>,
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
        self.threads.retain_mut(|(_, groups)| {
            groups.retain(|group| group.has_clients());
            !groups.is_empty()
        });
        let is_end = matches!(self.newest().content(), Content::Ended(_));
        for (thread, groups) in &self.threads {
            if is_end {
                thread.wake_now(groups.clone());
            } else {
                thread.wake(groups.clone());
            }
        }
    }

    /// Adds a client on this thread, which gets the newest version first.
    pub(super) fn subscribe(&mut self, thread: &Arc<ClientThread>) -> Subscriber {
        let place = self.threads.iter().position(|(known, _)| Arc::ptr_eq(known, thread));
        let place = place.unwrap_or_else(|| {
            self.threads.push((Arc::clone(thread), Vec::new()));
            self.threads.len() - 1
        });
        let groups = &mut self.threads[place].1;
        let changed = groups.last().and_then(|group| group.add()).unwrap_or_else(|| {
            // Clients may come and go without a publication.
            groups.retain(|group| group.has_clients());
            let (group, changed) = Group::new();
            groups.push(group);
            changed
        });
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
    use super::Broadcast;
    use crate::http::live::client_threads::{ClientThreads, GROUP};
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
                    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
                    runtime.block_on(async {
                        let mut threads = ClientThreads::default();
                        let mut subscribe =
                            |_| broadcast.lock().unwrap().subscribe(threads.current());
                        let mut clients: Vec<_> = (0..2 * GROUP).map(&mut subscribe).collect();
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
        let mut threads = ClientThreads::default();
        let stays = broadcast.subscribe(threads.current());
        for _ in 0..10 {
            let subscribe = |_| broadcast.subscribe(threads.current());
            drop((0..2 * GROUP).map(subscribe).collect::<Vec<_>>());
        }
        assert!(broadcast.threads[0].1.len() <= 3);
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
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let mut broadcast = Broadcast::new(version(0));
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut clients: Vec<_> = runtime.block_on(async {
            let mut threads = ClientThreads::default();
            (0..2 * GROUP).map(|_| broadcast.subscribe(threads.current())).collect()
        });
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
