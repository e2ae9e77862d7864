//! How many connections there are, and were, for whoever watches a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::send_budget::SendBudget;
use crate::control::ConnectionStatus;

/// The connections of a server, counted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ConnectionTally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    budget: Arc<SendBudget>,
}

/// A connection that is open.
pub(super) struct Counted(Arc<Counts>);

impl ConnectionTally {
    /// The connections, as they are now.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        let Counts { open, accepted, refused, evicted, budget } = &*self.0;
        ConnectionStatus {
            open: open.load(Relaxed),
            accepted: accepted.load(Relaxed),
            refused: refused.load(Relaxed),
            evicted: evicted.load(Relaxed),
            unsent: budget.used() as u64,
        }
    }

    /// One is served, as long as what is returned lives.
    pub(super) fn accepted(&self) -> Counted {
        self.0.accepted.fetch_add(1, Relaxed);
        self.0.open.fetch_add(1, Relaxed);
        Counted(Arc::clone(&self.0))
    }

    pub(super) fn refused(&self) {
        self.0.refused.fetch_add(1, Relaxed);
    }

    /// Counts a connection that is closed to make room.
    pub(super) fn evicted(&self) {
        self.0.evicted.fetch_add(1, Relaxed);
    }

    /// Returns what the responses of all connections are counted in.
    pub(super) fn budget(&self) -> &Arc<SendBudget> {
        &self.0.budget
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
