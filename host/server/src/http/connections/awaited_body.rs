//! A request body that was not received completely yet.

use std::sync::Arc;

use super::activity::ConnectionActivity;
use super::pending_bodies::BODY_PROGRESS;
use super::pending_responses::PROGRESS_SHARE;

/// Counts a request body as pending until it is dropped.
pub(in crate::http) struct AwaitedBody(Arc<ConnectionActivity>);

impl AwaitedBody {
    pub(super) fn new(activity: &Arc<ConnectionActivity>) -> Self {
        activity.bodies.add(activity.clock.now());
        Self(Arc::clone(activity))
    }

    /// Records received bytes of the body.
    pub(in crate::http) fn goes_on(&self, bytes: usize) {
        let needed = BODY_PROGRESS.max(self.0.reserved() / PROGRESS_SHARE);
        self.0.bodies.receive(bytes, needed, self.0.clock.now());
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        // A received body counts as the average share of the connection's memory.
        let bodies = self.0.bodies.remove();
        self.goes_on(self.0.reserved().max(BODY_PROGRESS) / bodies as usize);
    }
}
