//! Admits responses to connections as long as the bytes that clients have not taken yet
//! stay within `http.unsent`.
//!
//! If a response does not fit, stalled connections are closed, the longest-stalled first,
//! then connections of an address that holds more than all others together, unless the
//! response is for that address itself. The response waits until enough is released. If
//! it does not fit in time, it is refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytesize::ByteSize;
use relayer_rest_common::log_rate::{LogRate, Permit};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::connections::{ConnectionActivity, Http2Request, RequestMemory, Roster, Sending};
use super::held::Held;
use super::send_budget::{BudgetShare, SHARED_FROM, SendBudget};

/// The memory of an HTTP/2 request and the head of its response, besides the headers of
/// the request: the library's stream, a task, a tracing span and two header maps.
/// Measured with 1,024 connections of 100 streams.
const STREAM: usize = 12 << 10;

/// The memory of a header besides its name and value.
const HEADER: usize = 128;

/// The limit of bodies that wait for memory, in bytes, separately for clients that have
/// taken a response before and for others; and the limit of the wait, in seconds of the
/// server's clock: until all connections that take nothing count as stalled. The clock
/// stops when the server shuts down, so [`MAX_WAIT`] limits the wait, too.
const MAX_WAITING: usize = 8 << 20;
const MAX_WAIT_SECONDS: u32 = 4;
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The interval at which a waiting response checks for connections that have become
/// stalled.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The minimum that a waiting body counts towards [`MAX_WAITING`].
const MIN_WAITING: usize = 256 << 10;

/// Admits the responses of the connections of one thread, in cache lines of its own.
#[repr(align(128))]
pub(super) struct SendAdmission {
    budget: Arc<BudgetShare>,
    common: Arc<Common>,
}

/// The part that all threads have in common.
struct Common {
    roster: Arc<Roster>,
    limit: usize,
    /// Permits for KiB of waiting bodies: of new clients, and of proven ones.
    waiting: [Semaphore; 2],
    refusals: LogRate,
}

impl SendAdmission {
    pub(super) fn new(budget: &Arc<SendBudget>, roster: Arc<Roster>, limit: ByteSize) -> Self {
        let limit = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
        let waiting = [(); 2].map(|()| Semaphore::new(MAX_WAITING >> 10));
        let common = Arc::new(Common { roster, limit, waiting, refusals: LogRate::new(1) });
        Self { budget: budget.share(), common }
    }

    /// Returns the admission for another thread.
    pub(super) fn for_another_thread(&self) -> Self {
        Self { budget: self.budget.budget().share(), common: Arc::clone(&self.common) }
    }

    /// Admits a request of HTTP/2 with these headers, or returns `None` if it does not
    /// fit into memory.
    pub(super) fn request(
        &self,
        activity: &Arc<ConnectionActivity>,
        headers: &hyper::HeaderMap,
    ) -> Option<(Http2Request, RequestMemory)> {
        let size: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum();
        let ceiling = self.ceiling(activity.is_proven() || activity.is_unused());
        let reservation = self.budget.reserve(STREAM + size, ceiling);
        if reservation.is_none() {
            self.evict(activity, STREAM + size, ceiling);
            self.log_refusal(STREAM + size);
        }
        reservation.map(|reservation| Http2Request::new(activity, reservation, STREAM + size))
    }

    /// Admits the response of a connection if it fits. Releases the headers of its
    /// request, which are not kept any more.
    pub(super) fn try_admit(
        &self,
        activity: &Arc<ConnectionActivity>,
        request: &mut Option<RequestMemory>,
        body: &Bytes,
    ) -> Option<Held> {
        if let Some(request) = request {
            request.shrink(STREAM);
        }
        let ceiling = self.ceiling_of_body(activity, body.len());
        let reservation = self.budget.reserve_body(body, ceiling)?;
        Some(Held::new(Sending::new(activity, body.len()), Some(reservation), request.take()))
    }

