//! The server: its modules, the state, and the control socket.

use std::env;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_host::Server;
use relayer_rest_host::commands::Commands;
use relayer_rest_host::config::{self, ConfigError, Layers, Origin, Place};
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::{AdminListener, ControlServer, ControlSocket, default_path};
use relayer_rest_host::module::CodeCache;
use relayer_rest_host::reload::{ModuleContext, Modules};
use relayer_rest_host::state::{Polling, StatePublisher};
use tracing::{error, warn};

use crate::channel::Channel;
use crate::error::SpawnError;

/// The pause between two requests for the state: with the relayer's own tick of 500 ms, it
/// gets one request in a second.
const POLL: Duration = Duration::from_millis(500);

/// The settings of the server.
pub(crate) struct Settings {
    /// The file with limits, extensions and the module of the API.
    pub(crate) file: Option<PathBuf>,
    /// Whether the environment names the file, and overrides its keys.
    pub(crate) reads_environment: bool,
    pub(crate) dialect: Option<Dialect>,
    /// The control socket, by default the one on which the commands of `relayer-rest` find a
    /// server with its address.
    pub(crate) control: Option<Place>,
    /// The folder for compiled modules, by default the one of `relayer-rest serve`.
    pub(crate) code_cache: Option<Place>,
    pub(crate) polling: Polling,
}

impl Default for Settings {
    fn default() -> Self {
        let polling = Polling { poll: POLL, ..Polling::default() };
        Self {
            file: None,
            reads_environment: false,
            dialect: None,
            control: None,
            code_cache: None,
            polling,
        }
    }
}

impl Settings {
    /// Returns the layers of the settings.
    fn layers(&self) -> Result<Layers, ConfigError> {
        let variables = self.reads_environment.then(env::vars_os).into_iter().flatten();
        let mut layers = Layers::with_environment(self.file.clone(), variables)?;
        if let Some(dialect) = self.dialect {
            layers.set(
                "module.dialect",
                &dialect.to_string(),
                Origin::Option("Builder::with_dialect"),
            )?;
        }
        Ok(layers)
    }
}

/// The sections and keys that have no effect inside the relayer.
const WITHOUT_EFFECT: [&str; 7] =
    ["fleet.from", "listen", "log.", "relayer.", "server.watch", "telemetry.", "upstream."];

/// Logs the settings that have no effect inside the relayer.
fn warn_of_ignored(settings: &config::Settings) {
    for (key, origin) in settings.given() {
        if WITHOUT_EFFECT.iter().any(|ignored| key.starts_with(ignored)) {
            warn!(key, %origin, "setting without effect inside the relayer ignored");
        }
    }
}

/// A server that is ready to accept connections.
pub(crate) struct Service {
    server: Server,
    listener: tokio::net::TcpListener,
    control: ControlServer,
}

impl Service {
    /// Reads the settings, loads the modules, and begins to ask the relayer.
    pub(crate) async fn start(
        settings: Settings,
        listener: TcpListener,
        channel: Channel,
    ) -> Result<Self, SpawnError> {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(SpawnError::Start)?;
        let address = listener.local_addr().map_err(SpawnError::Start)?;
        let layers = settings.layers()?;
        let effective = layers.read()?;
        warn_of_ignored(&effective);
        let config = effective.config.clone();
        let Settings { control, code_cache, polling, .. } = settings;
        let context = ModuleContext {
            layers,
            // This is the dialect of each relayer that has the channel.
            relayer_dialect: Some(Dialect::V1_13),
            code_cache: match code_cache.unwrap_or_else(|| config.code_cache.clone()) {
                Place::Disabled => None,
                Place::At(folder) => Some(CodeCache::open(&folder)?),
                Place::Default => CodeCache::from_env()?,
            },
            compiler: None,
            waits: false,
        };
        let commands = Commands::new(&config.commands, Some(Arc::new(channel.commands())))?;
        let commands = Arc::new(commands);
        let publisher = StatePublisher::new();
        let state = publisher.reader();
        let modules = Modules::load(context, effective, &state).await?;
        let modules = Arc::new(modules.with_commands(Arc::clone(&commands)));
        let server = Server::with_registry(Arc::clone(&modules.registry), state.clone())
            .with_limits(config.http.clone())
            .with_settings(config.server.clone())
            .with_cors(config.cors.clone())
            .with_commands(commands)
            .with_metrics();
        let socket = match control.unwrap_or_else(|| config.control.clone()) {
            Place::Disabled => None,
            Place::At(path) => Some(ControlSocket::bind(&path)?),
            Place::Default => ControlSocket::bind(&default_path(address))
                .inspect_err(|error| warn!(%error, "status, swap, rollback and reload unavailable"))
                .ok(),
        };
        #[cfg(feature = "fleet")]
        {
            let (settings, port) = (config.fleet.clone(), address.port());
            crate::fleet::publish(settings, port, &polling, &publisher, Arc::clone(&modules))
                .await?;
        }
        #[cfg(not(feature = "fleet"))]
        if config.fleet.publish_to.is_some() {
            return Err(SpawnError::NoFleets);
        }
        let control = ControlServer::new(Arc::clone(&modules.registry), state.clone())
            .with_connections(server.connections())
            .with_settings({
                let modules = Arc::clone(&modules);
                Arc::new(move || modules.settings())
            })
            .with_reload(Arc::new(move || {
                let modules = Arc::clone(&modules);
                let state = state.clone();
                Box::pin(async move {
                    let reloaded = modules.reload(&state).await;
                    reloaded.map_err(|error| error.to_string()).inspect_err(|error| {
                        error!(error, "reload rejected");
                    })
                })
            }))
            .with_socket(socket)
            .with_admin(AdminListener::bind(&config.admin)?);
        tokio::spawn(polling.run(channel, publisher));
        Ok(Self { server, listener, control })
    }

    /// Serves until `shutdown` completes.
    pub(crate) async fn serve(self, shutdown: impl Future<Output = ()>) {
        let control = tokio::spawn(self.control.serve());
        self.server.serve(self.listener, shutdown).await;
        // This also removes its socket.
        control.abort();
        control.await.ok();
    }
}
