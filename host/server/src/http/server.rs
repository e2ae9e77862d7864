//! The server, and graceful shutdown.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::Module;
use relayer_rest_state::StateReader;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::warn;

use super::acceptors::Acceptors;
use super::arrivals::Arrivals;
use super::connections::{ConnectionManager, ConnectionTally, Connections, Protocols, Roster};
use super::cors::{Cors, CorsConfig};
use super::exchange::{Observers, RequestObserver};
use super::forwarded::ForwardedClients;
use super::limits::{HttpLimits, ServerSettings};
use super::listener::Listener;
use super::live::{Live, LiveLimits};
use super::received_body::RequestBodies;
use super::send_admission::SendAdmission;
use super::service::Service;
use super::worker_threads::WorkerThreads;
use crate::capsules::Capsules;
use crate::commands::Commands;
use crate::openapi::OpenApiDocument;
use crate::registry::{Mount, Registry};

/// The interval of the clock, and of the checks for silent clients.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum wait for connections that are dropped at the end of the grace period.
const MAX_ABORT_TIME: Duration = Duration::from_secs(1);

/// A server of all mounts, on the current state.
pub struct Server {
    registry: Arc<Registry>,
    state: StateReader,
    commands: Option<Arc<Commands>>,
    limits: HttpLimits,
    settings: ServerSettings,
    tally: ConnectionTally,
    is_metered: bool,
    cors: CorsConfig,
    observers: Observers,
    capsules: Option<Arc<Capsules>>,
    live: LiveLimits,
}

impl Server {
    /// Creates a server of this module's API, on the state that the reader receives.
    #[must_use]
    pub fn new(module: Module, state: StateReader) -> Self {
        Self::with_registry(Arc::new(Registry::new(Mount::api(module))), state)
    }

    /// Creates a server of all mounts of the registry, on the state that the reader
    /// receives. Later changes of the registry take effect immediately. It caches responses for the
    /// state of one publisher, so that all servers of one registry need readers of the same one.
    #[must_use]
    pub fn with_registry(registry: Arc<Registry>, state: StateReader) -> Self {
        let tally = ConnectionTally::default();
        Self {
            registry,
            state,
            commands: None,
            limits: HttpLimits::default(),
            settings: ServerSettings::default(),
            tally,
            is_metered: false,
            cors: CorsConfig::default(),
            observers: Observers::default(),
            capsules: None,
            live: LiveLimits::default(),
        }
    }

