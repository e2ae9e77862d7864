//! Source: a running relayer, asked over its own REST API.
//!
//! The relayer answers two requests a second, whoever asks; so it is asked
//! one thing at a time: what it is doing often, what it is configured for
//! rarely, and one chain between two states so that a state is never old.
//!
//! While the relayer does not answer, what it last said stays, marked as
//! stale; when that is too old, what it is doing is not known.
//!
//! | file | job |
//! |---|---|
//! | `poller.rs` | what is asked when, and what becomes of the answers |
//! | `client.rs` | one question, within a time and a size |
//! | `chain_refresh.rs` | the chains, asked for one by one |
//! | `off_thread.rs` | reading and publishing, off the runtime's threads |
//! | `reports.rs` | which faults go into the log |
//! | `limits.rs` | the section `[upstream]` of the settings |

mod chain_refresh;
mod client;
mod limits;
mod off_thread;
mod poller;
mod reports;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use url::Url;

use super::{NotReady, StatePublisher};
pub use limits::UpstreamLimits;
use poller::Poller;

/// How a relayer is asked.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The base address of the relayer's API: `http://127.0.0.1:3000`.
    pub url: Url,
    /// The time between two questions for the state. Default: 1 s.
    pub poll: Duration,
    /// The time between two rounds of questions for versions and chains.
    /// Default: 5 min.
    pub refresh: Duration,
    /// How old a state may be to be shown: more than `poll`. Default: 5 min.
    pub max_stale: Duration,
    /// How long an answer may take. Default: 10 s.
    pub timeout: Duration,
    /// How large an answer may be, in bytes. Default: 64 MiB.
    pub body_limit: usize,
    /// Whether the chains are asked for, too; where not, they come from
    /// somewhere else. Default: true.
    pub chains: bool,
}

/// A URL that is not that of a relayer's API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the URL of a relayer's REST API: {0}; expected one such as http://127.0.0.1:3000")]
pub struct UpstreamUrlError(String);

impl Upstream {
    /// The relayer at this URL, asked as is usual.
    ///
    /// # Errors
    /// Where the URL is none, or not of the scheme http.
    pub fn new(url: &str) -> Result<Self, UpstreamUrlError> {
        let url = Url::parse(url).map_err(|error| UpstreamUrlError(error.to_string()))?;
        if url.scheme() != "http" || !url.has_host() {
            return Err(UpstreamUrlError(format!("the scheme is {}", url.scheme())));
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

    /// Publishes what the relayer answers, until this is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        let answered = watch::Sender::new(None);
        // No answer is too old before the next one is due.
        let enough = self.max_stale > self.poll;
        let max_stale = if enough { self.max_stale } else { self.poll + self.timeout };
        let expire = expire(answered.subscribe(), max_stale, publisher.clone());
        let Ok(poller) = Poller::new(self, publisher, answered) else {
            warn!("the relayer cannot be asked: this system cannot make HTTP requests");
            return;
        };
        tokio::join!(poller.run(), expire);
    }
}

/// Says that the state is not known once the last answer is too old.
async fn expire(
    mut answered: watch::Receiver<Option<Instant>>,
    max_stale: Duration,
    publisher: StatePublisher,
) {
    loop {
        let last = *answered.borrow_and_update();
        if let Some(last) = last {
            tokio::select! {
                biased;
                changed = answered.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = sleep_until(last + max_stale) => {
                    let for_long = humantime::format_duration(max_stale);
                    warn!("the relayer has not answered for {for_long}: /state answers 503 NotReady");
                    publisher.set_not_ready(NotReady {
                        message: format!("the relayer has not answered for {for_long}"),
                        ..NotReady::default()
                    });
                }
            }
        }
        if answered.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Upstream;

    #[test]
    fn only_urls_of_an_api_are_taken() {
        for url in ["http://127.0.0.1:3000", "http://relayer:80/base/", "http://[::1]:3000"] {
            Upstream::new(url).unwrap();
        }
        for url in ["", "127.0.0.1:3000", "localhost:3000", "https://h", "file:///x", "http://"] {
            let message = Upstream::new(url).unwrap_err().to_string();
            assert!(message.contains("expected one such as http://127.0.0.1:3000"), "{message}");
        }
    }
}
