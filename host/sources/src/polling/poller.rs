//! Sends the requests that are due to a relayer, and publishes the responses.

use std::collections::HashSet;
use std::time::Duration;

use relayer_rest_common::backoff::Backoff;
use relayer_rest_state::{
    ChainConfig, ChainId, ListedChain, NotReady, SourceReporter, Stale, StatePublisher,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::chain_refresh::ChainRefresh;
use super::reports::Reports;
use super::{Endpoint, Polling, RelayerApi, RequestError};
use crate::off_thread::{Gate, off_thread};
use crate::{
    relayer_json,
    relayer_json::{Read, ResponseError, UnreadField},
};

/// The first delay after a failure, unless the poll interval is longer.
const MIN_WAIT: Duration = Duration::from_millis(500);

/// The maximum delay after a failure: a relayer that is back must be noticed soon, but
/// one that is down must not be flooded with requests.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The delay after an unusable response with the version, on which nothing else depends.
const VERSION_WAIT: Duration = Duration::from_mins(1);

pub(super) struct Poller<A> {
    settings: Polling,
    api: A,
    publisher: StatePublisher,
    source: SourceReporter,
    /// Publishes from other threads.
    gate: Gate,
    /// The time of the last usable response with a state.
    last_response: watch::Sender<Option<Instant>>,
    /// The times of the next requests.
    state_at: Instant,
    version_at: Instant,
    chains_at: Instant,
    /// The earliest time of the next request for anything but the state, after a failure.
    metadata_not_before: Instant,
    /// Whether the latest request was for the state: a chain may follow.
    is_after_state: bool,
    /// Whether the latest request was for the first list: a requested chain may follow.
    is_after_list: bool,
    /// Whether the chains have been listed, or need not be now.
    is_listed: bool,
    state_backoff: Backoff,
    metadata_backoff: Backoff,
    chains: ChainRefresh,
    /// The times of the requests whose responses have the published version and list.
    version_requested: Option<Instant>,
    list_requested: Option<Instant>,
    /// The connected chains of the last state, if there was one.
    connected: Option<Vec<ChainId>>,
    reports: Reports,
    /// The message of the last failure, until the relayer recovers.
    failure: Option<String>,
}

/// The reason why a request has no usable response.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("{endpoint}: {source}")]
    Request { endpoint: Endpoint, source: RequestError },
    #[error("{endpoint}: {source}")]
    Response { endpoint: Endpoint, source: ResponseError },
}

impl PollError {
    /// Returns whether the relayer does not respond at all.
    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Request { source: RequestError::Unreachable(_), .. })
    }
}

impl<A: RelayerApi> Poller<A> {
    pub(super) fn new(
        settings: Polling,
        api: A,
        publisher: StatePublisher,
        last_response: watch::Sender<Option<Instant>>,
    ) -> Self {
        let now = Instant::now();
        let (kind, location) = api.source();
        let source = publisher.add_source(kind, location);
        let backoff = Backoff::new(settings.poll.max(MIN_WAIT), MAX_WAIT);
        Self {
            api,
            gate: Gate::new(publisher.clone()),
            publisher,
            source,
            last_response,
            state_at: now,
            version_at: now,
            chains_at: now,
            metadata_not_before: now,
            is_after_state: false,
            is_after_list: false,
            is_listed: !settings.chains,
            state_backoff: backoff.clone(),
            metadata_backoff: backoff,
            chains: ChainRefresh::default(),
            version_requested: None,
            list_requested: None,
            connected: None,
            reports: Reports::new(),
            failure: None,
            settings,
        }
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
        loop {
            if self.chains.next_unknown().is_some() {
                self.chains.prioritize(&self.publisher.take_requested_chains());
            }
            if self.publisher.take_refresh() {
                self.version_at = Instant::now();
                self.is_listed = !self.settings.chains;
            }
            match self.due(Instant::now()) {
                Some(Endpoint::State) => self.poll_state().await,
                Some(endpoint) => self.poll_metadata(endpoint).await,
                None => sleep_until(self.state_at).await,
            }
        }
    }

