//! The server: its modules, the state, and the control socket.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_host::Server;
use relayer_rest_host::commands::Commands;
use relayer_rest_host::config::Config;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::{AdminListener, ControlServer, ControlSocket, default_path};
use relayer_rest_host::module::CodeCache;
use relayer_rest_host::reload::{ModuleOverrides, Modules};
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
    pub(crate) dialect: Option<Dialect>,
    /// The control socket, by default the one on which the commands of `relayer-rest` find a
    /// server with its address.
    pub(crate) control: Place,
    /// The folder for compiled modules, by default the one of `relayer-rest serve`.
    pub(crate) code_cache: Place,
    pub(crate) polling: Polling,
}

impl Default for Settings {
    fn default() -> Self {
        let polling = Polling { poll: POLL, ..Polling::default() };
        let (control, code_cache) = (Place::Default, Place::Default);
        Self { file: None, dialect: None, control, code_cache, polling }
    }
}

/// The place of something that the server can do without.
pub(crate) enum Place {
    Default,
    At(PathBuf),
    Disabled,
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
        let Settings { file, dialect, control, code_cache, polling } = settings;
        let config = file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
        let overrides = ModuleOverrides {
            module: None,
            dialect,
            // This is the dialect of each relayer that has the channel.
            relayer_dialect: Some(Dialect::V1_13),
            config: file,
            code_cache: match code_cache {
                Place::Disabled => None,
                Place::At(folder) => Some(CodeCache::open(&folder)?),
                Place::Default => CodeCache::from_env()?,
            },
            compiler: None,
            watch: false,
        };
        let commands = Commands::new(&config.commands, Some(Arc::new(channel.commands())))?;
        let commands = Arc::new(commands);
        let modules = Modules::load(overrides, &config).await?;
        let modules = Arc::new(modules.with_commands(Arc::clone(&commands)));
        let publisher = StatePublisher::new();
        let state = publisher.reader();
        let server = Server::with_registry(Arc::clone(&modules.registry), state.clone())
            .with_limits(config.http.clone())
            .with_threads(config.server.clone())
            .with_cors(config.cors.clone())
            .with_commands(commands)
            .with_metrics();
        let socket = match control {
            Place::Disabled => None,
            Place::At(path) => Some(ControlSocket::bind(&path)?),
            Place::Default => ControlSocket::bind(&default_path(address))
                .inspect_err(|error| warn!(%error, "status, swap, rollback and reload unavailable"))
                .ok(),
        };
        let control = ControlServer::new(Arc::clone(&modules.registry), state.clone())
            .with_connections(server.connections())
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
