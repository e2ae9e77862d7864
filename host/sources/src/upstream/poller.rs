//! Schedules the requests to a relayer and publishes the responses.

use std::time::Duration;

use relayer_rest_common::backoff::Backoff;
use relayer_rest_common::text::for_log;
use relayer_rest_state::{ChainConfig, ChainId, NotReady, Stale, StatePublisher};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::Upstream;
use super::chain_refresh::ChainRefresh;
use super::client::{GetError, Relayer};
use super::off_thread::{Gate, off_thread};
use super::reports::Reports;
use crate::{
    relayer_json,
    relayer_json::{Read, ResponseError, UnreadField},
};

/// The first delay after a failure, unless the poll interval is longer.
const MIN_WAIT: Duration = Duration::from_millis(500);

/// The maximum delay after a failure: a relayer that is back must be noticed soon, but
/// one that is down must not be flooded with requests.
const MAX_WAIT: Duration = Duration::from_secs(5);

pub(super) struct Poller {
    settings: Upstream,
    relayer: Relayer,
    publisher: StatePublisher,
    /// Publishes from other threads.
    gate: Gate,
    /// The time of the last usable response with a state.
    last_response: watch::Sender<Option<Instant>>,
    /// The time of the next refresh of versions and chains.
    refresh_at: Instant,
    /// The earliest time of the next metadata request after a failure.
    rest_not_before: Instant,
    rest_backoff: Backoff,
    /// The latest refresh of the chains, which may still be in progress.
    refresh: Option<ChainRefresh>,
    /// The connected chains of the last state.
    connected: Vec<ChainId>,
    reports: Reports,
    /// The message of the last failure, until the relayer recovers.
    failure: Option<String>,
}

/// The reason why a request has no usable response.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("{endpoint}: {source}")]
    Get { endpoint: String, source: GetError },
    #[error("{endpoint}: {source}")]
    Response { endpoint: String, source: ResponseError },
}

impl Poller {
    pub(super) fn new(
        settings: Upstream,
        publisher: StatePublisher,
        last_response: watch::Sender<Option<Instant>>,
    ) -> reqwest::Result<Self> {
        let relayer = Relayer::new(settings.url.clone(), settings.timeout, settings.body_limit)?;
        Ok(Self {
            relayer,
            gate: Gate::new(publisher.clone()),
            publisher,
            last_response,
            refresh_at: Instant::now(),
            rest_not_before: Instant::now(),
            rest_backoff: Backoff::new(settings.poll.max(MIN_WAIT), MAX_WAIT),
            refresh: None,
            connected: Vec::new(),
            reports: Reports::new(),
            failure: None,
            settings,
        })
    }