    /// Admits the response of a connection as soon as it fits, or returns `None` if it
    /// does not fit in time.
    pub(super) async fn admit(
        &self,
        activity: &Arc<ConnectionActivity>,
        request: &mut Option<RequestMemory>,
        body: &Bytes,
    ) -> Option<Held> {
        let size = body.len();
        // A connection that has taken none of its responses would only accumulate more.
        let is_proven = activity.is_proven();
        let may_wait = is_proven || !activity.is_sending();
        let waiting = &self.common.waiting[usize::from(is_proven)];
        let turn = u32::try_from(size.clamp(MIN_WAITING, MAX_WAITING) >> 10).unwrap_or(u32::MAX);
        let turn = waiting.try_acquire_many(turn).ok().filter(|_| may_wait);
        let clock = self.common.roster.clock();
        let start = clock.now();
        let deadline = Instant::now() + MAX_WAIT;
        let waiter = self.budget.budget().waiter();
        loop {
            let mut released = std::pin::pin!(waiter.released());
            released.as_mut().enable();
            if let Some(held) = self.try_admit(activity, request, body) {
                return Some(held);
            }
            self.evict(activity, size, self.ceiling_of_body(activity, size));
            let is_over =
                clock.now().saturating_sub(start) > MAX_WAIT_SECONDS || Instant::now() >= deadline;
            if turn.is_none() || is_over {
                self.log_refusal(size);
                return None;
            }
            timeout(CHECK_INTERVAL, released).await.ok();
        }
    }

    /// Counts a response that is replaced by an error with this name.
    pub(super) fn count_refused(&self, name: &'static str) {
        self.common.roster.tally().refused_request(name);
    }

    /// Returns the limit of reserved bytes. A part is kept for clients that have taken
    /// responses before, or hold next to nothing: new clients that take nothing cannot
    /// lock them out before they count as stalled.
    fn ceiling(&self, is_preferred: bool) -> usize {
        if is_preferred { self.common.limit } else { self.common.limit - self.common.limit / 8 }
    }

    fn ceiling_of_body(&self, activity: &ConnectionActivity, bytes: usize) -> usize {
        self.ceiling(activity.is_proven() || bytes <= SHARED_FROM && !activity.is_sending())
    }

    fn evict(&self, requester: &ConnectionActivity, bytes: usize, ceiling: usize) {
        let wanted = self.budget.budget().used().saturating_add(bytes);
        if bytes <= ceiling {
            self.common.roster.evict(wanted.saturating_sub(ceiling), requester);
        }
    }

    fn log_refusal(&self, bytes: usize) {
        if let Permit::Granted(before) = self.common.refusals.acquire(1) {
            warn!(
                before,
                size = %ByteSize::b(bytes as u64),
                unsent = %ByteSize::b(self.budget.budget().used() as u64),
                limit = %ByteSize::b(self.common.limit as u64),
                "response refused: too many unsent bytes; raise http.unsent if clients read their responses"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_WAIT_SECONDS, SendAdmission};
    use crate::http::connections::{ConnectionActivity, ConnectionTally, Entry, Peer, Roster};
    use crate::http::worker_threads::WorkerId;
    use bytes::Bytes;
    use bytesize::ByteSize;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::sleep;

    /// Opens a connection that is sent these bodies, takes nothing, and ends when it is
    /// closed.
    fn stall(admission: &Arc<SendAdmission>, number: u64, bodies: &[Bytes]) {
        let activity = Arc::new(ConnectionActivity::new(admission.common.roster.clock().clone()));
        let held: Vec<_> = bodies
            .iter()
            .map(|body| admission.try_admit(&activity, &mut None, body).unwrap())
            .collect();
        let entry = Entry {
            activity: Arc::clone(&activity),
            peer: Peer::from(IpAddr::from([127, 0, 0, 1])),
            worker: WorkerId::default(),
            number,
        };
        admission.common.roster.insert(entry);
        tokio::spawn(async move {
            while !activity.is_closed_at_once() {
                sleep(Duration::from_millis(1)).await;
            }
            drop(held);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_is_admitted_if_stalled_connections_share_all_bodies() {
        let roster = Arc::new(Roster::new(ConnectionTally::default()));
        let limit = ByteSize::mib(1);
        let admission = Arc::new(SendAdmission::new(&Arc::default(), roster, limit));
        // Less than the part of the limit that new clients can use.
        let bodies: Vec<_> = (0..8).map(|_| Bytes::from(vec![0; 100 << 10])).collect();
        for number in 0..500 {
            stall(&admission, number, &bodies);
        }
        (0..MAX_WAIT_SECONDS).for_each(|_| admission.common.roster.clock().tick());
        let new = Arc::new(ConnectionActivity::new(admission.common.roster.clock().clone()));
        let body = Bytes::from(vec![1; 400 << 10]);
        assert!(admission.admit(&new, &mut None, &body).await.is_some());
    }
}
