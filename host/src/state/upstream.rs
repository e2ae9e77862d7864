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
//! | `client.rs` | one question, within a time and a size |
//! | `gathering.rs` | the chains, asked for one by one |

mod client;
mod gathering;

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};
use url::Url;

use super::relayer_json::{self, AnswerError, Read, UnreadField};
use super::{ChainConfig, ChainId, NotReady, Stale, StatePublisher};
use crate::backoff::Backoff;
use client::{GetError, Relayer};
use gathering::Gathering;

/// The first wait after a failure, unless there is more between two polls.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The longest: a relayer that is back is to be noticed soon, and one that is
/// not there is not bothered.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

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

/// Faults that go into the log, each once.
const MOST_REPORTS: usize = 1000;

struct Poller {
    settings: Upstream,
    relayer: Relayer,
    publisher: StatePublisher,
    /// When the relayer last answered.
    answered: watch::Sender<Option<Instant>>,
    /// When versions and chains are asked for again.
    refresh_at: Instant,
    /// When something besides the state is asked for again after a failure.
    rest_not_before: Instant,
    rest_backoff: Backoff,
    /// Chains that are being asked for.
    gathering: Option<Gathering>,
    /// The connected chains of the last state.
    connected: Vec<ChainId>,
    /// Faults that the log has already.
    reported: HashSet<String>,
    /// What went wrong last, unless it is over.
    failure: Option<String>,
}

/// Why a question got no answer of use.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("{endpoint}: {source}")]
    Get { endpoint: String, source: GetError },
    #[error("{endpoint}: {source}")]
    Answer { endpoint: String, source: AnswerError },
}

impl Poller {
    fn new(
        settings: Upstream,
        publisher: StatePublisher,
        answered: watch::Sender<Option<Instant>>,
    ) -> reqwest::Result<Self> {
        let relayer = Relayer::new(settings.url.clone(), settings.timeout, settings.body_limit)?;
        Ok(Self {
            relayer,
            publisher,
            answered,
            refresh_at: Instant::now(),
            rest_not_before: Instant::now(),
            rest_backoff: Backoff::new(settings.poll.max(FIRST_WAIT), LONGEST_WAIT),
            gathering: None,
            connected: Vec::new(),
            reported: HashSet::new(),
            failure: None,
            settings,
        })
    }

    async fn run(mut self) {
        let reason = NotReady {
            message: "the relayer has not answered yet".to_owned(),
            ..NotReady::default()
        };
        self.publisher.set_not_ready(reason.clone());
        if self.settings.chains {
            self.publisher.set_chains_not_ready(reason);
        }
        let mut backoff = Backoff::new(self.settings.poll.max(FIRST_WAIT), LONGEST_WAIT);
        loop {
            let wait = match self.state().await {
                Ok(()) => {
                    self.succeeded();
                    backoff.reset();
                    let done = self.rest().await;
                    // Until the chains are first known there is no pause
                    // between them.
                    let first = self.gathering.as_ref().is_some_and(Gathering::is_first);
                    if first && done { Duration::ZERO } else { self.settings.poll }
                }
                Err(error) => {
                    self.failed(&error);
                    if matches!(error, PollError::Answer { .. }) {
                        // It is there, and may know better of other things.
                        self.rest().await;
                    }
                    backoff.next()
                }
            };
            sleep(wait).await;
        }
    }

    /// What it is time for besides the state. A failure there is tried again
    /// later: what the relayer is doing is known all the same. Says whether
    /// all went well.
    async fn rest(&mut self) -> bool {
        if Instant::now() < self.rest_not_before {
            return false;
        }
        match self.try_rest().await {
            Ok(()) => {
                self.rest_backoff.reset();
                true
            }
            Err(error) => {
                self.report_once(&error.to_string());
                self.rest_not_before = Instant::now() + self.rest_backoff.next();
                false
            }
        }
    }

