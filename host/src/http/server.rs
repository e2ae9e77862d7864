//! Accepts connections, and ends when it is told to.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{self, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::warn;

use super::connection::{self, Connections};
use super::liveness::{Clock, Liveness};
use super::service::Service;
use crate::module::Module;
use crate::registry::{Mount, Registry};
use crate::state::StateReader;

/// The seconds that a client has for the head of a request, from when it may
/// send one.
const SILENCE: u32 = 10;

/// The seconds after which a client that takes nothing of its answer is given
/// up. The system takes some MB at a time: one that reads, if slowly, is not
/// seen to for a while.
const GONE: u32 = 12 * SILENCE;

/// How often it is looked after clients that are silent.
const LOOK: Duration = Duration::from_secs(1);

/// How long an HTTP/2 connection may be silent before it is asked whether
/// anybody is there, and how long the answer may take.
const HTTP2_SILENCE: Duration = Duration::from_secs(20);
const HTTP2_PONG: Duration = Duration::from_secs(10);

/// How long connections have to finish once the server is told to end, unless
/// a request may take longer.
const GRACE: Duration = Duration::from_secs(10);

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves what is mounted, on the present state.
pub struct Server {
    service: Arc<Service>,
    builder: Builder<TokioExecutor>,
    grace: Duration,
}

impl Server {
    /// A server of this module's API, on what is published to this reader.
    #[must_use]
    pub fn new(module: Module, state: StateReader) -> Self {
        Self::of(Arc::new(Registry::new(Mount::api(module))), state)
    }

    /// A server of all that is mounted, on what is published to this reader.
    /// What is exchanged in the registry is served from then on.
    ///
    /// A client has 10 s for the head of a request, and as long between two
    /// requests.
    #[must_use]
    pub fn of(registry: Arc<Registry>, state: StateReader) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_SILENCE)
            .keep_alive_timeout(HTTP2_PONG);
        let longest = registry.mounts().map(|mount| {
            let module = mount.module();
            module.limits().time + module.limits().queue_wait
        });
        let grace = GRACE.max(longest.max().unwrap_or_default());
        Self { service: Arc::new(Service::new(registry, state)), builder, grace }
    }

    /// Serves the listener's connections until `shutdown` completes. Idle
    /// connections are closed then, requests in flight are answered; what is
    /// not done in 10 s, or the time that a request may take where that is
    /// more, is dropped.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let connections = Connections { service: self.service, builder: self.builder };
        let mut open = Open::default();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = open.ended() => {}
                _ = looks.tick() => open.close_silent(),
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => open.add(stream, &connections),
                    Err(error) => pause(&error).await,
                },
            }
        }
        drop(listener);
        open.close_all();
        let finished = async {
            while !open.tasks.is_empty() {
                open.ended().await;
            }
        };
        if timeout(self.grace, finished).await.is_err() {
            let count = open.tasks.len();
            warn!("{count} connections are not done after {:?} and are dropped", self.grace);
        }
    }
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    clock: Clock,
    tasks: JoinSet<()>,
    livenesses: HashMap<task::Id, Arc<Liveness>>,
}

impl Open {
    fn add(&mut self, stream: TcpStream, connections: &Connections) {
        let liveness = Arc::new(Liveness::new(self.clock.clone()));
        let serve = connection::serve(stream, connections.clone(), Arc::clone(&liveness));
        let task = self.tasks.spawn(serve);
        self.livenesses.insert(task.id(), liveness);
    }

    /// Waits until one has ended; for ever where there is none.
    async fn ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        self.livenesses.remove(&id);
    }

    fn close_silent(&mut self) {
        self.clock.tick();
        for liveness in self.livenesses.values() {
            liveness.close_after(SILENCE, GONE);
        }
    }

    fn close_all(&self) {
        self.livenesses.values().for_each(|liveness| liveness.close());
    }
}

/// A connection that failed before it was accepted is its client's affair; for
/// any other failure the listener waits for things to get better.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        warn!(%error, "cannot accept a connection; trying again");
        sleep(ACCEPT_PAUSE).await;
    }
}