    /// Sets the limits of connections and requests.
    #[must_use]
    pub fn with_limits(self, limits: HttpLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the limits of clients that wait for the next version of a response.
    #[must_use]
    pub fn with_live_limits(self, live: LiveLimits) -> Self {
        Self { live, ..self }
    }

    /// Sets the origins of web pages that may read responses. Default: none.
    #[must_use]
    pub fn with_cors(self, cors: CorsConfig) -> Self {
        Self { cors, ..self }
    }

    /// Sets the number of the server's threads, and the times of its shutdown.
    #[must_use]
    pub fn with_settings(self, settings: ServerSettings) -> Self {
        Self { settings, ..self }
    }

    /// Sets the time in which clients of open connections may send another request after a
    /// shutdown begins, whose response then ends the connection. It is part of the grace
    /// period. Default: 500 ms.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Sets the grace period of requests in flight after a shutdown begins. Default:
    /// 10 s.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Executes the commands that modules record. Default: they are rejected.
    #[must_use]
    pub fn with_commands(self, commands: Arc<Commands>) -> Self {
        Self { commands: Some(commands), ..self }
    }

    /// Adds observers of requests, such as an access log.
    #[must_use]
    pub fn with_observers(
        mut self,
        observers: impl IntoIterator<Item = Arc<dyn RequestObserver>>,
    ) -> Self {
        self.observers.extend(observers);
        self
    }

    /// Keeps capsules of failed requests. Default: none.
    #[must_use]
    pub fn with_capsules(self, capsules: impl Into<Option<Arc<Capsules>>>) -> Self {
        Self { capsules: capsules.into(), ..self }
    }

    /// Counts requests, with their times, for the metrics of a control server. Default: they
    /// are not counted.
    #[must_use]
    pub fn with_metrics(self) -> Self {
        Self { is_metered: true, ..self }
    }

    /// Returns the counters of the server's connections, for the status on a control
    /// socket.
    #[must_use]
    pub fn connections(&self) -> ConnectionTally {
        self.tally.clone()
    }

    /// Serves the connections of a listener; see [`Server::serve_all`].
    pub async fn serve(self, listener: impl Into<Listener>, shutdown: impl Future<Output = ()>) {
        self.serve_all(vec![listener.into()], shutdown).await;
    }

    /// Serves the connections of the listeners until `shutdown` completes. Connections are
    /// served by threads of the server, each with a runtime of its own, which accept those to a
    /// [`Listener::bind`]; the current runtime accepts those to other sockets. After `shutdown`, clients may send another request for a
    /// moment; then idle connections are closed, and requests in flight completed. Connections
    /// that are not done within the grace period are dropped.
    pub async fn serve_all(self, listeners: Vec<Listener>, shutdown: impl Future<Output = ()>) {
        let roster = Arc::new(Roster::new(self.tally.clone()));
        let admission =
            SendAdmission::new(self.tally.budget(), Arc::clone(&roster), self.limits.unsent);
        let limits = Arc::new(self.limits.clone());
        let live = Live::new(
            Arc::clone(&self.registry),
            self.state.clone(),
            self.live,
            self.tally.live().clone(),
        );
        let connections = Arc::new(Connections {
            service: Arc::new(Service {
                registry: self.registry,
                state: self.state,
                live,
                commands: self.commands,
                tally: self.tally.clone(),
                is_metered: self.is_metered,
                cors: Cors::new(self.cors),
                base_path: limits.base_path.clone(),
                openapi: OpenApiDocument::new(limits.base_path.as_str()),
                observers: self.observers,
                capsules: self.capsules,
            }),
            protocols: Arc::new(Protocols::new(&self.limits)),
            clients: Arc::new(ForwardedClients::new(Arc::clone(&limits))),
            limits,
            admission: Arc::new(admission),
            bodies: RequestBodies::new(),
        });
        let service = Arc::clone(&connections.service);
        let (with_header, mut arrivals) = Arrivals::new(self.limits.clone(), self.tally.clone());
        let workers = WorkerThreads::start(self.settings.worker_count());
        let tally = self.tally.clone();
        let open = ConnectionManager::new(self.limits, &connections, workers, roster, self.tally);
        let open = Arc::new(open);
        let mut acceptors = Acceptors::start(listeners, &open, with_header);
        let mut ticks = interval(TICK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                _ = ticks.tick() => open.tick(),
                Some(accepted) = arrivals.next() => open.add(accepted, None),
            }
        }
        tally.drain();
        acceptors.stop().await;
        // A request that is on its way to a connection that is closed would be lost.
        open.drain();
        let ServerSettings { drain, grace, .. } = self.settings;
        let drain = drain.min(grace);
        // The rest is for the last bytes.
        service.live.end(grace / 4 * 3);
        if timeout(drain, ended(&open, &mut arrivals)).await.is_ok() {
            return;
        }
        open.close_all();
        if timeout(grace.saturating_sub(drain), open.all_ended()).await.is_err() {
            let count = open.len();
            warn!(connections = count, ?grace, "connections dropped after the grace period");
            // Observers get their requests, unless a module does not return from a step.
            open.abort_all();
            timeout(MAX_ABORT_TIME, open.all_ended()).await.ok();
        }
    }
}

/// Waits until no more connections are accepted, and all have ended, including ones that wait for
/// their header.
async fn ended(open: &ConnectionManager, arrivals: &mut Arrivals) {
    while let Some(accepted) = arrivals.next().await {
        open.add(accepted, None);
    }
    open.all_ended().await;
}
