//! Accepts connections for the control API, and serves their requests.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use relayer_rest_state::StateReader;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::{debug, info, warn};

use super::api::ControlApi;
use super::clients::{ClientActivity, Clients};
use super::listener::{self, Listener, Policy, Stream};
use super::takeover::{Handover, Role};
use super::{AdminListener, ControlSocket, CurrentSettings, LogLevel, Reload};
use crate::capsules::Capsules;
use crate::http::{BasePath, ConnectionTally};
use crate::registry::Registry;

/// The time that a client has for the head of a request, and between two.
const MAX_HEAD_TIME: Duration = Duration::from_secs(10);

/// The time for which a connection of the owner must have been idle to be closed for another.
const MIN_IDLE: Duration = Duration::from_millis(250);

/// The maximum size of a request's head, in bytes: it may contain the path of a module's
/// file.
const MAX_HEAD_SIZE: usize = 64 << 10;

/// A server of the control API, on a control socket, the admin listener, or both.
pub struct ControlServer {
    api: ControlApi,
    listeners: Vec<(Role, Listener)>,
}

impl ControlServer {
    /// Creates a server that controls the mounts of the registry.
    #[must_use]
    pub fn new(registry: Arc<Registry>, state: StateReader) -> Self {
        Self { api: ControlApi::new(registry, state), listeners: Vec::new() }
    }

    /// Serves a control socket, if there is one.
    #[must_use]
    pub fn with_socket(mut self, socket: impl Into<Option<ControlSocket>>) -> Self {
        if let Some(socket) = socket.into() {
            info!(socket = %socket.path().display(), "control socket ready");
            self.listeners.push((Role::Control, Listener::of_owner(socket)));
        }
        self
    }

    /// Serves the listener of `[admin]`, if there is one.
    #[must_use]
    pub fn with_admin(mut self, admin: impl Into<Option<AdminListener>>) -> Self {
        if let Some(admin) = admin.into() {
            info!(address = %admin.address(), "admin listener ready");
            self.listeners.push((Role::Admin, admin.listener));
        }
        self
    }

    /// Includes the counts of connections in the status, and the shutdown in `/readyz`.
    #[must_use]
    pub fn with_connections(mut self, connections: ConnectionTally) -> Self {
        self.api.connections = Some(connections);
        self
    }

    /// Makes capsules of recent requests, and includes their counts in the metrics.
    #[must_use]
    pub fn with_capsules(mut self, capsules: Option<Arc<Capsules>>) -> Self {
        self.api.capsules = capsules;
        self
    }

    /// Sets the path that clients see before all others, for the description of the routes.
    #[must_use]
    pub fn with_base_path(mut self, path: BasePath) -> Self {
        self.api.base_path = path;
        self
    }

    /// Enables requests to reload the settings.
    #[must_use]
    pub fn with_reload(mut self, reload: Reload) -> Self {
        self.api.reload = Some(reload);
        self
    }

    /// Enables requests for the settings in effect.
    #[must_use]
    pub fn with_settings(mut self, settings: CurrentSettings) -> Self {
        self.api.settings = Some(settings);
        self
    }

    /// Enables requests for the level of the log.
    #[must_use]
    pub fn with_log_level(mut self, level: Arc<dyn LogLevel>) -> Self {
        self.api.log_level = Some(level);
        self
    }

    /// Enables takeovers, which pass the present listeners of this server, too.
    #[must_use]
    pub fn with_handover(mut self, handover: Handover) -> Self {
        for (role, listener) in &self.listeners {
            handover.add(*role, &listener.socket);
        }
        self.api.handover = Some(handover);
        self
    }

    /// Serves all listeners until the future is dropped; then a swap in progress is
    /// cancelled, and the files of sockets are removed. Completes if another process has taken
    /// over, once the clients that are connected have left.
    pub async fn serve(self) {
        let api = Arc::new(self.api);
        let listeners = self.listeners.into_iter();
        join_all(listeners.map(|(_, listener)| accept(listener, Arc::clone(&api)))).await;
    }
}

/// Accepts the connections of a listener, and serves them.
async fn accept(listener: Listener, api: Arc<ControlApi>) {
    // The tasks of clients do not own the socket, so that its file is removed with this future
    // although such a task may end later.
    let Listener { socket, policy } = listener;
    let policy = Arc::new(policy);
    // Requests of the owner wait for a place; they do not end one that may be about to begin.
    let min_idle = if policy.is_of_owner() { MIN_IDLE } else { Duration::ZERO };
    let mut clients = Clients::new(min_idle);
    let mut handed_over = pin!(api.handed_over());
    loop {
        tokio::select! {
            biased;
            // From then on, another process accepts.
            () = &mut handed_over => break,
            () = clients.changed() => {}
            accepted = listener::accept(&socket), if clients.have_room() => {
                let (policy, api) = (Arc::clone(&policy), Arc::clone(&api));
                match accepted {
                    Ok(Stream::Unix(stream)) => {
                        clients.add(|activity| serve(stream, policy, api, activity));
                    }
                    Ok(Stream::Tcp(stream)) => {
                        clients.add(|activity| serve(stream, policy, api, activity));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection for control; retrying");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        }
    }
    clients.all_ended().await;
}

async fn serve<S>(
    stream: S,
    policy: Arc<Policy>,
    api: Arc<ControlApi>,
    activity: Arc<ClientActivity>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        let policy = Arc::clone(&policy);
        let activity = Arc::clone(&activity);
        async move {
            let _busy = activity.on_request();
            Ok::<_, Infallible>(api.respond(request, &policy).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD_TIME)
        .max_buf_size(MAX_HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!(%error, "connection for control ended early");
    }
}
