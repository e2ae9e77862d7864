//! Source: a running relayer, polled over its own REST API.
//!
//! The relayer serves two requests per second across all clients. Therefore requests are
//! sent one at a time: the state often, versions and configurations rarely, and one chain
//! between two states so that the state is never old.
//!
//! While the relayer does not respond, its last known state stays published, marked as
//! stale; when it is older than [`Upstream::max_stale`], the state is no longer known.
//!
//! | file | job |
//! |---|---|
//! | `poller.rs` | schedules the requests and publishes the responses |
//! | `client.rs` | one request, within a time limit and a size limit |
//! | `chain_refresh.rs` | the chains, requested one by one |
//! | `off_thread.rs` | reading and publishing, off the runtime's threads |
//! | `reports.rs` | limits the faults that are logged |

mod chain_refresh;
mod client;
mod off_thread;
mod poller;
mod reports;

use std::time::Duration;

use relayer_rest_state::{NotReady, StatePublisher};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use url::Url;

use poller::Poller;

/// The settings for polling a relayer.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The base address of the relayer's API: `http://127.0.0.1:3000`.
    pub url: Url,
    /// The pause between two polls of the state. Default: 1 s.
    pub poll: Duration,
    /// The time between two refreshes of versions and chains. Default: 5 min.
    pub refresh: Duration,
    /// The maximum age of a published state: more than `poll`. Default: 5 min.
    pub max_stale: Duration,
    /// The time limit of a request. Default: 10 s.
    pub timeout: Duration,
    /// The maximum size of a response, in bytes. Default: 64 MiB.
    pub body_limit: usize,
    /// Whether to request the chains, too; if not, they come from another source.
    /// Default: true.
    pub chains: bool,
}

/// A URL that cannot be the URL of a relayer's API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the URL of a relayer's REST API: {0}; expected one such as http://127.0.0.1:3000")]
pub struct UpstreamUrlError(String);

impl Upstream {
    /// Creates the default settings for the relayer at this URL.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or its scheme is not http.
    pub fn new(url: &str) -> Result<Self, UpstreamUrlError> {
        let url = Url::parse(url).map_err(|error| UpstreamUrlError(error.to_string()))?;
        if url.scheme() != "http" || !url.has_host() {
            return Err(UpstreamUrlError(format!("unsupported scheme {}", url.scheme())));
        }
        Ok(Self {
            url,
            poll: Duration::from_secs(1),
            refresh: Duration::from_mins(5),
            max_stale: Duration::from_mins(5),
            timeout: Duration::from_secs(10),
            body_limit: 64 << 20,
            chains: true,
        })
    }

    /// Publishes the relayer's responses until the future is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        let last_response = watch::Sender::new(None);
        // A response must not expire before the next one is due.
        let enough = self.max_stale > self.poll;
        let max_stale = if enough { self.max_stale } else { self.poll + self.timeout };
        let expire = expire(last_response.subscribe(), max_stale, publisher.clone());
        let poller = match Poller::new(self, publisher, last_response) {
            Ok(poller) => poller,
            Err(error) => {
                warn!(%error, "cannot poll the relayer: no HTTP client can be created");
                return;
            }
        };
        tokio::join!(poller.run(), expire);
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

#[cfg(test)]
mod tests {
    use super::Upstream;

    #[test]
    fn only_urls_of_an_api_are_accepted() {
        for url in ["http://127.0.0.1:3000", "http://relayer:80/base/", "http://[::1]:3000"] {
            Upstream::new(url).unwrap();
        }
        for url in ["", "127.0.0.1:3000", "localhost:3000", "https://h", "file:///x", "http://"] {
            let message = Upstream::new(url).unwrap_err().to_string();
            assert!(message.contains("expected one such as http://127.0.0.1:3000"), "{message}");
        }
    }
}