    /// Returns the endpoint to request now: the version first, from which the dialect
    /// follows, then the list and one chain that clients have requested, and then the state
    /// whenever it is due. In between follow chains that are not known yet, without a pause;
    /// of anything else, one request after each state.
    fn due(&self, now: Instant) -> Option<Endpoint> {
        let is_metadata_due = now >= self.metadata_not_before;
        if is_metadata_due && self.version_at <= now {
            return Some(Endpoint::Version);
        }
        if is_metadata_due && !self.is_listed {
            return Some(Endpoint::Chains);
        }
        if is_metadata_due
            && self.is_after_list
            && let Some(id) = self.chains.next_requested()
        {
            return Some(Endpoint::Chain(id.clone()));
        }
        if self.state_at <= now {
            return Some(Endpoint::State);
        }
        if !is_metadata_due {
            return None;
        }
        if let Some(id) = self.chains.next_unknown() {
            return Some(Endpoint::Chain(id.clone()));
        }
        if !self.is_after_state {
            return None;
        }
        // A refresh in progress is completed first, however long it takes.
        if self.settings.chains && self.chains_at <= now && self.chains.is_complete() {
            return Some(Endpoint::Chains);
        }
        self.chains.next(now).cloned().map(Endpoint::Chain)
    }

    async fn poll_state(&mut self) {
        self.is_after_state = true;
        self.is_after_list = false;
        let requested = Instant::now();
        let wait = match self.state().await {
            Ok(()) => {
                self.succeeded();
                self.publisher.confirm(requested.into_std());
                self.state_backoff.reset();
                self.settings.poll
            }
            Err(error) => {
                self.failed(&error);
                self.is_after_state = !error.is_unreachable();
                self.state_backoff.next_delay()
            }
        };
        self.state_at = Instant::now() + wait;
        if !self.is_after_state {
            self.metadata_not_before = self.metadata_not_before.max(self.state_at);
        }
    }

    /// Requests versions or chains. A failure is retried later, because it does not affect
    /// the state.
    async fn poll_metadata(&mut self, endpoint: Endpoint) {
        self.is_after_state = false;
        self.is_after_list = false;
        let result = match endpoint {
            Endpoint::Chains => self.list().await,
            Endpoint::Chain(id) => self.chain(id).await,
            _ => self.version().await,
        };
        match result {
            Ok(()) => self.metadata_backoff.reset(),
            Err(error) => {
                self.report_once(&error.to_string());
                self.metadata_not_before = Instant::now() + self.metadata_backoff.next_delay();
            }
        }
        self.confirm_chains();
    }

    /// Confirms versions and chains, if each published one has been read since the list.
    fn confirm_chains(&self) {
        let list = if self.settings.chains {
            let snapshot = self.publisher.reader().snapshot();
            let is_known = |id: &ChainId| {
                snapshot.chain(id.as_str()).is_some_and(|chain| chain.config().is_ok())
            };
            let is_read = self.chains.is_complete() && !self.chains.unread().any(is_known);
            self.list_requested.filter(|_| is_read)
        } else {
            self.version_requested
        };
        if let (Some(version), Some(list)) = (self.version_requested, list) {
            self.publisher.confirm_chains(version.min(list).into_std());
        }
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
        let (connected, unread) = self.request(&Endpoint::State, read).await?;
        self.report(&Endpoint::State, unread);
        // If the connected chains have changed, the configurations may have changed, too.
        let snapshot = self.publisher.reader().snapshot();
        let have_changed = match &self.connected {
            Some(before) => *before != connected,
            None => connected.iter().any(|id| snapshot.chain(id.as_str()).is_none()),
        };
        if have_changed {
            self.chains_at = Instant::now();
        }
        self.connected = Some(connected);
        Ok(())
    }

