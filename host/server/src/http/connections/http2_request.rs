//! The memory of a request of HTTP/2, and its handling.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::activity::ConnectionActivity;
use crate::http::send_budget::Reservation;

/// A request of HTTP/2 that is being handled; its client may cancel it.
pub(in crate::http) struct Http2Request {
    pub(super) activity: Arc<ConnectionActivity>,
}

/// The memory of a request of HTTP/2, reserved until its response is taken.
#[derive(Debug)]
pub(in crate::http) struct RequestMemory {
    reservation: Reservation,
    counted: Counted,
}

/// The bytes of a [`RequestMemory`] as counted by its connection.
#[derive(Debug)]
struct Counted {
    activity: Arc<ConnectionActivity>,
    bytes: usize,
}

impl Http2Request {
    /// Records a request that is being handled until it is dropped, and its memory, which is kept
    /// with its response.
    pub(in crate::http) fn new(
        activity: &Arc<ConnectionActivity>,
        reservation: Reservation,
        bytes: usize,
    ) -> (Self, RequestMemory) {
        activity.on_http2_request(bytes);
        let counted = Counted { activity: Arc::clone(activity), bytes };
        (Self { activity: Arc::clone(activity) }, RequestMemory { reservation, counted })
    }
}

impl RequestMemory {
    /// Releases the memory of the headers, which are not needed once the response was
    /// made.
    pub(in crate::http) fn shrink(&mut self, to: usize) {
        self.reservation.shrink(to);
        let excess = self.counted.bytes.saturating_sub(to);
        self.counted.bytes -= excess;
        self.counted.activity.requested.fetch_sub(excess, Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.activity.requested.fetch_sub(self.bytes, Relaxed);
    }
}

impl Drop for Http2Request {
    fn drop(&mut self) {
        self.activity.handled.fetch_sub(1, Relaxed);
        self.activity.waits();
    }
}
