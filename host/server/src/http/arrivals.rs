//! The connections that wait for their header of the PROXY protocol.

use std::net::IpAddr;

use relayer_rest_common::log_rate::{LogRate, Permit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::connections::{Accepted, ConnectionTally, Peer};
use super::limits::HttpLimits;
use super::listener::Arrival;
use super::proxy_header::{self, ProxyHeaderError};

/// The maximum number of connections that wait for their header.
const MAX_WAITING: usize = 1024;

/// The maximum number of accepted connections that are not in that number yet.
const MAX_ACCEPTED: usize = 16;

/// The connections that wait for their header.
pub(super) struct Arrivals {
    limits: HttpLimits,
    accepted: mpsc::Receiver<Arrival>,
    waiting: JoinSet<Result<Accepted, HeaderError>>,
    tally: ConnectionTally,
    refusals: LogRate,
}

/// The reason why a connection to a listener with the PROXY protocol is closed.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error("{0} is not in http.trusted-proxies")]
    Untrusted(IpAddr),
    #[error("{MAX_WAITING} others wait for their header")]
    TooMany,
    #[error("the header was not received in time")]
    Timeout,
    #[error(transparent)]
    Header(#[from] ProxyHeaderError),
}

impl Arrivals {
    /// Returns the sender of connections that have a header.
    pub(super) fn new(limits: HttpLimits, tally: ConnectionTally) -> (mpsc::Sender<Arrival>, Self) {
        let (sender, accepted) = mpsc::channel(MAX_ACCEPTED);
        let refusals = LogRate::new(1);
        (sender, Self { limits, accepted, waiting: JoinSet::new(), tally, refusals })
    }

    /// Lets a connection wait for its header.
    fn add(&mut self, accepted: Accepted) {
        if let Some(address) = accepted.address.filter(|address| !self.limits.is_proxy(*address)) {
            self.refuse(&HeaderError::Untrusted(address));
        } else if self.waiting.len() >= MAX_WAITING {
            self.refuse(&HeaderError::TooMany);
        } else {
            let time = self.limits.idle;
            self.waiting.spawn(async move {
                timeout(time, with_client(accepted)).await.map_err(|_| HeaderError::Timeout)?
            });
        }
    }

    /// Waits for a connection whose header has been received. Returns `None` if none waits, and
    /// no further ones are accepted.
    pub(super) async fn next(&mut self) -> Option<Accepted> {
        loop {
            tokio::select! {
                Some(Arrival { accepted, .. }) = self.accepted.recv() => self.add(accepted),
                Some(ended) = self.waiting.join_next() => match ended {
                    Ok(Ok(accepted)) => return Some(accepted),
                    Ok(Err(error)) => self.refuse(&error),
                    Err(_) => {}
                },
                else => return None,
            }
        }
    }

    fn refuse(&mut self, error: &HeaderError) {
        self.tally.refused();
        if let Permit::Granted(before) = self.refusals.acquire(1) {
            warn!(before, %error, "connection to a listener with the PROXY protocol refused");
        }
    }
}

/// Reads the header, and returns the connection as one of the client in it.
async fn with_client(mut accepted: Accepted) -> Result<Accepted, HeaderError> {
    if let Some(client) = proxy_header::read(&mut accepted.socket).await? {
        accepted.peer = Peer::from(client);
        accepted.address = Some(client);
    }
    Ok(accepted)
}
