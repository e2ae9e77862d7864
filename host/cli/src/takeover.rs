//! `serve --takeover`: receives the sockets of a running server, and warms the cache with its
//! hot requests before it takes its place.

use std::path::{PathBuf, absolute};
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_server::Listener;
use relayer_rest_server::config::{
    AdminAddress, AdminConfig, Config, ListenAddress, ListenConfig, Place,
};
use relayer_rest_server::control::takeover::{
    Handover, MountOffer, ReceivedSocket, Role, Takeover,
};
use relayer_rest_server::control::{AdminListener, ControlClient, default_path, running};
use relayer_rest_server::registry::{HotRequest, Mount, Registry, Warmth};
use relayer_rest_state::StateReader;
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::control;
use super::serve_error::ServeError;
use super::sockets::{Sockets, bind_one, configure, configure_one};

/// The maximum time until the state is known and the cache is warm.
const MAX_WARM_TIME: Duration = Duration::from_mins(1);

/// The maximum time until the module of the API follows the dialect of the relayer.
const MAX_DIALECT_TIME: Duration = Duration::from_secs(5);

/// The interval at which the state and the modules are checked.
const INTERVAL: Duration = Duration::from_millis(20);

/// A server that takes the place of a running one.
pub(super) struct Successor {
    takeover: Takeover,
    /// The sockets that the settings do not name. The running server may have clients there.
    unnamed: Vec<ReceivedSocket>,
}

impl Successor {
    /// Requests the sockets of the running server.
    pub(super) async fn begin(
        config: &Config,
        listen_configs: &[ListenConfig],
    ) -> Result<Self, ServeError> {
        let socket = control_socket(&config.control, &listen_configs[0].address).await?;
        let takeover = Takeover::begin(&ControlClient::new(&socket)).await?;
        let Takeover { process, version, sockets, .. } = &takeover;
        info!(process, version, sockets = sockets.len(), "takeover started");
        Ok(Self { takeover, unnamed: Vec::new() })
    }

