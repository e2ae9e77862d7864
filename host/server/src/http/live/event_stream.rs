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
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_LOCATION, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, RETRY_AFTER,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::client::copied;
use super::content::{self, Content};
use super::event::{self, Event};
use super::gzip::{Blocks, GzipStream};
use super::resolve::Outcome;
use super::version::{Body, Version};
use super::waiter::Waiter;
use super::{Refusal, moment_until};
use crate::http::accept_encoding;
use crate::http::connections::{ConnectionActivity, RequestMemory, WaitingClient};
use crate::http::held::Held;
use crate::http::send_admission::SendAdmission;
use crate::response::{self, BYTE_HEADERS, Encoding, list, vary};

/// The time after which a comment is sent to a client without an event.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The time after which clients connect again to another server: at least this, and up to the
/// range more.
const MIN_RETRY: Duration = Duration::from_millis(500);
const RETRY_RANGE: Duration = Duration::from_millis(2_500);

/// Headers that describe the first body, or a response that does not go on.
const BODY_HEADERS: [HeaderName; 9] = [
    ACCEPT_RANGES,
    AGE,
    CONTENT_DISPOSITION,
    CONTENT_LENGTH,
    CONTENT_LOCATION,
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
    RETRY_AFTER,
];

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The events of one client.
pub(in crate::http) struct EventStream {
    waiter: Waiter,
    has_patches: bool,
    /// The compressed stream, if the client prefers that.
    gzip: Option<GzipStream>,
    /// The version that the client has.
    sent: Sent,
    pending: VecDeque<Part>,
    progress: Progress,
}

/// A part of the stream.
enum Part {
    /// The bytes before all events of a compressed stream.
    Start,
    /// A short event of this client.
    Own(Bytes),
    /// An event that other clients get, too.
    Shared(Event),
    /// The bytes after all events of a compressed stream.
    End,
}

/// The progress of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    Following,
    /// The server shuts down, and the stream ends at this time.
    Ending(Instant),
    Ended,
}

/// The version that a client has.
struct Sent {
    number: Option<u64>,
    /// Its entity tag, if it has one.
    etag: Option<HeaderValue>,
    /// Whether it was stale. Each connection begins with a state that is not.
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
    /// Creates the stream of a client, whose request has these headers, compressed or not.
    pub(in crate::http) fn new(
        waiter: Waiter,
        has_patches: bool,
        is_compressed: bool,
        request: &HeaderMap,
    ) -> Self {
        let etag = request.get(LAST_EVENT_ID).map(copied);
        let sent = Sent { number: None, etag, is_stale: false };
        let gzip = is_compressed.then(GzipStream::default);
        let pending = gzip.iter().map(|_| Part::Start).collect();
        Self { waiter, has_patches, gzip, sent, pending, progress: Progress::New }
    }

