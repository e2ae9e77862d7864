//! The connections that wait for their header of the PROXY protocol.

use std::net::IpAddr;

use relayer_rest_common::log_rate::{LogRate, Permit};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::connections::{Accepted, ConnectionTally, Peer};
use super::limits::HttpLimits;
use super::listener::Arrival;
use super::proxy_header::{self, ProxyHeaderError};

/// The maximum number of connections that wait for their header.
const MAX_WAITING: usize = 1024;

/// The connections that wait for their header.
pub(super) struct Arrivals {
    limits: HttpLimits,
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
    pub(super) fn new(limits: HttpLimits, tally: ConnectionTally) -> Self {
        Self { limits, waiting: JoinSet::new(), tally, refusals: LogRate::new(1) }
    }

    /// Returns the connection if it has no header, or else lets it wait.
    pub(super) fn add(&mut self, arrival: Arrival) -> Option<Accepted> {
        let Arrival { accepted, has_proxy_header } = arrival;
        if !has_proxy_header {
            return Some(accepted);
        }
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
        None
    }

    /// Returns whether connections wait for their header.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for a connection whose header has been received; if there is none, forever.
    pub(super) async fn next(&mut self) -> Accepted {
        loop {
            match self.waiting.join_next().await {
                Some(Ok(Ok(accepted))) => return accepted,
                Some(Ok(Err(error))) => self.refuse(&error),
                Some(Err(_)) => {}
                None => std::future::pending().await,
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
