//! The clients of a listener for control. Their number is limited: a further one replaces an idle
//! one, so that clients without a token cannot keep others away.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::debug;

/// The maximum number of clients; others wait if all of them have a request in progress.
const MAX_CLIENTS: usize = 16;

/// The clients of a listener. Their connections end when this is dropped.
pub(super) struct Clients {
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, Arc<ClientActivity>)>,
    common: Arc<Common>,
    min_idle: Duration,
}

/// The part that the activities of all clients have in common.
struct Common {
    start: Instant,
    /// Notified when a request has its response.
    idle: Notify,
}

/// The activity of a client.
pub(super) struct ClientActivity {
    common: Arc<Common>,
    /// The time of the connection or of its last response, in microseconds since the start.
    /// Reading nothing of a response is not an activity.
    idle_since: AtomicU64,
    is_busy: AtomicBool,
}

/// A request in progress.
pub(super) struct Busy<'a>(&'a ClientActivity);

impl Clients {
    /// Creates a list without clients. Only one that has been idle for `min_idle` is replaced.
    pub(super) fn new(min_idle: Duration) -> Self {
        let common = Common { start: Instant::now(), idle: Notify::new() };
        Self { tasks: JoinSet::new(), open: HashMap::new(), common: Arc::new(common), min_idle }
    }

    /// Returns whether a further client finds a place.
    pub(super) fn have_room(&self) -> bool {
        self.open.len() < MAX_CLIENTS || self.idlest().is_some()
    }

    /// Serves a client. If there is no free place, the idlest client loses its own.
    pub(super) fn add<F>(&mut self, serve: impl FnOnce(Arc<ClientActivity>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.open.len() >= MAX_CLIENTS
            && let Some(idlest) = self.idlest()
            && let Some((task, _)) = self.open.remove(&idlest)
        {
            debug!("idle connection for control closed for another");
            task.abort();
        }
        let activity = Arc::new(ClientActivity::new(Arc::clone(&self.common)));
        let task = self.tasks.spawn(serve(Arc::clone(&activity)));
        self.open.insert(task.id(), (task, activity));
    }

    /// Waits until a client leaves, or has the response to its request.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Some(left) = self.tasks.join_next_with_id() => {
                let id = left.map_or_else(|error| error.id(), |(id, ())| id);
                self.open.remove(&id);
            }
            () = self.common.idle.notified() => {}
            // Meanwhile, a client may have become idle for long enough.
            () = sleep(self.min_idle), if self.open.len() >= MAX_CLIENTS && !self.min_idle.is_zero() => {}
        }
    }

    /// Waits until all clients have left.
    pub(super) async fn all_ended(&mut self) {
        while !self.open.is_empty() {
            self.changed().await;
        }
    }

    fn idlest(&self) -> Option<Id> {
        let idle = self.open.iter().filter(|(_, (_, activity))| !activity.is_busy.load(Relaxed));
        let idlest = idle.min_by_key(|(_, (_, activity))| activity.idle_since.load(Relaxed));
        let (id, (_, activity)) = idlest?;
        let idle = self.common.now().saturating_sub(activity.idle_since.load(Relaxed));
        (Duration::from_micros(idle) >= self.min_idle).then_some(*id)
    }
}

impl ClientActivity {
    fn new(common: Arc<Common>) -> Self {
        let idle_since = AtomicU64::new(common.now());
        Self { common, idle_since, is_busy: AtomicBool::new(false) }
    }

    /// Records a request, which is in progress until the return value is dropped.
    pub(super) fn on_request(&self) -> Busy<'_> {
        self.is_busy.store(true, Relaxed);
        Busy(self)
    }
}

impl Common {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let Self(activity) = self;
        activity.idle_since.store(activity.common.now(), Relaxed);
        activity.is_busy.store(false, Relaxed);
        activity.common.idle.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::{Clients, MAX_CLIENTS};
    use std::future::pending;
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_further_client_takes_the_place_of_the_idlest_one() {
        let mut clients = Clients::new(Duration::from_secs(3));
        let (ended, mut ends) = mpsc::unbounded_channel();
        for number in 0..=MAX_CLIENTS {
            sleep(Duration::from_secs(1)).await;
            assert!(clients.have_room());
            let ended = ended.clone();
            clients.add(|activity| async move {
                // Sends its number when it is dropped.
                struct Ended(usize, mpsc::UnboundedSender<usize>);
                impl Drop for Ended {
                    fn drop(&mut self) {
                        self.1.send(self.0).ok();
                    }
                }
                let _ended = Ended(number, ended);
                // The first two and the last one have a request in progress.
                let _busy = (number < 2 || number == MAX_CLIENTS).then(|| activity.on_request());
                pending::<()>().await;
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(ends.recv().await, Some(2));
        while clients.open.len() > MAX_CLIENTS {
            clients.changed().await;
        }
        assert_eq!(clients.open.len(), MAX_CLIENTS);
    }

    #[tokio::test]
    async fn there_is_no_room_while_all_clients_have_a_request_in_progress() {
        let mut clients = Clients::new(Duration::ZERO);
        let (respond, responds) = mpsc::channel::<()>(1);
        let mut responds = Some(responds);
        for _ in 0..MAX_CLIENTS {
            assert!(clients.have_room());
            let mut responds = responds.take();
            clients.add(|activity| async move {
                let busy = activity.on_request();
                if let Some(responds) = &mut responds {
                    responds.recv().await;
                    drop(busy);
                }
                pending::<()>().await;
            });
        }
        while clients.have_room() {
            tokio::task::yield_now().await;
        }
        respond.send(()).await.unwrap();
        clients.changed().await;
        assert!(clients.have_room());
    }
}
