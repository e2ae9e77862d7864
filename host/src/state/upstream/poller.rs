//! What a relayer is asked when, and what becomes of its answers.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::Upstream;
use super::chain_refresh::ChainRefresh;
use super::client::{GetError, Relayer};
use super::off_thread::{Gate, off_thread};
use super::reports::Reports;
use crate::backoff::Backoff;
use crate::state::relayer_json::{self, AnswerError, Read, UnreadField};
use crate::state::{ChainConfig, ChainId, NotReady, Stale, StatePublisher};
use crate::text::for_log;

/// The first wait after a failure, unless there is more between two polls.
const MIN_WAIT: Duration = Duration::from_millis(500);

/// The longest: a relayer that is back is to be noticed soon, and one that is
/// not there is not bothered.
const MAX_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Poller {
    settings: Upstream,
    relayer: Relayer,
    publisher: StatePublisher,
    /// Where other threads publish.
    gate: Gate,
    /// When the relayer last answered.
    answered: watch::Sender<Option<Instant>>,
    /// When versions and chains are asked for again.
    refresh_at: Instant,
    /// When something besides the state is asked for again after a failure.
    rest_not_before: Instant,
    rest_backoff: Backoff,
    /// Chains that are being asked for.
    gathering: Option<ChainRefresh>,
    /// The connected chains of the last state.
    connected: Vec<ChainId>,
    reports: Reports,
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
    pub(super) fn new(
        settings: Upstream,
        publisher: StatePublisher,
        answered: watch::Sender<Option<Instant>>,
    ) -> reqwest::Result<Self> {
        let relayer = Relayer::new(settings.url.clone(), settings.timeout, settings.body_limit)?;
        Ok(Self {
            relayer,
            gate: Gate::new(publisher.clone()),
            publisher,
            answered,
            refresh_at: Instant::now(),
            rest_not_before: Instant::now(),
            rest_backoff: Backoff::new(settings.poll.max(MIN_WAIT), MAX_WAIT),
            gathering: None,
            connected: Vec::new(),
            reports: Reports::new(),
            failure: None,
            settings,
        })
    }

    pub(super) async fn run(mut self) {
        let reason = NotReady {
            message: "the relayer has not answered yet".to_owned(),
            ..NotReady::default()
        };
        self.publisher.set_not_ready(reason.clone());
        if self.settings.chains {
            self.publisher.set_chains_not_ready(reason);
        }
        let mut backoff = Backoff::new(self.settings.poll.max(MIN_WAIT), MAX_WAIT);
        loop {
            let wait = match self.state().await {
                Ok(()) => {
                    self.succeeded();
                    backoff.reset();
                    let done = self.refresh_metadata().await;
                    // Until the chains are first known there is no pause
                    // between them.
                    let first = self.gathering.as_ref().is_some_and(ChainRefresh::is_first);
                    if first && done { Duration::ZERO } else { self.settings.poll }
                }
                Err(error) => {
                    self.failed(&error);
                    if matches!(error, PollError::Answer { .. }) {
                        // It is there, and may know better of other things.
                        self.refresh_metadata().await;
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
    async fn refresh_metadata(&mut self) -> bool {
        if Instant::now() < self.rest_not_before {
            return false;
        }
        match self.try_refresh_metadata().await {
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

    async fn try_refresh_metadata(&mut self) -> Result<(), PollError> {
        // What has begun is finished first, however long it takes.
        let is_done = self.gathering.as_ref().is_none_or(ChainRefresh::is_complete);
        if self.refresh_at <= Instant::now() && is_done {
            if let Err(error) = self.version().await {
                // The chains do not depend on it.
                self.report_once(&error.to_string());
            }
            if self.settings.chains {
                let is_first = self.publisher.reader().snapshot().chain_ids().value().is_err();
                let Read { value, unread } = self.ask(&["chains"], relayer_json::chain_ids).await?;
                self.report("/chains", unread);
                self.gathering = Some(ChainRefresh::new(value, is_first, Instant::now()));
            }
            self.refresh_at = Instant::now() + self.settings.refresh;
        }
        self.chain().await
    }

    async fn state(&mut self) -> Result<(), PollError> {
        let gate = self.gate.clone();
        let read = move |body: &[u8]| {
            let Read { value, unread } = relayer_json::state(body)?;
            let mut connected = value.chains.clone();
            connected.sort();
            gate.publish(|publisher| publisher.set_state(value));
            Ok((connected, unread))
        };
        let (connected, unread) = self.ask(&["state"], read).await?;
        self.report("/state", unread);
        if connected != self.connected {
            // Chains came or went: their configurations may have, too.
            self.connected = connected;
            self.refresh_at = Instant::now();
        }
        Ok(())
    }

    async fn version(&mut self) -> Result<(), PollError> {
        let components = self.ask(&["version"], relayer_json::version).await?;
        self.publisher.set_components(components);
        Ok(())
    }

    /// One chain of those that are being asked for; all are published at once.
    /// A chain that cannot be read is a fault of that chain alone.
    async fn chain(&mut self) -> Result<(), PollError> {
        let Some(mut gathering) = self.gathering.take() else { return Ok(()) };
        let asked = match gathering.next(Instant::now()).cloned() {
            Some(id) => self.ask_chain(&mut gathering, id).await,
            None => Ok(()),
        };
        if let Some(due) = gathering.take_due(Instant::now()) {
            let gate = self.gate.clone();
            off_thread(move || {
                gate.publish(|publisher| {
                    if let Some(chains) = due.chains(&publisher.reader().snapshot()) {
                        publisher.set_chains(chains).expect("each chain is there once");
                    }
                });
            })
            .await;
        }
        self.gathering = Some(gathering);
        asked
    }

    /// Asks for a chain. An error is one that others may have, too.
    async fn ask_chain(
        &mut self,
        gathering: &mut ChainRefresh,
        id: ChainId,
    ) -> Result<(), PollError> {
        let endpoint = endpoint(&["chain", id.as_str()]);
        match self.ask(&["chain", id.as_str()], relayer_json::chain).await {
            Ok(Read { value, unread }) => {
                self.reports.is_over(&endpoint);
                self.report(&endpoint, unread);
                gathering.found(ChainConfig { id, ..value });
            }
            Err(PollError::Answer { source: AnswerError::Refused { name, .. }, .. })
                if name == "ChainConfigNotFound" =>
            {
                debug!(endpoint, "the relayer lists a chain that it does not have");
                gathering.not_found(&id);
            }
            Err(error) => {
                gathering.unreadable(&id, Instant::now());
                if self.reports.is_new(&endpoint) {
                    warn!("a chain is not used until it can be read: {error}");
                }
                if let PollError::Get { source: GetError::Unreachable(_), .. } = error {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Asks for something, and reads the answer on another thread.
    async fn ask<T: Send + 'static>(
        &self,
        segments: &[&str],
        read: impl FnOnce(&[u8]) -> Result<T, AnswerError> + Send + 'static,
    ) -> Result<T, PollError> {
        let body = self
            .relayer
            .get(segments)
            .await
            .map_err(|source| PollError::Get { endpoint: endpoint(segments), source })?;
        off_thread(move || read(&body))
            .await
            .map_err(|source| PollError::Answer { endpoint: endpoint(segments), source })
    }

    fn succeeded(&mut self) {
        self.answered.send_replace(Some(Instant::now()));
        // The last answer may have become too old while this one was read.
        self.publisher.set_ready();
        self.publisher.set_stale(None);
        if self.failure.take().is_some() {
            if self.reports.is_allowed() {
                info!("the relayer answers");
            }
            // It may have another configuration now.
            self.refresh_at = Instant::now();
        }
    }

    fn failed(&mut self, error: &PollError) {
        let message = error.to_string();
        if self.failure.as_ref() == Some(&message) {
            debug!("{message}");
        } else if self.reports.is_allowed() {
            warn!("the relayer does not answer as it should: {message}; trying again");
        }
        self.failure = Some(message);
        let last = *self.answered.borrow();
        let chains = self.settings.chains;
        self.publisher.set_stale(last.map(|last| Stale { since: last.into_std(), chains }));
    }

    fn report(&mut self, endpoint: &str, unread: Vec<UnreadField>) {
        for UnreadField { field, message } in unread {
            if self.reports.is_new((endpoint, &field)) {
                warn!(endpoint, field, "a field of the relayer's answer is left out: {message}");
            }
        }
    }

    fn report_once(&mut self, message: &str) {
        if self.reports.is_new(message) {
            warn!("an answer of the relayer is not used: {message}");
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.gate.close();
    }
}

/// Returns the path as messages have it.
fn endpoint(segments: &[&str]) -> String {
    for_log(&format!("/{}", segments.join("/")))
}
