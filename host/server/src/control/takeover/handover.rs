//! The side of the old process: hands its sockets over, and drains.

use std::io;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use relayer_rest_state::StateReader;
use tokio::net::UnixStream;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use super::channel::{Channel, ChannelError};
use super::message::{FromServer, FromSuccessor, MountOffer, Offer, PROTOCOL, Role, SocketOffer};
use super::sockets::ServingSockets;
use super::step;
use crate::control::MainProcess;
use crate::http::{ListenSocket, Listener};
use crate::registry::{MountPath, Registry};

/// The protocol in the header `upgrade`.
pub(in crate::control) const UPGRADE: &str = "relayer-rest-takeover";

/// The maximum time from the offer until the new process accepts connections.
const MAX_TAKEOVER_TIME: Duration = Duration::from_mins(5);

/// Hands the sockets of a server over to a new process. Cheap to clone.
#[derive(Clone)]
pub struct Handover(Arc<Shared>);

struct Shared {
    sockets: Mutex<ServingSockets>,
    is_passed: bool,
    watchdog: Option<Duration>,
    main_process: Option<MainProcess>,
    /// Admits one takeover at a time.
    lock: Arc<tokio::sync::Mutex<()>>,
    is_done: watch::Sender<bool>,
}

/// The reason why a takeover cannot begin, or was aborted.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// Another takeover is in progress.
    #[error("another takeover is in progress; wait for its end")]
    Busy,
    /// The server does not listen any more.
    #[error("the server is shutting down; start a server without --takeover after its end")]
    Draining,
    /// A module is deployed.
    #[error("mount {0}: a swap or reload is in progress; wait for its end")]
    Deploying(MountPath),
    /// The new process has another version of the protocol.
    #[error(
        "version {0} of the takeover protocol, and the running server has {PROTOCOL}; stop it, and start the new one without --takeover"
    )]
    Protocol(u32),
    /// The new process sent a message that is not expected.
    #[error("an unexpected message")]
    Unexpected,
    /// The new process is not ready in time.
    #[error("the new process was not ready within {MAX_TAKEOVER_TIME:?}")]
    Timeout,
    /// The connection is not one of the control socket, or it failed.
    #[error("the connection cannot be upgraded")]
    Upgrade,
    /// The new process has ended, or its messages are invalid.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The system refuses something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A takeover that has begun.
pub(in crate::control) struct Session {
    handover: Handover,
    registry: Arc<Registry>,
    state: StateReader,
    /// Keep other takeovers, and modules that the new process would not have, away.
    _locks: Vec<OwnedMutexGuard<()>>,
}

impl Handover {
    /// Creates the handover of these listeners.
    #[must_use]
    pub fn new(listeners: &[Listener]) -> Self {
        let mut sockets = ServingSockets::default();
        for listener in listeners {
            sockets.add(Role::Client, listener.socket());
        }
        Self(Arc::new(Shared {
            sockets: Mutex::new(sockets),
            is_passed: false,
            watchdog: None,
            main_process: None,
            lock: Arc::default(),
            is_done: watch::Sender::new(false),
        }))
    }

    /// Describes the service manager: whether the listeners come from it, and the timeout of
    /// its watchdog. `main_process` tells it the process that serves.
    ///
    /// # Panics
    /// Panics if the handover was cloned.
    #[must_use]
    pub fn with_service_manager(
        mut self,
        is_passed: bool,
        watchdog: Option<Duration>,
        main_process: MainProcess,
    ) -> Self {
        let shared = Arc::get_mut(&mut self.0).expect("it is configured before it is shared");
        shared.is_passed = is_passed;
        shared.watchdog = watchdog;
        shared.main_process = Some(main_process);
        self
    }

    /// Waits until the sockets are handed over: the server must drain then.
    pub async fn completed(&self) {
        // The sender is alive.
        self.0.is_done.subscribe().wait_for(|is_done| *is_done).await.ok();
    }

    pub(in crate::control) fn add(&self, role: Role, socket: &Arc<ListenSocket>) {
        self.sockets().add(role, socket);
    }

    /// Lets this process remove the files of all sockets at the end.
    pub(super) fn own_files(&self) {
        self.sockets().set_own(true);
    }

    /// Begins a takeover, unless something prevents it.
    pub(in crate::control) fn begin(
        &self,
        registry: &Arc<Registry>,
        state: &StateReader,
    ) -> Result<Session, HandoverError> {
        let lock = Arc::clone(&self.0.lock).try_lock_owned();
        let mut locks = vec![lock.map_err(|_| HandoverError::Busy)?];
        self.listening()?;
        for mount in registry.mounts().iter() {
            let lock = mount.try_lock_deployment();
            locks.push(lock.ok_or_else(|| HandoverError::Deploying(mount.path().clone()))?);
        }
        let handover = self.clone();
        Ok(Session { handover, registry: registry.clone(), state: state.clone(), _locks: locks })
    }

