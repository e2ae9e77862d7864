//! The side of the new process: receives the sockets of a running server.

use std::time::Duration;

use bytes::Bytes;
use tokio::net::UnixStream;

use super::channel::{Channel, ChannelError};
use super::handover::Handover;
use super::message::{FromServer, FromSuccessor, MountOffer, Offer, PROTOCOL};
use super::sockets::{ReceivedSocket, SocketError};
use super::step;
use crate::control::{ControlClient, ControlClientError};

/// A takeover in progress: the running server serves until [`Takeover::confirm`], and goes on
/// if this is dropped before.
#[derive(Debug)]
pub struct Takeover {
    channel: Channel,
    /// The id of the running server's process.
    pub process: u32,
    /// The version of the running server.
    pub version: String,
    /// The sockets that it listens on.
    pub sockets: Vec<ReceivedSocket>,
    /// Whether those of clients come from the service manager, not from the settings.
    pub is_passed: bool,
    /// The timeout of the service manager's watchdog.
    pub watchdog: Option<Duration>,
    /// Whether it knows the state of the relayer.
    pub is_ready: bool,
    /// Its mounts.
    pub mounts: Vec<MountOffer>,
}

/// A takeover that failed. The running server goes on.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// No server is running, or it refuses the takeover.
    #[error(transparent)]
    Request(#[from] ControlClientError),
    /// The running server has aborted the takeover.
    #[error("the running server has aborted the takeover: {0}")]
    Aborted(String),
    /// The running server sent a message that is not expected.
    #[error("the running server sent an unexpected message; its log has more")]
    Unexpected,
    /// The number of descriptors is not that of the described sockets.
    #[error("{described} sockets are described, and {passed} descriptors were passed")]
    Count {
        /// The number of described sockets.
        described: usize,
        /// The number of passed descriptors.
        passed: usize,
    },
    /// A descriptor is not a socket of a server.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The running server has ended, or its messages are invalid.
    #[error("the connection to the running server: {0}; its log has more")]
    Channel(#[from] ChannelError),
}

impl Takeover {
    /// Requests the sockets of a running server.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if no server is running, if it refuses, or if its messages are invalid.
    pub async fn begin(client: &ControlClient) -> Result<Self, TakeoverError> {
        let (stream, received) = client.take_over().await?;
        Self::on(stream, received).await
    }

    pub(super) async fn on(stream: UnixStream, received: Bytes) -> Result<Self, TakeoverError> {
        let mut channel = Channel::new(stream, received);
        let process = channel.peer_id().map_err(ChannelError::from)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        // The server waits for this: descriptors that come with bytes of HTTP would be lost.
        step(channel.send(&FromSuccessor::Hello { protocol: PROTOCOL, version }, &[])).await?;
        let (offer, descriptors) = step(channel.receive()).await?;
        let offer = match offer {
            FromServer::Offer(offer) => offer,
            FromServer::Aborted(reason) => return Err(TakeoverError::Aborted(reason)),
            FromServer::HandedOver => return Err(TakeoverError::Unexpected),
        };
        let Offer { version, sockets, is_passed, watchdog, is_ready, mut mounts } = offer;
        MountOffer::limit(&mut mounts);
        let passed = descriptors.len();
        let described =
            sockets.iter().fold(0_usize, |sum, offer| sum.saturating_add(offer.count()));
        if described != passed {
            return Err(TakeoverError::Count { described, passed });
        }
        let mut descriptors = descriptors.into_iter();
        let sockets = sockets.into_iter().map(|offer| {
            let own = descriptors.by_ref().take(offer.count()).collect();
            offer.receive(own)
        });
        let sockets = sockets.collect::<Result<_, _>>()?;
        let watchdog = watchdog.map(Duration::from_micros);
        Ok(Self { channel, process, version, sockets, is_passed, watchdog, is_ready, mounts })
    }

    /// Waits until the running server aborts the takeover, or ends.
    pub async fn aborted(&mut self) -> TakeoverError {
        match self.channel.receive().await {
            Ok((FromServer::Aborted(reason), _)) => TakeoverError::Aborted(reason),
            Ok(_) => TakeoverError::Unexpected,
            Err(error) => error.into(),
        }
    }

    /// Confirms that this process accepts connections. The running server drains from then on,
    /// and this process owns the files of the sockets, which `handover` has.
    ///
    /// # Errors
    /// Returns an error if the running server goes on, or has ended.
    pub async fn confirm(mut self, handover: &Handover) -> Result<(), TakeoverError> {
        // If it has ended, the reason may be there to be received.
        step(self.channel.send(&FromSuccessor::Ready, &[])).await.ok();
        match step(self.channel.receive()).await? {
            (FromServer::HandedOver, _) => {}
            (FromServer::Aborted(reason), _) => return Err(TakeoverError::Aborted(reason)),
            (FromServer::Offer(_), _) => return Err(TakeoverError::Unexpected),
        }
        // If the running server does not receive this, it has ended, or goes on next to this one.
        step(self.channel.send(&FromSuccessor::Taken, &[])).await.ok();
        handover.own_files();
        Ok(())
    }
}
