//! Counters of a server's connections, for its status.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::http::live::{LiveStatus, LiveTally};
use crate::http::send_budget::SendBudget;

/// The connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The connections that are open now.
    pub open: u64,
    /// The connections that have been served since the start.
    pub accepted: u64,
    /// The connections that were refused for lack of room.
    pub refused: u64,
    /// Connections that were closed to make room for others.
    #[serde(default)]
    pub evicted: u64,
    /// Bytes of responses that clients have not taken yet.
    #[serde(default)]
    pub unsent: u64,
    /// Whether the server shuts down, and accepts no more connections.
    #[serde(default)]
    pub draining: bool,
    /// The clients that wait for the next version of a response.
    #[serde(default)]
    pub live: LiveStatus,
}

/// The counters of a server's connections. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ConnectionTally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    draining: AtomicBool,
    refused_requests: Mutex<BTreeMap<&'static str, u64>>,
    budget: Arc<SendBudget>,
    live: LiveTally,
}

impl ConnectionTally {
    /// Returns the current counts.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        let Counts { open, accepted, refused, evicted, draining, budget, live, .. } = &*self.0;
        ConnectionStatus {
            open: open.load(Relaxed),
            accepted: accepted.load(Relaxed),
            refused: refused.load(Relaxed),
            evicted: evicted.load(Relaxed),
            unsent: budget.used() as u64,
            draining: draining.load(Relaxed),
            live: live.status(),
        }
    }

    /// Returns the counters of the clients that wait for the next version of a response.
    #[must_use]
    pub fn live(&self) -> &LiveTally {
        &self.0.live
    }

    /// Returns whether the server shuts down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Relaxed)
    }

    /// Returns the requests that were refused before routing, by the name of the error.
    #[must_use]
    pub fn refused_requests(&self) -> BTreeMap<&'static str, u64> {
        self.refusals().clone()
    }

    /// Counts a request that is refused before routing.
    pub(in crate::http) fn refused_request(&self, name: &'static str) {
        *self.refusals().entry(name).or_default() += 1;
    }

    fn refusals(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // Nothing that panics is done while it is held.
        self.0.refused_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the server shuts down.
    pub(in crate::http) fn drain(&self) {
        self.0.draining.store(true, Relaxed);
    }

    /// Counts an accepted connection, which is open until it has ended.
    pub(super) fn accepted(&self) {
        self.0.accepted.fetch_add(1, Relaxed);
        self.0.open.fetch_add(1, Relaxed);
    }

    /// Counts the end of a connection.
    pub(super) fn ended(&self) {
        self.0.open.fetch_sub(1, Relaxed);
    }

    pub(in crate::http) fn refused(&self) {
        self.0.refused.fetch_add(1, Relaxed);
    }

    /// Counts a connection that is closed to make room.
    pub(super) fn evicted(&self) {
        self.0.evicted.fetch_add(1, Relaxed);
    }

    /// Returns the budget of the responses of all connections.
    pub(in crate::http) fn budget(&self) -> &Arc<SendBudget> {
        &self.0.budget
    }
}
