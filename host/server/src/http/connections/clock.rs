//! The clock of all activities: the number of seconds since the server started.
//!
//! One clock serves all connections, instead of a timer for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Clock(Arc<AtomicU32>);

impl Clock {
    pub(in crate::http) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(in crate::http) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Returns the number of full seconds since a time of this clock.
    pub(super) fn full_seconds_since(&self, time: u32) -> u32 {
        self.now().saturating_sub(time).saturating_sub(1)
    }
}