    /// Returns the next event, or a comment if there is none for a while; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(part) = self.pending.pop_front() {
            return Some(self.bytes(part).await);
        }
        if self.progress == Progress::New {
            self.progress = Progress::Following;
            let version = self.waiter.newest().await;
            self.follow(version).await;
            if self.pending.is_empty() && self.progress == Progress::Following {
                // The client learns that it is connected.
                self.push_own(event::COMMENT);
            }
        }
        while self.pending.is_empty() {
            match self.progress {
                Progress::Ended => return None,
                Progress::Ending(end) => {
                    let comment = Instant::now() + KEEP_ALIVE;
                    sleep_until(end.min(comment)).await;
                    if end <= comment { self.end() } else { self.push_own(event::COMMENT) }
                }
                _ => match timeout(KEEP_ALIVE, self.waiter.next()).await {
                    Ok(version) => self.follow(version).await,
                    Err(_) => self.push_own(event::COMMENT),
                },
            }
        }
        let part = self.pending.pop_front()?;
        Some(self.bytes(part).await)
    }

    /// Returns the bytes of the next part.
    async fn bytes(&mut self, part: Part) -> Bytes {
        match (part, &mut self.gzip) {
            (Part::Own(text), None) => text,
            (Part::Own(text), Some(gzip)) => gzip.add(&Blocks::stored(&text)),
            (Part::Shared(event), None) => event.text().clone(),
            // Boxed, because it takes memory only while it works.
            (Part::Shared(event), Some(gzip)) => gzip.add(Box::pin(event.blocks()).await),
            (Part::Start, Some(gzip)) => gzip.begin(),
            (Part::End, Some(gzip)) => gzip.end(),
            (Part::Start | Part::End, None) => Bytes::new(),
        }
    }

    /// Adds the end of the stream.
    fn end(&mut self) {
        self.push_own(connect_elsewhere());
        self.pending.extend(self.gzip.is_some().then_some(Part::End));
        self.progress = Progress::Ended;
    }

    /// Follows a version, or ends if the client can no longer wait.
    async fn follow(&mut self, version: Result<Arc<Version>, Refusal>) {
        match version {
            Ok(version) => self.add(&version).await,
            Err(Refusal::Ending(end)) => self.progress = Progress::Ending(moment_until(end)),
            Err(Refusal::Overloaded) => self.end(),
        }
    }

    /// Adds the events of a version to the pending ones.
    async fn add(&mut self, version: &Version) {
        let body = &version.body;
        let stale_since = version.stale_since;
        // Without a response of the module, it is not known.
        let is_known = matches!(body.content, Content::Response(_));
        let is_stale = if is_known { stale_since.is_some() } else { self.sent.is_stale };
        let is_other = std::mem::replace(&mut self.sent.is_stale, is_stale) != is_stale;
        let has_it = self.sent.number == Some(body.number)
            || self.sent.etag.as_ref().is_some_and(|etag| body.has_etag(etag));
        // Before the state that is stale, and after the one that is not any more.
        if is_other && stale_since.is_some() {
            self.push_own(event::stale(stale_since));
            if !has_it {
                // When the client has this event, it gets the newest state, which may be another one.
                self.progress = Progress::New;
                return;
            }
        }
        if !has_it {
            // Boxed, because it takes memory only while it works.
            let difference = Box::pin(self.difference(body)).await;
            self.pending.push_back(Part::Shared(difference));
        }
        self.sent.number = Some(body.number);
        self.sent.etag = body.etag().map(copied);
        if is_other && stale_since.is_none() {
            self.push_own(event::stale(None));
        }
    }

    /// Ends the stream without the event that was returned last, and returns the end, unless it is
    /// the end that does not fit.
    fn give_up(&mut self) -> Option<Bytes> {
        if self.progress == Progress::Ended {
            return None;
        }
        self.pending.clear();
        self.progress = Progress::Ended;
        let text = connect_elsewhere();
        Some(match &mut self.gzip {
            Some(gzip) => last_part(gzip.take_back(), gzip, &text),
            None => text,
        })
    }

    /// Returns the event that makes the client's version this one.
    async fn difference(&self, body: &Arc<Body>) -> Event {
        let patch = match self.sent.number {
            Some(number) if self.has_patches => body.patch_from(number).await,
            _ => None,
        };
        patch.unwrap_or_else(|| body.event())
    }

    fn push_own(&mut self, text: Bytes) {
        self.pending.push_back(Part::Own(text));
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
            let mut event = events.next().await?;
            let mut admitted = connection.admit(&event).await;
            if admitted.is_none() {
                event = events.give_up()?;
                admitted = connection.admit(&event).await;
            }
            let (held, taken) = admitted?;
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

/// The head of a response that is a stream.
pub(in crate::http) struct StreamHead {
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) is_compressed: bool,
}

/// Returns the head of the stream that begins with this response, for a request with these
/// headers.
pub(in crate::http) fn head(first: &Outcome, request: &HeaderMap) -> Result<StreamHead, NoStream> {
    let mut headers = match first {
        Ok(response) => {
            if !response.status().is_success() && !response.status().is_server_error() {
                return Err(NoStream::Response);
            }
            if response.status().is_success() && content::text(response).is_none() {
                return Err(NoStream::NotText);
            }
            response.plain().headers.clone()
        }
        Err(response) => response.headers().clone(),
    };
    let may_encode = response::may_encode(&headers);
    let encoding = accept_encoding::preferred(request, &[Encoding::Gzip]).filter(|_| may_encode);
    for name in BODY_HEADERS.iter().chain(&BYTE_HEADERS) {
        headers.remove(name);
    }
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    let cache_control = cache_control(&headers);
    headers.insert(CACHE_CONTROL, cache_control);
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    vary::add(&mut headers, &["accept-encoding"]);
    vary::add(&mut headers, &vary::INTEREST);
    Ok(StreamHead { headers, is_compressed: encoding.is_some() })
}