    async fn try_rest(&mut self) -> Result<(), PollError> {
        // What has begun is finished first, however long it takes.
        if self.refresh_at <= Instant::now() && self.gathering.is_none() {
            if let Err(error) = self.version().await {
                // The chains do not depend on it.
                self.report_once(&error.to_string());
            }
            if self.settings.chains {
                let is_first = self.publisher.reader().snapshot().chain_ids().value().is_err();
                let ids = self.ask(&["chains"], relayer_json::chain_ids).await?;
                self.gathering = Some(Gathering::new(ids, is_first));
            }
            self.refresh_at = Instant::now() + self.settings.refresh;
        }
        self.chain().await
    }

    async fn state(&mut self) -> Result<(), PollError> {
        let Read { value, unread } = self.ask(&["state"], relayer_json::state).await?;
        self.report("/state", unread);
        let mut connected = value.chains.clone();
        connected.sort();
        if connected != self.connected {
            // Chains came or went: their configurations may have, too.
            self.connected = connected;
            self.refresh_at = Instant::now();
        }
        self.publisher.set_state(value);
        Ok(())
    }

    async fn version(&mut self) -> Result<(), PollError> {
        let components = self.ask(&["version"], relayer_json::version).await?;
        self.publisher.set_components(components);
        Ok(())
    }

    /// One chain of those that are being asked for; all are published at once.
    async fn chain(&mut self) -> Result<(), PollError> {
        let Some(mut gathering) = self.gathering.take() else { return Ok(()) };
        if let Some(id) = gathering.next() {
            let id = id.clone();
            let answer = self.ask(&["chain", id.as_str()], relayer_json::chain).await;
            match answer {
                Ok(Read { value, unread }) => {
                    self.report(&format!("/chain/{id}"), unread);
                    gathering.found(ChainConfig { id, ..value });
                }
                Err(PollError::Answer { source: AnswerError::Refused { name, .. }, .. })
                    if name == "ChainConfigNotFound" =>
                {
                    debug!(%id, "the relayer lists a chain that it does not have");
                    gathering.not_found();
                }
                Err(error) => {
                    self.gathering = Some(gathering);
                    return Err(error);
                }
            }
        }
        match gathering.done() {
            Ok(chains) => {
                self.publisher.set_chains(chains).expect("each chain is asked for once");
            }
            Err(gathering) => self.gathering = Some(gathering),
        }
        Ok(())
    }

    async fn ask<T>(
        &self,
        segments: &[&str],
        read: impl Fn(&[u8]) -> Result<T, AnswerError>,
    ) -> Result<T, PollError> {
        let endpoint = || format!("/{}", segments.join("/"));
        let body = self
            .relayer
            .get(segments)
            .await
            .map_err(|source| PollError::Get { endpoint: endpoint(), source })?;
        read(&body).map_err(|source| PollError::Answer { endpoint: endpoint(), source })
    }

    fn succeeded(&mut self) {
        self.answered.send_replace(Some(Instant::now()));
        self.publisher.set_stale(None);
        if self.failure.take().is_some() {
            info!("the relayer answers");
            // It may have another configuration now.
            self.refresh_at = Instant::now();
        }
    }

    fn failed(&mut self, error: &PollError) {
        let message = error.to_string();
        if self.failure.as_ref() == Some(&message) {
            debug!("{message}");
        } else {
            warn!("the relayer does not answer as it should: {message}; trying again");
        }
        self.failure = Some(message);
        let last = *self.answered.borrow();
        let chains = self.settings.chains;
        self.publisher.set_stale(last.map(|last| Stale { since: last.into_std(), chains }));
    }

    fn report(&mut self, endpoint: &str, unread: Vec<UnreadField>) {
        for UnreadField { field, message } in unread {
            if self.is_new(format!("{endpoint} {field}")) {
                warn!(endpoint, field, "a field of the relayer's answer is left out: {message}");
            }
        }
    }

    /// Whether the log does not have this yet. It has so many at the most.
    fn is_new(&mut self, fault: String) -> bool {
        self.reported.len() < MOST_REPORTS && self.reported.insert(fault)
    }

    fn report_once(&mut self, message: &str) {
        if self.is_new(message.to_owned()) {
            warn!("an answer of the relayer is not used: {message}");
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
