//! A response that its client has not completely taken yet.

use std::sync::Arc;

use super::activity::ConnectionActivity;

/// A response that its client has not completely taken, and the bytes of its body.
#[derive(Debug)]
pub(in crate::http) struct Sending {
    activity: Arc<ConnectionActivity>,
    bytes: usize,
}

impl Sending {
    /// Counts a response with a body of this many bytes as pending until the return value
    /// is dropped.
    pub(in crate::http) fn new(activity: &Arc<ConnectionActivity>, bytes: usize) -> Self {
        activity.responses.add(bytes, activity.clock.now());
        activity.waits();
        Self { activity: Arc::clone(activity), bytes }
    }

    /// Records that the client took this many bytes of the body.
    pub(in crate::http) fn goes_on(&self, bytes: usize) {
        self.activity.responses.take(bytes, self.activity.clock.now());
        self.proves();
    }

    /// Records that the client took a head, which is not progress if bodies are pending.
    pub(in crate::http) fn took_head(&self) {
        if self.activity.responses.bytes() == 0 {
            self.goes_on(0);
        } else {
            self.proves();
        }
    }

    fn proves(&self) {
        self.activity.responses.prove();
        self.activity.waits_unless_busy();
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.activity.responses.remove(self.bytes);
        self.activity.waits_unless_busy();
    }
}