    async fn version(&mut self) -> Result<(), PollError> {
        let requested = Instant::now();
        match self.request(&Endpoint::Version, relayer_json::version).await {
            Ok((components, dialect)) => {
                self.version_at = Instant::now() + self.settings.refresh;
                self.publisher.set_dialect(dialect);
                self.publisher.set_components(components);
                self.version_requested = Some(requested);
            }
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                self.version_at = Instant::now() + VERSION_WAIT;
                self.report_once(&error.to_string());
            }
        }
        Ok(())
    }

    /// Requests the list of chains, and publishes it.
    async fn list(&mut self) -> Result<(), PollError> {
        let requested = Instant::now();
        let Read { value: mut ids, unread } =
            self.request(&Endpoint::Chains, relayer_json::chain_ids).await?;
        self.list_requested = Some(requested);
        self.report(&Endpoint::Chains, unread);
        self.chains_at = Instant::now() + self.settings.refresh;
        let is_urgent = !self.is_listed;
        self.is_after_list = is_urgent;
        self.is_listed = true;
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        let reason = NotReady {
            message: "the relayer lists the chain, but has not reported its configuration yet"
                .to_owned(),
            ..NotReady::default()
        };
        let listed = self.publisher.set_chain_ids(ids.clone(), &reason);
        listed.expect("each chain is listed once");
        let snapshot = self.publisher.reader().snapshot();
        self.chains = ChainRefresh::new(&ids, |id| {
            !is_urgent && matches!(snapshot.chain(id.as_str()), Some(ListedChain::Known(_)))
        });
        Ok(())
    }

    /// Requests a chain. Returns only errors that may affect other chains, too.
    async fn chain(&mut self, id: ChainId) -> Result<(), PollError> {
        let endpoint = Endpoint::Chain(id.clone());
        match self.request(&endpoint, relayer_json::chain).await {
            Ok(Read { value, unread }) => {
                self.reports.is_over(endpoint.to_string());
                self.report(&endpoint, unread);
                self.chains.done(&id);
                self.publisher.set_chain(ChainConfig { id, ..value });
            }
            Err(PollError::Response { source: ResponseError::Refused { name, .. }, .. })
                if name == "ChainConfigNotFound" =>
            {
                debug!(%endpoint, "the relayer lists a chain that it does not know");
                self.chains.done(&id);
                self.publisher.remove_chain(&id);
            }
            Err(error) => {
                self.chains.unreadable(&id, Instant::now());
                if self.reports.is_new(endpoint.to_string()) {
                    warn!(%error, "chain not readable; retrying");
                }
                if error.is_unreachable() {
                    return Err(error);
                }
                let message = "the relayer's response with the chain's configuration cannot be \
                    read; the log has the cause";
                let reason = NotReady { message: message.to_owned(), ..NotReady::default() };
                self.publisher.set_chain_not_ready(&id, reason);
            }
        }
        Ok(())
    }

    /// Sends a request and parses the response on another thread.
    async fn request<T: Send + 'static>(
        &self,
        endpoint: &Endpoint,
        read: impl FnOnce(&[u8]) -> Result<T, ResponseError> + Send + 'static,
    ) -> Result<T, PollError> {
        let limit = self.settings.timeout;
        let response = timeout(limit, self.api.get(endpoint)).await.unwrap_or_else(|_| {
            let limit = humantime::format_duration(limit);
            Err(RequestError::Unreachable(format!("no response within {limit}")))
        });
        let body =
            response.map_err(|source| PollError::Request { endpoint: endpoint.clone(), source })?;
        off_thread(move || read(&body))
            .await
            .map_err(|source| PollError::Response { endpoint: endpoint.clone(), source })
    }

    fn succeeded(&mut self) {
        self.last_response.send_replace(Some(Instant::now()));
        self.source.responded();
        // The previous response may have expired while this one was read.
        self.publisher.set_ready();
        self.publisher.set_stale(None);
        if self.failure.take().is_some() {
            if self.reports.is_allowed() {
                info!("relayer reachable");
            }
            // The relayer may have another version and configuration now.
            self.version_at = Instant::now();
            self.chains_at = Instant::now();
            self.metadata_not_before = Instant::now();
        }
    }

    fn failed(&mut self, error: &PollError) {
        let message = error.to_string();
        let last = *self.last_response.borrow();
        let chains = self.settings.chains;
        // A reader of the failure must also find the state stale.
        self.publisher.set_stale(last.map(|last| Stale { since: last.into_std(), chains }));
        self.source.failed(&message);
        if self.failure.as_ref() == Some(&message) {
            debug!(error = message, "polling the relayer failed; retrying");
        } else if self.reports.is_allowed() {
            warn!(error = message, "polling the relayer failed; retrying");
        }
        self.failure = Some(message);
    }

    fn report(&mut self, endpoint: &Endpoint, unread: Vec<UnreadField>) {
        let endpoint = endpoint.to_string();
        for UnreadField { field, message } in unread {
            if self.reports.is_new((&endpoint, &field)) {
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

impl<A> Drop for Poller<A> {
    fn drop(&mut self) {
        self.gate.close();
    }
}
