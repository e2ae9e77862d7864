//! The connections that are open: no more than there may be, and none that is
//! silent for too long.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tracing::warn;

use super::connection::{self, Connections};
use super::connection_tally::ConnectionTally;
use super::error::HostError;
use super::headless;
use super::limits::HttpLimits;
use super::liveness::{Clock, Liveness};
use crate::log_rate::{Allowed, LogRate};

/// Those that are refused and listened to for a while, and how long.
const MOST_LEAVING: usize = 32;
const LEAVE: Duration = Duration::from_secs(1);

pub(super) struct Open {
    limits: HttpLimits,
    connections: Connections,
    clock: Clock,
    tasks: JoinSet<()>,
    known: HashMap<Id, Known>,
    peers: HashMap<Peer, u32>,
    count: u64,
    tally: ConnectionTally,
    refusals: LogRate,
    /// Turns of those that are refused and still there.
    leaving: Arc<Semaphore>,
}

struct Known {
    liveness: Arc<Liveness>,
    peer: Peer,
    /// Those that came later have greater ones.
    number: u64,
}

/// Whoever has an address; of IPv6, a network, of which one can have all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl Open {
    pub(super) fn new(
        limits: HttpLimits,
        connections: Connections,
        tally: ConnectionTally,
    ) -> Self {
        Self {
            limits,
            connections,
            clock: Clock::default(),
            tasks: JoinSet::new(),
            known: HashMap::new(),
            peers: HashMap::new(),
            count: 0,
            tally,
            refusals: LogRate::new(1),
            leaving: Arc::new(Semaphore::new(MOST_LEAVING)),
        }
    }

    /// Serves a connection, where there is room for it or where room can be
    /// made.
    pub(super) fn add(&mut self, stream: TcpStream, address: IpAddr) {
        let peer = Peer::from(address);
        let of_peer = self.peers.get(&peer).copied().unwrap_or_default();
        // Room for one more of this peer is room for one more.
        let has_room = if of_peer >= self.limits.connections_per_peer {
            self.close_idlest(|known| known.peer == peer)
        } else {
            self.tasks.len() < self.limits.connections as usize || self.close_idlest(|_| true)
        };
        if !has_room {
            return self.refuse(stream);
        }
        let liveness = Arc::new(Liveness::new(self.clock.clone()));
        let serve = connection::serve(stream, self.connections.clone(), Arc::clone(&liveness));
        let counted = self.tally.accepted();
        let task = self.tasks.spawn(async move {
            serve.await;
            drop(counted);
        });
        *self.peers.entry(peer).or_default() += 1;
        self.count += 1;
        self.known.insert(task.id(), Known { liveness, peer, number: self.count });
    }

    /// Waits until one has ended; for ever where there is none.
    pub(super) async fn ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        if let Some(Known { peer, .. }) = self.known.remove(&id)
            && let Some(count) = self.peers.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// A second has passed: closes those whose clients were silent for too long.
    pub(super) fn tick(&self) {
        self.clock.tick();
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let (idle, stalled) = (seconds(self.limits.idle), seconds(self.limits.stalled));
        for known in self.known.values() {
            known.liveness.close_after(idle, stalled);
        }
        self.close_untaken();
    }

    /// Closes those whose clients have taken nothing for longest, where more
    /// bytes wait for clients than may.
    fn close_untaken(&self) {
        let waiting = self.known.values().map(|known| (known.liveness.unsent(), known));
        let mut waiting: Vec<_> = waiting.filter(|(unsent, _)| *unsent > 0).collect();
        let mut total: usize = waiting.iter().map(|(unsent, _)| unsent).sum();
        let most = usize::try_from(self.limits.unsent.as_u64()).unwrap_or(usize::MAX);
        if total <= most {
            return;
        }
        waiting.sort_unstable_by_key(|(_, known)| {
            (Reverse(known.liveness.silent().unwrap_or_default()), known.number)
        });
        let before = waiting.len();
        let mut waiting = waiting.into_iter();
        for (unsent, known) in waiting.by_ref() {
            known.liveness.close_at_once();
            total -= unsent;
            if total <= most {
                break;
            }
        }
        let closed = before - waiting.len();
        warn!(
            closed,
            "more than {} wait for clients that do not take them; the slowest are closed (http.unsent)",
            self.limits.unsent
        );
    }

    /// Tells all of them to end.
    pub(super) fn close_all(&self) {
        self.known.values().for_each(|known| known.liveness.close());
    }

    /// Whether there was an idle one among these that could be closed.
    fn close_idlest(&self, is: impl Fn(&Known) -> bool) -> bool {
        let idle = self
            .known
            .values()
            .filter(|known| is(known))
            .filter_map(|known| Some((known.liveness.idleness()?, known)));
        let idlest = idle.max_by_key(|(idleness, known)| (*idleness, Reverse(known.number)));
        idlest.inspect(|(_, known)| known.liveness.close_at_once()).is_some()
    }

    fn refuse(&self, stream: TcpStream) {
        self.tally.refused();
        if let Allowed::Yes(before) = self.refusals.ask(1) {
            let HttpLimits { connections, connections_per_peer, .. } = self.limits;
            warn!(
                before,
                "a connection is refused: there are {connections}, or {connections_per_peer} of one peer, and none is idle (http.connections, http.connections_per_peer)"
            );
        }
        // Where it does not fit, its client finds the connection closed.
        stream.try_write(&headless::answer(HostError::ConnectionsTooMany)).ok();
        if let Ok(turn) = Arc::clone(&self.leaving).try_acquire_owned() {
            tokio::spawn(async move {
                timeout(LEAVE, leave(stream)).await.ok();
                drop(turn);
            });
        }
    }
}

/// Reads what the client sends until it is gone: one that is still sending when
/// its connection is closed loses what it was told.
async fn leave(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut space = [0; 1 << 10];
    while stream.read(&mut space).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Peer;
    use std::net::IpAddr;

    #[test]
    fn a_peer_is_an_address_or_a_network() {
        let peer = |address: &str| Peer::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.2"), peer("10.0.0.1"));
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
    }
}
