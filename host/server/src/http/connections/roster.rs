//! The open connections, and eviction.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytesize::ByteSize;
use relayer_rest_common::log_rate::{LogRate, Permit};
use tracing::warn;

use super::activity::ConnectionActivity;
use super::clock::Clock;
use super::closing::Closing;
use super::tally::ConnectionTally;
use crate::http::worker_threads::WorkerId;

/// The open connections.
pub(in crate::http) struct Roster {
    entries: Mutex<HashMap<u64, Entry>>,
    clock: Clock,
    tally: ConnectionTally,
    evictions: LogRate,
}

pub(in crate::http) struct Entry {
    pub(in crate::http) activity: Arc<ConnectionActivity>,
    pub(in crate::http) peer: Peer,
    pub(in crate::http) worker: WorkerId,
    /// Increases in the order in which connections are accepted.
    pub(in crate::http) number: u64,
}

/// A client by its address: for IPv6 by its network of 64 bits, since a client can have
/// all addresses of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::http) struct Peer(Option<IpAddr>);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(Some(match address.to_canonical() {
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
            }
            address @ IpAddr::V4(_) => address,
        }))
    }
}

impl Peer {
    /// Several clients: the programs of this machine behind a Unix socket, or those of a
    /// trusted proxy.
    pub(in crate::http) const SEVERAL: Self = Self(None);

    /// Returns whether the limit of connections of one address applies.
    pub(in crate::http) fn has_address(&self) -> bool {
        self.0.is_some()
    }
}

impl Roster {
    pub(in crate::http) fn new(tally: ConnectionTally) -> Self {
        Self {
            entries: Mutex::default(),
            clock: Clock::default(),
            tally,
            evictions: LogRate::new(1),
        }
    }

    pub(in crate::http) fn tally(&self) -> &ConnectionTally {
        &self.tally
    }

    pub(in crate::http) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(in crate::http) fn insert(&self, entry: Entry) {
        self.entries().insert(entry.number, entry);
    }

    pub(in crate::http) fn remove(&self, number: u64) -> Option<Entry> {
        self.entries().remove(&number)
    }

    pub(in crate::http) fn len(&self) -> usize {
        self.entries().len()
    }

    /// Closes the connections whose clients were silent for `idle` seconds, or took
    /// nothing of their responses for `stalled` seconds.
    pub(in crate::http) fn close_after(&self, idle: u32, stalled: u32) {
        self.entries().values().for_each(|entry| entry.activity.close_after(idle, stalled));
    }

    /// Lets the next response of each connection be the last one.
    pub(in crate::http) fn drain(&self) {
        self.entries().values().for_each(|entry| entry.activity.drain());
    }

    /// Tells all connections to end.
    pub(in crate::http) fn close_all(&self) {
        self.entries().values().for_each(|entry| entry.activity.close());
    }

    /// Ends all connections immediately.
    pub(in crate::http) fn abort_all(&self) {
        self.entries().values().for_each(|entry| entry.activity.closing.close(Closing::AtOnce));
    }

    /// Ends the connections immediately that were told to end and have no work in progress.
    pub(in crate::http) fn hasten(&self) {
        self.entries().values().for_each(|entry| entry.activity.hasten());
    }

    /// Closes the idlest connection that `is` accepts, and returns whether there was one:
    /// an unused one, or else the one that has been idle or stalled for longest.
    pub(in crate::http) fn evict_idlest(&self, is: impl Fn(&Entry) -> bool) -> bool {
        let entries = self.entries();
        let idle = entries
            .values()
            .filter(|entry| is(entry))
            .filter_map(|entry| Some((entry.activity.idleness()?, entry)));
        let idlest = idle.max_by_key(|(idleness, entry)| (*idleness, Reverse(entry.number)));
        if let Some((_, entry)) = idlest {
            self.close(entry);
        }
        idlest.is_some()
    }

