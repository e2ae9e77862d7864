//! The counts of open connections, by thread and by peer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::roster::{Entry, Peer, Roster};
use crate::http::worker_threads::{Loads, WorkerId};

/// The open connections.
pub(super) struct OpenConnections {
    roster: Arc<Roster>,
    /// Locked at the start and the end of each connection, not for requests.
    counts: Mutex<Counts>,
    /// Notified when the last one has ended.
    none: Notify,
}

/// The counts, which change together.
pub(super) struct Counts {
    pub(super) loads: Loads,
    peers: HashMap<Peer, u32>,
    /// The number of the last connection.
    last: u64,
}

/// A connection that is open until this is dropped.
pub(super) struct OpenConnection {
    all: Arc<OpenConnections>,
    number: u64,
}

impl OpenConnections {
    pub(super) fn new(roster: Arc<Roster>, loads: Loads) -> Self {
        let counts = Counts { loads, peers: HashMap::new(), last: 0 };
        Self { roster, counts: Mutex::new(counts), none: Notify::new() }
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing that panics is done while it is held.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection that was counted with this number, and is in the roster.
    pub(super) fn connection(self: &Arc<Self>, number: u64) -> OpenConnection {
        self.roster.tally().accepted();
        OpenConnection { all: Arc::clone(self), number }
    }

    /// Waits until all have ended.
    pub(super) async fn all_ended(&self) {
        while self.roster.len() > 0 {
            self.none.notified().await;
        }
    }
}

impl Counts {
    pub(super) fn of_peer(&self, peer: Peer) -> u32 {
        self.peers.get(&peer).copied().unwrap_or_default()
    }

    /// Counts a connection, and returns its number.
    pub(super) fn add(&mut self, peer: Peer, worker: WorkerId) -> u64 {
        self.loads.assign(worker);
        *self.peers.entry(peer).or_default() += 1;
        self.last += 1;
        self.last
    }

    fn remove(&mut self, peer: Peer, worker: WorkerId) {
        self.loads.release(worker);
        if let Some(count) = self.peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let Self { all, number } = self;
        all.roster.tally().ended();
        if let Some(Entry { peer, worker, .. }) = all.roster.remove(*number) {
            all.counts().remove(peer, worker);
        }
        if all.roster.len() == 0 {
            all.none.notify_one();
        }
    }
}
