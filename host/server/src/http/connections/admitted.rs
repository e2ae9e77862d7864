//! A request that is being handled, and was not refused because of its client.

use std::sync::Arc;

use super::activity::{ConnectionActivity, WaitingClient};
use crate::http::cancelled::{Cancelled, Pending};
use crate::http::forwarded::InFlight;

/// A request that is being handled. If this is dropped before the request is
/// [complete](Self::complete), the client has cancelled it.
pub(in crate::http) struct Admitted {
    cancellation: Pending,
    /// Counts the request as in flight.
    _in_flight: Option<InFlight>,
    activity: Arc<ConnectionActivity>,
}

impl Admitted {
    pub(super) fn new(
        cancelled: &Arc<Cancelled>,
        in_flight: Option<InFlight>,
        activity: &Arc<ConnectionActivity>,
    ) -> Self {
        let cancellation = cancelled.pending();
        Self { cancellation, _in_flight: in_flight, activity: Arc::clone(activity) }
    }

    /// Records that the request gets its response.
    pub(in crate::http) fn complete(self) {
        self.cancellation.complete();
    }

    /// Records that the client waits for a change: the request takes no processor, and may be
    /// cancelled.
    pub(in crate::http) fn wait(self) -> WaitingClient {
        self.cancellation.complete();
        WaitingClient::polling(&self.activity)
    }
}