    /// Closes stalled connections until the connections that are being closed hold
    /// `excess` bytes: the longest-stalled first, and of two equally stalled ones the one
    /// that holds more. If that is not enough, closes connections of a peer that holds
    /// more than all others, unless it is the requester's.
    pub(in crate::http) fn evict(&self, excess: usize, requester: &ConnectionActivity) {
        if !requester.may_evict() {
            return;
        }
        let entries = match self.entries.try_lock() {
            Ok(entries) => entries,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another task holds the lock, and may be evicting.
            Err(TryLockError::WouldBlock) => return,
        };
        let mut freed = 0_usize;
        let mut stalled = Vec::new();
        for entry in entries.values() {
            let held = entry.activity.reserved();
            if held > 0 && entry.activity.is_closed_at_once() {
                freed += held;
            } else if held > 0
                && let Some(seconds) = entry.activity.evictable()
            {
                stalled.push((Reverse(seconds), Reverse(held), entry.number, entry));
            }
        }
        stalled.sort_unstable_by_key(|(seconds, held, number, _)| (*seconds, *held, *number));
        let stalled = stalled.into_iter().map(|(_, Reverse(held), _, entry)| (held, entry));
        let greediest = iter::once_with(|| greediest(entries.values(), requester)).flatten();
        let mut closed = 0_u32;
        for (held, entry) in stalled.chain(greediest) {
            if freed >= excess {
                break;
            }
            if !entry.activity.is_closed_at_once() {
                self.close(entry);
                freed += held;
                closed += 1;
            }
        }
        if freed < excess {
            requester.has_evicted_too_little();
        }
        if closed > 0
            && let Permit::Granted(before) = self.evictions.acquire(1)
        {
            warn!(
                closed,
                before,
                unsent = %ByteSize::b(self.tally.status().unsent),
                "connections evicted: too many unsent bytes (http.unsent)"
            );
        }
    }

    fn close(&self, entry: &Entry) {
        self.tally.evicted();
        entry.activity.closing.close(Closing::AtOnce);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        // Nothing that panics is done while it is held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connections of a peer that holds more than all others together, in
/// descending order of the bytes that they hold; none if it is the requester's peer, or has no
/// address, and so is any number of clients.
fn greediest<'a>(
    entries: impl Iterator<Item = &'a Entry> + Clone,
    requester: &ConnectionActivity,
) -> Vec<(usize, &'a Entry)> {
    let mut peers = HashMap::<Peer, usize>::new();
    for entry in entries.clone() {
        *peers.entry(entry.peer).or_default() += entry.activity.reserved();
    }
    let total: usize = peers.values().sum();
    let own = entries.clone().find(|entry| std::ptr::eq(Arc::as_ptr(&entry.activity), requester));
    let is_greedy = |peer: Peer| {
        peer.has_address()
            && own.is_some_and(|own| own.peer != peer)
            && peers.get(&peer).is_some_and(|held| *held > total / 2)
    };
    let mut greedy: Vec<_> = entries
        .filter(|entry| is_greedy(entry.peer))
        .map(|entry| (entry.activity.reserved(), entry))
        .filter(|(held, _)| *held > 0)
        .collect();
    greedy.sort_unstable_by_key(|(held, entry)| (Reverse(*held), entry.number));
    greedy
}

#[cfg(test)]
mod tests {
    use super::{Entry, Peer, Roster};
    use crate::http::connections::activity::ConnectionActivity;
    use crate::http::connections::sending::Sending;
    use crate::http::connections::tally::ConnectionTally;
    use crate::http::worker_threads::WorkerId;
    use std::net::IpAddr;
    use std::sync::Arc;

    #[test]
    fn a_peer_is_an_address_or_a_network() {
        let peer = |address: &str| Peer::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.2"), peer("10.0.0.1"));
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
    }

