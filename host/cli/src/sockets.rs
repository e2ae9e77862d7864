//! The sockets of a server: its listeners for clients, the control socket and the admin listener.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_server::Listener;
use relayer_rest_server::config::{Config, ListenAddress, ListenConfig};
use relayer_rest_server::control::{AdminListener, ControlSocket};
use relayer_rest_sources::Upstream;
use relayer_rest_sources::hermes_config::Rest;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::info;

use super::serve_error::ServeError;
use super::sources::{ReadAgain, Sources};
use super::{control, service_manager};

/// The sockets of a server.
pub(super) struct Sockets {
    pub(super) listeners: Vec<Listener>,
    /// Whether the listeners come from the service manager.
    pub(super) is_passed: bool,
    pub(super) control: Option<ControlSocket>,
    pub(super) admin: Option<AdminListener>,
}

impl Sockets {
    /// Opens the sockets of the settings, unless the service manager passes the listeners.
    pub(super) async fn open(
        config: &Config,
        listen_configs: &[ListenConfig],
        upstream: Option<&Upstream>,
    ) -> Result<Self, ServeError> {
        let passed = service_manager::listeners().map_err(ServeError::PassedSocket)?;
        let is_passed = !passed.is_empty();
        let listeners = if is_passed {
            info!(count = passed.len(), "listening on sockets of the service manager");
            configure(passed, &config.listen.0)?
        } else {
            // In use by the relayer, it could not be bound.
            check_upstream(listen_configs.iter().map(|config| &config.address), upstream)?;
            bind(listen_configs).await?
        };
        let address = listeners[0].address().map_err(ServeError::Start)?;
        let control = control::bind(&config.control, &address)?;
        Ok(Self { listeners, is_passed, control, admin: AdminListener::bind(&config.admin)? })
    }

    /// Returns the address of each listener, and whether it has TLS.
    pub(super) fn addresses(&self) -> io::Result<Vec<(ListenAddress, bool)>> {
        let listeners = self.listeners.iter();
        listeners.map(|listener| Ok((listener.address()?, listener.has_tls()))).collect()
    }

    /// Returns the functions that read the certificates again.
    pub(super) fn reload_certificates(&self) -> impl Iterator<Item = ReadAgain> {
        self.listeners.iter().filter_map(Listener::reload_tls).map(|reload| {
            let reload = move || reload().map_err(|error| error.to_string());
            Arc::new(reload) as ReadAgain
        })
    }
}

/// Returns the listeners of the settings, by default one at the address of the relayer's `[rest]`.
pub(super) fn listen_configs(config: &Config, sources: &Sources) -> Vec<ListenConfig> {
    let mut configs = config.listen.0.clone();
    if configs.is_empty() {
        let Rest { host, port, .. } = &sources.rest;
        configs.push(ListenAddress::Tcp { host: host.clone(), port: *port }.into());
    }
    configs
}

/// Returns an error if the relayer to poll has one of the addresses.
pub(super) fn check_upstream<'a>(
    mut addresses: impl Iterator<Item = &'a ListenAddress>,
    upstream: Option<&Upstream>,
) -> Result<(), ServeError> {
    let is_here =
        |address: &&ListenAddress| upstream.is_some_and(|upstream| address.is_of(&upstream.url));
    match addresses.find(is_here) {
        Some(address) => Err(ServeError::UpstreamIsHere { address: address.to_string() }),
        None => Ok(()),
    }
}

/// Listens on all addresses.
pub(super) async fn bind(configs: &[ListenConfig]) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    for config in configs {
        listeners.push(bind_one(config).await?);
    }
    Ok(listeners)
}

/// Listens on an address.
pub(super) async fn bind_one(config: &ListenConfig) -> Result<Listener, ServeError> {
    Listener::bind(config).await.map_err(|source| {
        let address = config.address.to_string();
        // A URL given instead of a host may contain a password.
        let address = if address.contains('@') { "the host".to_owned() } else { address };
        ServeError::Listen { address, source }
    })
}

/// Sets everything but the address of a section `[[listen]]` for a socket that another process
/// has opened.
pub(super) fn configure_one(
    listener: Listener,
    config: &ListenConfig,
) -> Result<Listener, ServeError> {
    listener.with_config(config).map_err(|source| {
        let address = config.address.to_string();
        ServeError::Listen { address, source }
    })
}

/// Sets everything but the address of the sections `[[listen]]` for passed sockets, in their
/// order.
pub(super) fn configure(
    passed: Vec<Listener>,
    configs: &[ListenConfig],
) -> Result<Vec<Listener>, ServeError> {
    let mut configs = configs.iter();
    let configured = passed.into_iter().map(|listener| match configs.next() {
        Some(config) => configure_one(listener, config),
        None => Ok(listener),
    });
    configured.collect()
}

/// Prints a line for each address on stdout, from which on clients can connect, and notifies the
/// service manager. Returns the task that prints.
pub(super) fn announce(
    addresses: &[(ListenAddress, bool)],
    watchdog: Option<Duration>,
) -> JoinHandle<()> {
    let lines = addresses.iter().map(|(address, has_tls)| {
        info!(%address, "listening");
        match address {
            ListenAddress::Tcp { .. } if *has_tls => format!("https://{address}\n"),
            ListenAddress::Tcp { .. } => format!("http://{address}\n"),
            ListenAddress::Unix(_) => format!("{address}\n"),
        }
    });
    let lines: String = lines.collect();
    let names: Vec<_> = addresses.iter().map(|(address, _)| address.to_string()).collect();
    service_manager::ready(&format!("listening on {}", names.join(", ")), watchdog);
    // A full pipe must not block the server, and a closed stdout is not an error.
    spawn_blocking(move || drop(io::stdout().write_all(lines.as_bytes())))
}
