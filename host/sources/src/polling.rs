//! Polls a relayer through its own API, over HTTP or within its process.
//!
//! The relayer serves two requests per second across all clients. Therefore requests are
//! sent one at a time: the state often, versions and configurations rarely, and chains that
//! are not known yet between two states, so that the state is never old.
//!
//! While the relayer does not respond, its last known state stays published, marked as
//! stale; when it is older than [`Polling::max_stale`], the state is no longer known.
//!
//! | file | job |
//! |---|---|
//! | `poller.rs` | sends the requests that are due and publishes the responses |
//! | `chain_refresh.rs` | the chains, requested one by one |
//! | `reports.rs` | limits the faults that are logged |

mod chain_refresh;
mod poller;
mod reports;

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use relayer_rest_common::text::for_log;
use relayer_rest_state::{ChainId, NotReady, SourceKind, StatePublisher};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use poller::Poller;

/// The settings for polling a relayer.
#[derive(Debug, Clone)]
pub struct Polling {
    /// The pause between two polls of the state. Default: 1 s.
    pub poll: Duration,
    /// The time between two refreshes of versions and chains. Default: 5 min.
    pub refresh: Duration,
    /// The maximum age of a published state: more than `poll`. Default: 5 min.
    pub max_stale: Duration,
    /// The time limit of a request. Default: 2 s, so that a relayer that stops responding
    /// is detected within 3 s.
    pub timeout: Duration,
    /// Whether to request the chains, too; if not, they come from another source.
    /// Default: true.
    pub chains: bool,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            refresh: Duration::from_mins(5),
            max_stale: Duration::from_mins(5),
            timeout: Duration::from_secs(2),
            chains: true,
        }
    }
}

/// The API of a relayer.
pub trait RelayerApi: Send + Sync + 'static {
    /// Returns the kind of source, and its location without secrets.
    fn source(&self) -> (SourceKind, String);

    /// Requests an endpoint, and returns the body of the response: JSON as the relayer's own
    /// REST API sends it. The caller limits the time, and drops the future when it is over.
    ///
    /// An error that the relayer reports in its JSON is a response, too.
    ///
    /// # Errors
    /// Returns an error if there is no usable response.
    fn get(
        &self,
        endpoint: &Endpoint,
    ) -> impl Future<Output = Result<Vec<u8>, RequestError>> + Send;
}

/// An endpoint of a relayer's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `/version`
    Version,
    /// `/chains`
    Chains,
    /// `/chain/:id`
    Chain(ChainId),
    /// `/state`
    State,
}

impl Endpoint {
    /// Returns the segments of the path, not percent-encoded.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Version => ("version", None),
            Self::Chains => ("chains", None),
            Self::Chain(id) => ("chain", Some(id.as_str())),
            Self::State => ("state", None),
        };
        std::iter::once(first).chain(second)
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path: String = self.segments().flat_map(|segment| ["/", segment]).collect();
        f.write_str(&for_log(&path))
    }
}

/// A request without a usable response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The relayer did not respond.
    #[error("{0}")]
    Unreachable(String),
    /// The response was too large.
    #[error("the response is larger than {0} bytes; raise upstream.body")]
    TooLarge(usize),
    /// The status is neither a success nor a client error with a JSON object.
    #[error("unexpected status {0}")]
    Status(u16),
}

impl Polling {
    /// Publishes the relayer's responses until the future is dropped.
    pub async fn run(self, api: impl RelayerApi, publisher: StatePublisher) {
        let last_response = watch::Sender::new(None);
        // A response must not expire before the next one is due.
        let enough = self.max_stale > self.poll;
        let max_stale = if enough { self.max_stale } else { self.poll + self.timeout };
        let expire = expire(last_response.subscribe(), max_stale, publisher.clone());
        tokio::join!(Poller::new(self, api, publisher, last_response).run(), expire);
    }
}

/// Marks the state as not known when the last response is too old.
async fn expire(
    mut last_response: watch::Receiver<Option<Instant>>,
    max_stale: Duration,
    publisher: StatePublisher,
) {
    loop {
        let last = *last_response.borrow_and_update();
        if let Some(last) = last {
            tokio::select! {
                biased;
                changed = last_response.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = sleep_until(last + max_stale) => {
                    let for_long = humantime::format_duration(max_stale);
                    warn!(max_stale = %for_long, "state expired");
                    publisher.set_not_ready(NotReady {
                        message: format!("the relayer has not responded for {for_long}"),
                        ..NotReady::default()
                    });
                }
            }
        }
        if last_response.changed().await.is_err() {
            return;
        }
    }
}
