//! How many connections there are, and were, for whoever watches a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::control::ConnectionStatus;

/// The connections of a server, counted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ConnectionTally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// A connection that is open.
pub(super) struct Counted(Arc<Counts>);

impl ConnectionTally {
    /// The connections, as they are now.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        let Counts { open, accepted, refused } = &*self.0;
        ConnectionStatus {
            open: open.load(Relaxed),
            accepted: accepted.load(Relaxed),
            refused: refused.load(Relaxed),
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
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