    pub(super) async fn run(mut self) {
        let reason = NotReady {
            message: "the relayer has not responded yet".to_owned(),
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
                    // Requests for chains follow without a pause until each has been
                    // requested once.
                    let first = self.refresh.as_ref().is_some_and(ChainRefresh::is_first);
                    if first && done { Duration::ZERO } else { self.settings.poll }
                }
                Err(error) => {
                    self.failed(&error);
                    if matches!(error, PollError::Response { .. }) {
                        // The relayer responds, so other endpoints may still be usable.
                        self.refresh_metadata().await;
                    }
                    backoff.next_delay()
                }
            };
            sleep(wait).await;
        }
    }

    /// Refreshes versions and chains if they are due. A failure is retried later, because
    /// it does not affect the state. Returns whether it ran without a failure.
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
                self.rest_not_before = Instant::now() + self.rest_backoff.next_delay();
                false
            }
        }
    }

    async fn try_refresh_metadata(&mut self) -> Result<(), PollError> {
        // A refresh in progress is completed first, however long it takes.
        let is_done = self.refresh.as_ref().is_none_or(ChainRefresh::is_complete);
        if self.refresh_at <= Instant::now() && is_done {
            if let Err(error) = self.version().await {
                // The chains do not depend on it.
                self.report_once(&error.to_string());
            }
            if self.settings.chains {
                let is_first = self.publisher.reader().snapshot().chain_ids().value().is_err();
                let Read { value, unread } =
                    self.request(&["chains"], relayer_json::chain_ids).await?;
                self.report("/chains", unread);
                self.refresh = Some(ChainRefresh::new(value, is_first, Instant::now()));
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
        let (connected, unread) = self.request(&["state"], read).await?;
        self.report("/state", unread);
        if connected != self.connected {
            // If the connected chains have changed, the configurations may have changed,
            // too.
            self.connected = connected;
            self.refresh_at = Instant::now();
        }
        Ok(())
    }

    async fn version(&mut self) -> Result<(), PollError> {
        let components = self.request(&["version"], relayer_json::version).await?;
        self.publisher.set_components(components);
        Ok(())
    }

    /// Requests the next chain and publishes the chains that are due. A chain that cannot
    /// be read does not affect the others.
    async fn chain(&mut self) -> Result<(), PollError> {
        let Some(mut refresh) = self.refresh.take() else { return Ok(()) };
        let result = match refresh.next(Instant::now()).cloned() {
            Some(id) => self.request_chain(&mut refresh, id).await,
            None => Ok(()),
        };
        if let Some(due) = refresh.take_due(Instant::now()) {
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
        self.refresh = Some(refresh);
        result
    }

    /// Requests a chain. Returns only errors that may affect other chains, too.
    async fn request_chain(
        &mut self,
        refresh: &mut ChainRefresh,
        id: ChainId,
    ) -> Result<(), PollError> {
        let endpoint = endpoint(&["chain", id.as_str()]);
        match self.request(&["chain", id.as_str()], relayer_json::chain).await {
            Ok(Read { value, unread }) => {
                self.reports.is_over(&endpoint);
                self.report(&endpoint, unread);
                refresh.found(ChainConfig { id, ..value });
            }
            Err(PollError::Response { source: ResponseError::Refused { name, .. }, .. })
                if name == "ChainConfigNotFound" =>
            {
                debug!(endpoint, "the relayer lists a chain that it does not know");
                refresh.not_found(&id);
            }
            Err(error) => {
                refresh.unreadable(&id, Instant::now());
                if self.reports.is_new(&endpoint) {
                    warn!(%error, "chain omitted until it can be read");
                }
                if let PollError::Get { source: GetError::Unreachable(_), .. } = error {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Sends a request and parses the response on another thread.
    async fn request<T: Send + 'static>(
        &self,
        segments: &[&str],
        read: impl FnOnce(&[u8]) -> Result<T, ResponseError> + Send + 'static,
    ) -> Result<T, PollError> {
        let body = self
            .relayer
            .get(segments)
            .await
            .map_err(|source| PollError::Get { endpoint: endpoint(segments), source })?;
        off_thread(move || read(&body))
            .await
            .map_err(|source| PollError::Response { endpoint: endpoint(segments), source })
    }

    fn succeeded(&mut self) {
        self.last_response.send_replace(Some(Instant::now()));
        // The previous response may have expired while this one was read.
        self.publisher.set_ready();
        self.publisher.set_stale(None);
        if self.failure.take().is_some() {
            if self.reports.is_allowed() {
                info!("relayer reachable");
            }
            // The relayer may have a different configuration now.
            self.refresh_at = Instant::now();
        }
    }

    fn failed(&mut self, error: &PollError) {
        let message = error.to_string();
        if self.failure.as_ref() == Some(&message) {
            debug!(error = message, "polling the relayer failed; retrying");
        } else if self.reports.is_allowed() {
            warn!(error = message, "polling the relayer failed; retrying");
        }
        self.failure = Some(message);
        let last = *self.last_response.borrow();
        let chains = self.settings.chains;
        self.publisher.set_stale(last.map(|last| Stale { since: last.into_std(), chains }));
    }

    fn report(&mut self, endpoint: &str, unread: Vec<UnreadField>) {
        for UnreadField { field, message } in unread {
            if self.reports.is_new((endpoint, &field)) {
                warn!(endpoint, field, reason = message, "field of the relayer omitted");
            }
        }
    }

    fn report_once(&mut self, message: &str) {
        if self.reports.is_new(message) {
            warn!(reason = message, "response of the relayer rejected");
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.gate.close();
    }
}

/// Returns the path in the form used in messages.
fn endpoint(segments: &[&str]) -> String {
    for_log(&format!("/{}", segments.join("/")))
}