    /// Returns the timeout of the service manager's watchdog, as the running server has it.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.takeover.watchdog
    }

    /// Returns the received sockets that the settings name, and opens the others of the
    /// settings.
    pub(super) async fn sockets(
        &mut self,
        config: &Config,
        listen_configs: &[ListenConfig],
    ) -> Result<Sockets, ServeError> {
        let is_passed = self.takeover.is_passed;
        let clients = self.received(Role::Client);
        let listeners = if is_passed {
            let listeners = clients.into_iter().map(ReceivedSocket::into_listener);
            configure(listeners.collect(), &config.listen.0)?
        } else {
            self.listeners(clients, listen_configs).await?
        };
        let control = self.received(Role::Control).pop();
        let control = control.and_then(ReceivedSocket::into_control_socket);
        let admin = self.admin(&config.admin)?;
        for socket in &self.unnamed {
            let address = socket.address().map_err(ServeError::Start)?;
            warn!(%address, "socket is not in the settings; it will be closed");
        }
        Ok(Sockets { listeners, is_passed, control, admin })
    }

    /// Returns the listeners of the settings, in their order.
    async fn listeners(
        &mut self,
        mut received: Vec<ReceivedSocket>,
        configs: &[ListenConfig],
    ) -> Result<Vec<Listener>, ServeError> {
        let mut found: Vec<Option<ReceivedSocket>> = Vec::new();
        for config in configs {
            let addresses = addresses(&config.address).await;
            let is_named = |socket: &ReceivedSocket| {
                socket.address().is_ok_and(|address| addresses.contains(&address))
            };
            found.push(take(&mut received, is_named));
        }
        // Port 0 is any port of the address that no other section names.
        for (config, found) in configs.iter().zip(&mut found) {
            if let (None, ListenAddress::Tcp { port: 0, .. }) = (&found, &config.address) {
                let hosts: Vec<_> =
                    addresses(&config.address).await.iter().filter_map(host).collect();
                let has_host = |socket: &ReceivedSocket| {
                    let host = socket.address().ok().as_ref().and_then(host);
                    host.is_some_and(|host| hosts.contains(&host))
                };
                *found = take(&mut received, has_host);
            }
        }
        self.unnamed.append(&mut received);
        let mut listeners = Vec::new();
        for (config, found) in configs.iter().zip(found) {
            listeners.push(match found {
                Some(socket) => configure_one(socket.into_listener(), config)?,
                None => bind_one(config).await?,
            });
        }
        Ok(listeners)
    }

    fn admin(&mut self, admin: &AdminConfig) -> Result<Option<AdminListener>, ServeError> {
        let mut received = self.received(Role::Admin);
        let Some(listen) = &admin.listen else {
            self.unnamed.append(&mut received);
            return Ok(None);
        };
        let is_named = |socket: &ReceivedSocket| match (socket.address(), listen) {
            (Ok(ListenAddress::Unix(socket)), AdminAddress::Unix(path)) => {
                absolute(path).is_ok_and(|path| path == socket)
            }
            (Ok(socket), AdminAddress::Tcp(address)) => {
                let address = ListenAddress::from(*address);
                let is_of_host = host(&address) == host(&socket);
                address == socket
                    || (is_of_host && matches!(address, ListenAddress::Tcp { port: 0, .. }))
            }
            _ => false,
        };
        let found = take(&mut received, is_named);
        self.unnamed.append(&mut received);
        Ok(match found {
            Some(socket) => Some(socket.into_admin_listener(admin, listen.clone())?),
            None => AdminListener::bind(admin)?,
        })
    }

    /// Takes the received sockets with this role.
    fn received(&mut self, role: Role) -> Vec<ReceivedSocket> {
        self.takeover.sockets.extract_if(.., |socket| socket.role() == role).collect()
    }

    /// Waits until the state is known, and runs the hot requests of the running server.
    pub(super) async fn warm(
        &mut self,
        registry: &Registry,
        state: &StateReader,
        follows_dialect: bool,
    ) -> Result<(), ServeError> {
        let mounts = std::mem::take(&mut self.takeover.mounts);
        disabled(&mounts, registry)?;
        let is_ready = self.takeover.is_ready;
        tokio::select! {
            warmed = warm(&mounts, is_ready, registry, state, follows_dialect) => warmed,
            error = self.takeover.aborted() => Err(error.into()),
        }
    }

    /// Confirms that this server accepts connections: the sockets belong to it from then on.
    pub(super) async fn confirm(self, handover: &Handover) -> Result<(), ServeError> {
        let process = self.takeover.process;
        self.takeover.confirm(handover).await?;
        self.unnamed.into_iter().for_each(ReceivedSocket::close);
        info!(process, "takeover finished");
        Ok(())
    }
}

/// Returns the control socket of the server that listens on this address.
async fn control_socket(place: &Place, address: &ListenAddress) -> Result<PathBuf, ServeError> {
    match place {
        Place::At(path) => return Ok(path.clone()),
        Place::Disabled => return Err(ServeError::TakeoverWithoutControl),
        Place::Default => {}
    }
    let running = running().map_err(ServeError::Start)?;
    if matches!(address, ListenAddress::Tcp { port: 0, .. }) {
        let only = control::only(&running);
        return only.map_err(|failure| ServeError::WhichServer(failure.to_string()));
    }
    let paths: Vec<_> = addresses(address).await.iter().map(default_path).collect();
    let of_address = running.into_iter().find(|path| paths.contains(path));
    of_address.ok_or_else(|| ServeError::NothingToTakeOver { address: address.to_string() })
}

