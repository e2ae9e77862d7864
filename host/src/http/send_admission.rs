//! Admits responses to connections as long as all that clients have not taken
//! yet stays within `http.unsent`.
//!
//! If a response does not fit, the connections that are stalled are closed, the
//! longest-stalled first, and the response waits until enough is released. If
//! nothing is released in time, it is refused; a client that takes its responses
//! never loses its connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytesize::ByteSize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::liveness::{Handling, Liveness, Sending};
use super::outgoing::Held;
use super::roster::Roster;
use super::send_budget::{Reservation, SHARED_FROM, SendBudget};
use crate::log_rate::{Allowed, LogRate};

/// The memory of a request of HTTP/2 and the head of its response, besides the
/// headers of the request: the library's stream, a task and a table of headers.
const STREAM: usize = 4 << 10;

/// Headers take this much besides their names and values.
const HEADER: usize = 128;

/// Responses may wait for memory with this many bytes of bodies, and for this
/// long: until all connections that take nothing count as stalled.
const WAITING: usize = 16 << 20;
const WAIT: Duration = Duration::from_secs(4);

/// How often a waiting response looks for connections that are stalled by now.
const LOOK: Duration = Duration::from_millis(250);

/// What a body takes of [`WAITING`] at least.
const MIN_WAITING: usize = 256 << 10;

pub(super) struct SendAdmission {
    budget: Arc<SendBudget>,
    roster: Arc<Roster>,
    limit: usize,
    /// KiB of bodies that wait.
    waiting: Semaphore,
    refusals: LogRate,
}

impl SendAdmission {
    pub(super) fn new(budget: Arc<SendBudget>, roster: Arc<Roster>, limit: ByteSize) -> Self {
        let limit = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
        let waiting = Semaphore::new(WAITING >> 10);
        Self { budget, roster, limit, waiting, refusals: LogRate::new(1) }
    }

    /// Admits a request of HTTP/2 with the headers of this size, or none if there
    /// is no memory even for that.
    pub(super) fn request(
        &self,
        liveness: &Arc<Liveness>,
        headers: &hyper::HeaderMap,
    ) -> Option<Handling> {
        let size: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum();
        let reservation = self.budget.reserve(STREAM + size, self.limit);
        if reservation.is_none() {
            self.evict(STREAM + size, self.limit);
            self.log_refusal(STREAM + size);
        }
        reservation.map(|reservation| liveness.begins_one(reservation))
    }

    /// Admits the response of a connection, if it fits.
    pub(super) fn try_admit(
        &self,
        liveness: &Arc<Liveness>,
        request: &mut Option<Reservation>,
        body: &Bytes,
    ) -> Option<Held> {
        let ceiling = self.ceiling(liveness, body.len());
        let reservation = self.budget.reserve_body(body, ceiling)?;
        Some(Held::new(Sending::new(liveness, body.len()), reservation, request.take()))
    }

    /// Admits the response of a connection as soon as it fits, if that is soon.
    pub(super) async fn admit(
        &self,
        liveness: &Arc<Liveness>,
        request: &mut Option<Reservation>,
        body: &Bytes,
    ) -> Option<Held> {
        let size = body.len();
        // One with responses that were never taken would only pile up more.
        let may_wait = liveness.is_proven() || !liveness.is_sending();
        let turn = u32::try_from(size.clamp(MIN_WAITING, WAITING) >> 10).unwrap_or(u32::MAX);
        let turn = self.waiting.try_acquire_many(turn).ok().filter(|_| may_wait);
        let (deadline, waiter) = (Instant::now() + WAIT, self.budget.waiter());
        loop {
            let mut released = std::pin::pin!(waiter.released());
            released.as_mut().enable();
            if let Some(held) = self.try_admit(liveness, request, body) {
                return Some(held);
            }
            self.evict(size, self.ceiling(liveness, size));
            let left = deadline.saturating_duration_since(Instant::now());
            if turn.is_none() || left.is_zero() {
                self.log_refusal(size);
                return None;
            }
            timeout(left.min(LOOK), released).await.ok();
        }
    }

    /// Returns how many bytes there may be with one more response of this
    /// connection. Some are kept for requests, and some for clients that have
    /// shown that they take their responses, or hold next to nothing: new ones
    /// that take nothing cannot keep them out until they count as stalled.
    fn ceiling(&self, liveness: &Liveness, bytes: usize) -> usize {
        let is_preferred = liveness.is_proven() || bytes <= SHARED_FROM && !liveness.is_sending();
        self.limit - self.limit / if is_preferred { 32 } else { 8 }
    }

    fn evict(&self, bytes: usize, ceiling: usize) {
        let wanted = self.budget.used().saturating_add(bytes);
        if bytes <= ceiling {
            self.roster.evict_stalled(wanted.saturating_sub(ceiling));
        }
    }

    fn log_refusal(&self, bytes: usize) {
        if let Allowed::Yes(before) = self.refusals.ask(1) {
            warn!(
                before,
                size = %ByteSize::b(bytes as u64),
                "response refused: {} wait for clients, of at most {}; raise http.unsent if clients take their responses",
                ByteSize::b(self.budget.used() as u64),
                ByteSize::b(self.limit as u64),
            );
        }
    }
}
