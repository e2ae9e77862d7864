//! A response whose body is a stream of versions.
//!
//! The stream carries the state and not a log: a client that is slower than the changes is
//! sent the newest version next, and has at most one event that it has not taken.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, RETRY_AFTER, VARY,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::client::copied;
use super::content::Content;
use super::event;
use super::resolve::Outcome;
use super::version::{Body, Version};
use super::waiter::Waiter;
use crate::http::connections::{ConnectionActivity, RequestMemory, WaitingClient};
use crate::http::held::Held;
use crate::http::send_admission::SendAdmission;
use crate::response::{self, Representation};

/// The time after which a comment is sent to a client without an event.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The time after which clients connect again to another server: at least this, and up to the
/// range more.
const MIN_RETRY: Duration = Duration::from_millis(500);
const RETRY_RANGE: Duration = Duration::from_millis(2_500);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The events of one client.
pub(in crate::http) struct EventStream {
    waiter: Waiter,
    has_patches: bool,
    /// The version that the client has.
    sent: Sent,
    pending: VecDeque<Bytes>,
    has_begun: bool,
    has_ended: bool,
}

/// The version that a client has.
#[derive(Default)]
struct Sent {
    number: Option<u64>,
    /// Its entity tag, if it has one.
    etag: Option<HeaderValue>,
    is_stale: bool,
}

/// Events with the memory that they take until the client has them.
pub(in crate::http) type StreamedEvents = Pin<Box<dyn Stream<Item = (Bytes, Held)> + Send>>;

/// The connection of a stream.
pub(in crate::http) struct StreamConnection {
    pub(in crate::http) admission: Arc<SendAdmission>,
    pub(in crate::http) activity: Arc<ConnectionActivity>,
    /// The memory of the request, for HTTP/2 only, which its stream keeps.
    pub(in crate::http) memory: Option<RequestMemory>,
}

impl EventStream {
    /// Creates the stream of a client, whose request has these headers.
    pub(in crate::http) fn new(waiter: Waiter, has_patches: bool, request: &HeaderMap) -> Self {
        let sent = Sent { etag: request.get(LAST_EVENT_ID).map(copied), ..Sent::default() };
        let pending = VecDeque::new();
        Self { waiter, has_patches, sent, pending, has_begun: false, has_ended: false }
    }

    /// Returns the next event, or a comment if there is none for a while; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(event) = self.pending.pop_front() {
            return Some(event);
        }
        if self.has_ended {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            let version = self.waiter.newest().await;
            self.add(&version).await;
            // The client learns that it is connected.
            return Some(self.pending.pop_front().unwrap_or(event::COMMENT));
        }
        loop {
            let Ok(version) = timeout(KEEP_ALIVE, self.waiter.next()).await else {
                return Some(event::COMMENT);
            };
            self.add(&version).await;
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
        }
    }

    /// Adds the events of a version to the pending ones.
    async fn add(&mut self, version: &Version) {
        let body = &version.body;
        if let Content::Ended(within) = body.content {
            sleep(within.mul_f64(fastrand::f64())).await;
            self.pending.push_back(ended());
            self.has_ended = true;
            return;
        }
        let has_it = self.sent.number == Some(body.number)
            || body.etag().is_some_and(|etag| self.sent.etag.as_ref() == Some(etag));
        if !has_it {
            let difference = self.difference(body).await;
            self.pending.push_back(difference);
        }
        self.sent.number = Some(body.number);
        self.sent.etag = body.etag().map(copied);
        if self.sent.is_stale != version.stale_since.is_some() {
            self.sent.is_stale = !self.sent.is_stale;
            self.pending.push_back(event::stale(version.stale_since));
        }
    }

    /// Returns the event that makes the client's version this one.
    async fn difference(&self, body: &Arc<Body>) -> Bytes {
        let patch = match self.sent.number {
            Some(number) if self.has_patches => body.patch_from(number).await,
            _ => None,
        };
        patch.unwrap_or_else(|| body.event())
    }

    /// Returns the events as the body of a response on this connection.
    pub(in crate::http) fn on(self, connection: StreamConnection) -> StreamedEvents {
        let waiting = WaitingClient::new(&connection.activity);
        let state = (self, connection, waiting, None::<oneshot::Receiver<()>>);
        Box::pin(unfold(state, |(mut events, mut connection, waiting, taken)| async {
            // The client has the event before.
            if let Some(taken) = taken {
                taken.await.ok();
            }
            let event = events.next().await?;
            let (held, taken) = connection.admit(&event).await?;
            Some(((event, held), (events, connection, waiting, Some(taken))))
        }))
    }
}

impl StreamConnection {
    /// Waits until an event fits into the memory of responses. Returns `None` if it does not in
    /// time.
    async fn admit(&mut self, event: &Bytes) -> Option<(Held, oneshot::Receiver<()>)> {
        let Self { admission, activity, .. } = self;
        let held = match admission.try_admit(activity, &mut None, event) {
            Some(held) => held,
            None => admission.admit(activity, &mut None, event).await?,
        };
        let (sender, taken) = oneshot::channel();
        Some((held.signalling(sender), taken))
    }
}

/// Why a response is not sent as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum NoStream {
    /// Its body is not text.
    NotText,
    /// It is neither a success nor a failure that may pass, and is sent unchanged.
    Response,
}

/// Returns the headers of the stream that begins with this response.
pub(in crate::http) fn headers(first: &Outcome) -> Result<HeaderMap, NoStream> {
    let mut headers = match first {
        Ok(response) => {
            let Representation { headers, body } = response.plain();
            if !response.status().is_success() && !response.status().is_server_error() {
                return Err(NoStream::Response);
            }
            if !response::is_text(headers) || str::from_utf8(body).is_err() {
                return Err(NoStream::NotText);
            }
            headers.clone()
        }
        Err(response) => response.headers().clone(),
    };
    for name in [CONTENT_LENGTH, ETAG, LAST_MODIFIED, RETRY_AFTER] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.append(VARY, HeaderValue::from(ACCEPT));
    Ok(headers)
}

/// Returns the events of a stream that ends at once: its client connects to another server.
pub(in crate::http) fn ended() -> Bytes {
    event::retry(MIN_RETRY + RETRY_RANGE.mul_f64(fastrand::f64()))
}
