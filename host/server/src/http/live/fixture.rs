//! Clients that wait for a response of the bundled module, for tests with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use relayer_rest_modules::DEFAULT_MODULE;
use relayer_rest_sandbox::{Engine, GuestRequest, Limits, Module};
use relayer_rest_state::{RelayerState, StatePublisher};
use tokio::task::yield_now;

use super::event_stream::EventStream;
use super::resolve::{self, Answer};
use super::{Client, Live, LiveLimits, LiveTally, Refusal, Waiter};
use crate::http::connections::Peer;
use crate::registry::{Mount, Registry};

/// The path that the clients wait for.
const PATH: &str = "/state";

/// A server without listeners.
pub(super) struct Fixture {
    pub(super) live: Live,
    pub(super) publisher: StatePublisher,
    pub(super) registry: Arc<Registry>,
    pub(super) tally: LiveTally,
}

impl Fixture {
    /// Creates the server, and a state with one chain.
    pub(super) fn new() -> Self {
        Self::with_limits("")
    }

    /// Creates the server with further limits of its modules.
    pub(super) fn with_limits(more: &str) -> Self {
        // A busy machine must not end a run.
        let limits = format!("time = '1h'\nqueue-wait = '1h'\n{more}");
        let limits: Limits = toml::from_str(&limits).unwrap();
        let engine = Engine::new(&limits).unwrap();
        let module = Module::from_bytes(&engine, "test", DEFAULT_MODULE).unwrap();
        let registry = Arc::new(Registry::new(Mount::api(module)));
        let publisher = StatePublisher::new();
        publisher.set_state(RelayerState { chains: vec!["a".into()], workers: vec![] });
        let state = publisher.reader();
        let limits = LiveLimits::default();
        let tally = LiveTally::default();
        let live = Live::new(Arc::clone(&registry), state, limits, tally.clone());
        Self { live, publisher, registry, tally }
    }

    /// Lets a client wait whose request has these headers.
    pub(super) async fn wait(&self, headers: HeaderMap) -> Result<Waiter, Refusal> {
        self.wait_after(headers, self.answer().await).await
    }

    /// Lets a client wait that has this answer.
    pub(super) async fn wait_after(
        &self,
        headers: HeaderMap,
        answer: Answer,
    ) -> Result<Waiter, Refusal> {
        let request = GuestRequest::new(Method::GET, PATH.parse().unwrap(), headers);
        self.live.wait(Client::new(&request, Peer::SEVERAL), answer).await
    }

    /// Returns the current answer.
    pub(super) async fn answer(&self) -> Answer {
        self.answer_to(&request(PATH)).await
    }

    /// Returns the current answer to a request.
    pub(super) async fn answer_to(&self, request: &GuestRequest) -> Answer {
        let state = self.publisher.reader();
        match resolve::find(&self.registry, &state, request) {
            Ok(answer) => answer,
            Err(missed) => missed.run(&state).await,
        }
    }

    /// Returns the stream of a client that accepts it compressed or not.
    pub(super) async fn stream(&self, is_compressed: bool) -> EventStream {
        self.stream_with(is_compressed, HeaderMap::new()).await
    }

    /// Returns the stream of a client whose request has further headers.
    pub(super) async fn stream_with(&self, is_compressed: bool, headers: HeaderMap) -> EventStream {
        let waiter = self.wait(headers.clone()).await.unwrap();
        EventStream::new(waiter, false, is_compressed, &headers)
    }

    /// Returns a request that has the current response, with its client and its answer.
    pub(super) async fn poll(&self) -> (Request<()>, Client, Answer) {
        let answer = self.answer().await;
        let etag = answer.outcome.as_ref().unwrap().plain().headers["etag"].clone();
        let mut request = Request::get(PATH).body(()).unwrap();
        *request.headers_mut() = headers("if-none-match", etag);
        let headers = request.headers().clone();
        let guest_request = GuestRequest::new(Method::GET, PATH.parse().unwrap(), headers);
        (request, Client::new(&guest_request, Peer::SEVERAL), answer)
    }

    /// Lets the clients of this thread wait although there is a newer version.
    pub(super) fn delay_wakeups(&self) {
        self.live.0.entries().delay_wakeups();
    }

    /// Returns as soon as this number of clients wait.
    pub(super) async fn waiting(&self, count: u64) {
        while self.tally.status().waiters < count {
            yield_now().await;
        }
    }
}

/// Returns a request for this path without headers.
pub(super) fn request(path: &str) -> GuestRequest {
    GuestRequest::new(Method::GET, path.parse().unwrap(), HeaderMap::new())
}

/// The resolution of timers, to which a time is rounded up.
pub(super) const RESOLUTION: Duration = Duration::from_millis(1);

/// Returns a map with this header.
pub(super) fn headers(name: &'static str, value: HeaderValue) -> HeaderMap {
    [(HeaderName::from_static(name), value)].into_iter().collect()
}

/// Checks that moments are spread over a time: each tenth of it has some.
pub(super) fn check_spread(moments: &[Duration], from: Duration, to: Duration) {
    let mut tenths = [0; 10];
    for moment in moments {
        assert!((from..=to + RESOLUTION).contains(moment), "{moment:?}");
        let place =
            (moment.as_secs_f64() - from.as_secs_f64()) / (to.as_secs_f64() - from.as_secs_f64());
        // It is between 0 and 1.
        let tenth = (0..10).rev().find(|tenth| place >= f64::from(*tenth) / 10.0);
        tenths[usize::try_from(tenth.unwrap()).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|count| *count > 0), "{tenths:?}");
}