/// Returns the addresses to which an address of the settings leads.
async fn addresses(address: &ListenAddress) -> Vec<ListenAddress> {
    match address {
        ListenAddress::Tcp { host, port } => {
            let found = lookup_host((host.as_str(), *port)).await;
            found.map(|found| found.map(ListenAddress::from).collect()).unwrap_or_default()
        }
        ListenAddress::Unix(path) => absolute(path).map(ListenAddress::Unix).into_iter().collect(),
    }
}

fn host(address: &ListenAddress) -> Option<String> {
    match address {
        ListenAddress::Tcp { host, .. } => Some(host.clone()),
        ListenAddress::Unix(_) => None,
    }
}

/// Takes the first socket for which the condition holds.
fn take(
    sockets: &mut Vec<ReceivedSocket>,
    condition: impl FnMut(&ReceivedSocket) -> bool,
) -> Option<ReceivedSocket> {
    sockets.iter().position(condition).map(|place| sockets.remove(place))
}

async fn warm(
    offers: &[MountOffer],
    is_ready: bool,
    registry: &Registry,
    state: &StateReader,
    follows_dialect: bool,
) -> Result<(), ServeError> {
    let start = Instant::now();
    let end = start + MAX_WARM_TIME;
    let is_known = || state.snapshot().status().value().is_ok();
    while is_ready && !is_known() {
        if Instant::now() > end {
            return Err(ServeError::StateUnknown(MAX_WARM_TIME));
        }
        sleep(INTERVAL).await;
    }
    // The module of another dialect would have to be warmed again.
    while follows_dialect && Instant::now() < start + MAX_DIALECT_TIME {
        if differences(offers, registry).next().is_none() {
            break;
        }
        sleep(INTERVAL).await;
    }
    for (offer, module) in differences(offers, registry) {
        let MountOffer { mount, name, digest, .. } = offer;
        warn!(
            mount,
            running = format!("{name}@{}", digest.get(..12).unwrap_or(digest)),
            module,
            hint = "if the running one is wanted, write it to the file in the settings, or swap it in again",
            "module differs from that of the running server"
        );
    }
    let mounts =
        offers.iter().filter_map(|offer| Some((registry.at(&offer.mount)?, offer.hot_requests())));
    let mut cold: Vec<(Arc<Mount>, Vec<HotRequest>)> = mounts.collect();
    let requests = count(&cold);
    let mut failures = 0;
    loop {
        for (mount, requests) in &mut cold {
            let warmed = timeout_at(end, mount.warm(requests, state)).await.unwrap_or_default();
            failures += warmed.iter().filter(|warmth| **warmth == Warmth::Failed).count();
            let mut warmed = warmed.into_iter();
            requests.retain(|_| warmed.next().is_none_or(|warmth| warmth == Warmth::NotReady));
        }
        if count(&cold) == 0 || Instant::now() > end {
            break;
        }
        // Chains become known one after the other.
        sleep(INTERVAL).await;
    }
    info!(requests, failures, not_ready = count(&cold), "cache warmed");
    Ok(())
}

/// Returns an error if an extension that the running server serves is disabled here.
fn disabled(offers: &[MountOffer], registry: &Registry) -> Result<(), ServeError> {
    let reason = |offer: &MountOffer| registry.at(&offer.mount)?.reason_disabled();
    match offers.iter().find_map(reason) {
        Some(reason) => Err(ServeError::ExtensionLost { reason }),
        None => Ok(()),
    }
}

/// Returns the mounts whose module differs, with the module here.
fn differences<'a>(
    offers: &'a [MountOffer],
    registry: &'a Registry,
) -> impl Iterator<Item = (&'a MountOffer, String)> {
    offers.iter().filter_map(|offer| {
        let module = registry.at(&offer.mount)?.module()?;
        let differs = module.digest().to_string() != offer.digest;
        differs.then(|| (offer, format!("{}@{}", module.name(), module.digest().short())))
    })
}

fn count(requests: &[(Arc<Mount>, Vec<HotRequest>)]) -> usize {
    requests.iter().map(|(_, requests)| requests.len()).sum()
}