    fn sockets(&self) -> MutexGuard<'_, ServingSockets> {
        self.0.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all sockets while the server listens on them.
    fn listening(&self) -> Result<Vec<(Role, Arc<ListenSocket>)>, HandoverError> {
        let is_done = *self.0.is_done.borrow();
        self.sockets().all().filter(|_| !is_done).ok_or(HandoverError::Draining)
    }

    fn set_main_process(&self, id: u32) {
        if let Some(set) = &self.0.main_process {
            set(id);
        }
    }
}

impl Session {
    /// Hands the sockets over on a connection of the control socket, once it is upgraded.
    pub(in crate::control) async fn run(self, upgrade: OnUpgrade) {
        match self.upgraded(upgrade).await {
            Ok(process) => info!(process, "takeover finished"),
            Err(reason) => warn!(%reason, "takeover aborted"),
        }
    }

    async fn upgraded(&self, upgrade: OnUpgrade) -> Result<u32, HandoverError> {
        let upgraded = upgrade.await.map_err(|_| HandoverError::Upgrade)?;
        let parts = upgraded.downcast::<TokioIo<UnixStream>>();
        let parts = parts.map_err(|_| HandoverError::Upgrade)?;
        self.hand_over(Channel::new(parts.io.into_inner(), parts.read_buf)).await
    }

    /// Returns the id of the new process, to which the sockets belong then.
    pub(super) async fn hand_over(&self, mut channel: Channel) -> Result<u32, HandoverError> {
        let result = self.exchange(&mut channel).await;
        if let Err(error) = &result {
            // The new process may have ended.
            step(channel.send(&FromServer::Aborted(error.to_string()), &[])).await.ok();
        }
        result
    }

    async fn exchange(&self, channel: &mut Channel) -> Result<u32, HandoverError> {
        let process = channel.peer_id()?;
        let (hello, _) = step(channel.receive()).await?;
        let FromSuccessor::Hello { protocol, version } = hello else {
            return Err(HandoverError::Unexpected);
        };
        info!(process, version, "takeover started");
        if protocol != PROTOCOL {
            return Err(HandoverError::Protocol(protocol));
        }
        self.offer(channel).await?;
        let ready = timeout(MAX_TAKEOVER_TIME, channel.receive::<FromSuccessor>());
        let (ready, _) = ready.await.map_err(|_| HandoverError::Timeout)??;
        if ready != FromSuccessor::Ready {
            return Err(HandoverError::Unexpected);
        }
        // The server may have been stopped meanwhile.
        self.handover.listening()?;
        // The service manager must know the new process before this one ends, and the new
        // process owns the files from the message on.
        self.handover.set_main_process(process);
        self.handover.sockets().set_own(false);
        if let Err(error) = taken(channel).await {
            self.handover.set_main_process(process::id());
            self.handover.sockets().set_own(true);
            return Err(error);
        }
        self.handover.0.is_done.send_replace(true);
        Ok(process)
    }

    async fn offer(&self, channel: &mut Channel) -> Result<(), HandoverError> {
        let sockets = self.handover.listening()?;
        let describe = |(role, socket): &(Role, Arc<ListenSocket>)| SocketOffer::new(*role, socket);
        let watchdog = self.handover.0.watchdog;
        let offer = Offer {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sockets: sockets.iter().map(describe).collect::<io::Result<_>>()?,
            is_passed: self.handover.0.is_passed,
            watchdog: watchdog.and_then(|time| u64::try_from(time.as_micros()).ok()),
            is_ready: self.state.snapshot().status().value().is_ok(),
            mounts: MountOffer::of(self.registry.mounts().iter().map(|mount| &**mount)),
        };
        let descriptors: Vec<_> =
            sockets.iter().flat_map(|(_, socket)| socket.descriptors()).collect();
        Ok(step(channel.send(&FromServer::Offer(offer), &descriptors)).await?)
    }
}

/// Hands the sockets over. A new process that has ended meanwhile does not confirm that.
async fn taken(channel: &mut Channel) -> Result<(), HandoverError> {
    step(channel.send(&FromServer::HandedOver, &[])).await?;
    match step(channel.receive()).await? {
        (FromSuccessor::Taken, _) => Ok(()),
        _ => Err(HandoverError::Unexpected),
    }
}