    /// Adds a connection of a peer that holds this many bytes.
    fn held_by(
        roster: &Roster,
        peer: u8,
        number: u64,
        bytes: usize,
    ) -> (Arc<ConnectionActivity>, Sending) {
        held_by_peer(roster, Peer::from(IpAddr::from([127, 0, 0, peer])), number, bytes)
    }

    fn held_by_peer(
        roster: &Roster,
        peer: Peer,
        number: u64,
        bytes: usize,
    ) -> (Arc<ConnectionActivity>, Sending) {
        let activity = Arc::new(ConnectionActivity::new(roster.clock().clone()));
        let sending = Sending::new(&activity, bytes);
        let entry =
            Entry { activity: Arc::clone(&activity), peer, worker: WorkerId::default(), number };
        roster.insert(entry);
        (activity, sending)
    }

    fn holding(roster: &Roster, number: u64, bytes: usize) -> (Arc<ConnectionActivity>, Sending) {
        held_by(roster, 1, number, bytes)
    }

    #[test]
    fn the_peer_that_holds_most_is_evicted_for_others() {
        let roster = Roster::new(ConnectionTally::default());
        let (small, _held) = held_by(&roster, 1, 1, 10);
        let (large, _held) = held_by(&roster, 1, 2, 30);
        let (other, _held) = held_by(&roster, 2, 3, 35);
        let closed = || [&small, &large, &other].map(|activity| activity.is_closed_at_once());
        // All are healthy. Nothing is evicted for the peer itself, or for an unknown
        // requester.
        roster.evict(1, &large);
        roster.evict(1, &ConnectionActivity::new(roster.clock().clone()));
        assert_eq!(closed(), [false; 3]);
        roster.evict(1, &other);
        assert_eq!(closed(), [false, true, false]);
        roster.clock().tick();
        roster.evict(1_000, &other);
        assert_eq!(closed(), [true, true, false]);
        // This peer holds more than all others now.
        roster.clock().tick();
        roster.evict(1_000, &other);
        assert!(!other.is_closed_at_once());
    }

    /// The programs behind a Unix socket can have any number of clients.
    #[test]
    fn healthy_connections_without_an_address_are_not_evicted() {
        let roster = Roster::new(ConnectionTally::default());
        let (local, _held) = held_by_peer(&roster, Peer::SEVERAL, 1, 1_000);
        let (other, _held) = held_by(&roster, 1, 2, 10);
        roster.evict(1, &other);
        assert!(!local.is_closed_at_once());
    }

    #[test]
    fn the_longest_stalled_are_evicted_first_and_a_healthy_one_never() {
        let tally = ConnectionTally::default();
        let roster = Roster::new(tally.clone());
        let seconds = |count| (0..count).for_each(|_| roster.clock().tick());
        let (oldest, _held) = holding(&roster, 1, 10);
        let (healthy, taking) = holding(&roster, 2, 1_000);
        seconds(1);
        let (small, _held) = holding(&roster, 3, 20);
        let (large, _held) = holding(&roster, 4, 30);
        seconds(3);
        let (new, _held) = holding(&roster, 5, 1_000);
        taking.goes_on(40);
        let closed = || {
            [&oldest, &small, &large, &healthy, &new].map(|activity| activity.is_closed_at_once())
        };
        let requester = ConnectionActivity::new(roster.clock().clone());
        roster.evict(5, &requester);
        assert_eq!(closed(), [true, false, false, false, false]);
        // Connections that are being closed count as released.
        roster.evict(10, &requester);
        assert_eq!(closed(), [true, false, false, false, false]);
        roster.evict(40, &requester);
        assert_eq!(closed(), [true, false, true, false, false]);
        roster.evict(10_000, &requester);
        assert_eq!(closed(), [true, true, true, false, false]);
        assert_eq!(tally.status().evicted, 3);
        seconds(3);
        taking.goes_on(40);
        roster.evict(10_000, &requester);
        assert_eq!(closed(), [true, true, true, false, true]);
    }
}