/// Returns the directives for caches of a stream that begins with a response with these headers:
/// only those that keep it from others count for a stream, too.
fn cache_control(first: &HeaderMap) -> HeaderValue {
    let is_private = list::has(first, CACHE_CONTROL, "private");
    let is_secret = list::has(first, CACHE_CONTROL, "no-store");
    HeaderValue::from_static(match (is_private, is_secret) {
        (false, false) => "no-cache, no-transform",
        (true, false) => "no-cache, no-transform, private",
        (false, true) => "no-cache, no-transform, no-store",
        (true, true) => "no-cache, no-transform, private, no-store",
    })
}

/// Returns the whole body of a stream that ends at once.
pub(in crate::http) fn ended(is_compressed: bool) -> Bytes {
    let text = connect_elsewhere();
    if !is_compressed {
        return text;
    }
    let mut gzip = GzipStream::default();
    last_part(gzip.begin(), &mut gzip, &text)
}

/// Returns the last bytes of a compressed stream, which begin with these and end with this event.
fn last_part(first: Bytes, gzip: &mut GzipStream, text: &[u8]) -> Bytes {
    [first, gzip.add(&Blocks::stored(text)), gzip.end()].concat().into()
}

/// Returns the field that lets a client connect to another server after a time.
fn connect_elsewhere() -> Bytes {
    event::retry(MIN_RETRY + RETRY_RANGE.mul_f64(fastrand::f64()))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, EventStream};
    use crate::http::live::fixture::{Fixture, check_spread, headers};
    use flate2::write::GzDecoder;
    use futures_util::future::join_all;
    use relayer_rest_state::Stale;
    use std::io::Write;
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::{Instant, pause, resume};

    /// A client of a stream.
    struct Reader {
        events: EventStream,
        decoder: Option<GzDecoder<Vec<u8>>>,
    }

    impl Reader {
        async fn of(fixture: &Fixture, is_compressed: bool) -> Self {
            Self::new(fixture.stream(is_compressed).await, is_compressed)
        }

        fn new(events: EventStream, is_compressed: bool) -> Self {
            let decoder = is_compressed.then(|| GzDecoder::new(Vec::new()));
            Self { events, decoder }
        }

        /// Returns the text of the next event; `None` at the end of the stream.
        async fn next(&mut self) -> Option<String> {
            loop {
                let Some(bytes) = self.events.next().await else {
                    if let Some(decoder) = &mut self.decoder {
                        decoder.try_finish().expect("the checksum is right");
                    }
                    return None;
                };
                let text = self.text(&bytes);
                if !text.is_empty() {
                    return Some(text);
                }
            }
        }

        fn text(&mut self, bytes: &Bytes) -> String {
            let Some(decoder) = &mut self.decoder else {
                return String::from_utf8(bytes.to_vec()).unwrap();
            };
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
            String::from_utf8(std::mem::take(decoder.get_mut())).unwrap()
        }
    }

    #[tokio::test]
    async fn a_comment_is_sent_after_each_20_seconds_without_an_event() {
        let fixture = Fixture::new();
        for is_compressed in [false, true] {
            let mut reader = Reader::of(&fixture, is_compressed).await;
            assert!(reader.next().await.unwrap().contains("event: change\n"));
            pause();
            let start = Instant::now();
            for number in 1..=3 {
                assert_eq!(reader.next().await.unwrap(), ":\n\n");
                assert_eq!(start.elapsed().as_secs(), 20 * number);
            }
            resume();
        }
    }

    /// A proxy or a browser shows the stream as open only with its first bytes.
    #[tokio::test]
    async fn a_client_that_has_the_state_is_sent_a_comment_at_once() {
        let fixture = Fixture::new();
        let etag = fixture.answer().await.outcome.unwrap().plain().headers["etag"].clone();
        for is_compressed in [false, true] {
            let known = headers("last-event-id", etag.clone());
            let events = fixture.stream_with(is_compressed, known).await;
            let mut reader = Reader::new(events, is_compressed);
            pause();
            let start = Instant::now();
            assert_eq!(reader.next().await.unwrap(), ":\n\n");
            assert_eq!(start.elapsed(), Duration::ZERO);
            assert_eq!(reader.next().await.unwrap(), ":\n\n");
            assert_eq!(start.elapsed().as_secs(), 20);
            resume();
        }
    }

    #[tokio::test]
    async fn clients_share_the_bytes_of_an_event() {
        let fixture = Fixture::new();
        for is_compressed in [false, true] {
            let (mut streams, mut places) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let mut events = fixture.stream(is_compressed).await;
                if is_compressed {
                    events.next().await.unwrap();
                }
                places.push(events.next().await.unwrap().as_ptr());
                streams.push(events);
            }
            assert_eq!(places, [places[0]; 3], "{is_compressed}");
        }
    }

    /// A client that is slow takes only one event of a version with two.
    #[tokio::test]
    async fn the_state_after_the_event_that_it_is_stale_is_the_newest_one() {
        let fixture = Fixture::new();
        let mut reader = Reader::of(&fixture, false).await;
        assert!(reader.next().await.unwrap().contains("event: change\n"));
        let publish = async |publish: &dyn Fn()| {
            let before = fixture.tally.status().wakeups;
            publish();
            while fixture.tally.status().wakeups == before {
                yield_now().await;
            }
        };
        let push = |chain: &str| {
            fixture.publisher.update_state(|state| state.chains.push(chain.into()));
        };
        let unconfirmed = Some(Stale { since: Instant::now().into(), chains: true });
        publish(&|| push("second")).await;
        publish(&|| fixture.publisher.set_stale(unconfirmed)).await;
        assert!(reader.next().await.unwrap().starts_with("event: stale\n"));
        publish(&|| push("third")).await;
        let state = reader.next().await.unwrap();
        assert!(state.contains("event: change\n") && state.contains("third"), "{state}");
    }

    /// A client does not get the event that is too large for the memory of responses.
    #[tokio::test]
    async fn a_stream_that_is_given_up_ends_correctly() {
        let fixture = Fixture::new();
        for is_compressed in [false, true] {
            for taken in 0..4 {
                let mut reader = Reader::of(&fixture, is_compressed).await;
                let mut text = String::new();
                for chain in 0..taken {
                    let bytes = reader.events.next().await.unwrap();
                    text += &reader.text(&bytes);
                    let chain = format!("chain-{is_compressed}-{taken}-{chain}");
                    fixture.publisher.update_state(|state| state.chains.push(chain.into()));
                }
                reader.events.next().await.unwrap();
                let last = reader.events.give_up().unwrap();
                let last = reader.text(&last);
                assert!(last.starts_with("retry: ") && last.ends_with("\n\n"), "{last}");
                // The first part of a compressed stream is its header.
                let changes = if is_compressed { taken.max(1) - 1 } else { taken };
                assert_eq!(text.matches("event: change\n").count(), changes);
                assert_eq!(reader.next().await, None);
                assert_eq!(reader.events.give_up(), None);
            }
        }
    }

    #[tokio::test]
    async fn streams_end_at_random_moments_when_the_server_ends_them() {
        fastrand::seed(3);
        for is_compressed in [false, true] {
            let fixture = Fixture::new();
            let mut readers = Vec::new();
            for _ in 0..200 {
                let mut reader = Reader::of(&fixture, is_compressed).await;
                reader.next().await.unwrap();
                readers.push(reader);
            }
            let within = Duration::from_secs(60);
            pause();
            let start = Instant::now();
            fixture.live.end(within);
            let ends = readers.into_iter().map(async |mut reader| {
                let mut last = reader.next().await.unwrap();
                // A proxy would end a connection without data.
                while last == ":\n\n" {
                    last = reader.next().await.unwrap();
                }
                let end = start.elapsed();
                assert_eq!(reader.next().await, None);
                let retry = last.strip_prefix("retry: ").unwrap().trim_end().parse().unwrap();
                (end, Duration::from_millis(retry))
            });
            let (ends, retries): (Vec<_>, Vec<_>) = join_all(ends).await.into_iter().unzip();
            resume();
            check_spread(&ends, Duration::ZERO, within);
            let (least, most) = (Duration::from_millis(500), Duration::from_secs(3));
            check_spread(&retries, least, most);
        }
    }
}
