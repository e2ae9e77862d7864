//! Publishes state from a source to the requests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use relayer_rest_common::text::for_log;
use tokio::sync::watch;

use super::relayer::{Component, NotReady, RelayerDialect, RelayerState};
use super::replica::Replica;
use super::snapshot::{FleetPosition, ListedChain, Snapshot, Stale};
use super::source::{Source, SourceFailure, SourceKind};
use super::telemetry::MetricFamily;
use super::versioned::{Generation, Known, Versioned};
use super::{ChainConfig, ChainId};

/// Publishes the state of a relayer. Cheap to clone; works from any thread, in or out of
/// async code.
///
/// Each call publishes one new snapshot with one atomic swap. Readers never wait, for
/// writers or for each other; writers wait only for other writers. Unchanged content
/// keeps its generation.
///
/// In a new publisher, neither the chains nor the state are known.
///
/// ```
/// use relayer_rest_state::{Object, StatePublisher, Worker};
///
/// let publisher = StatePublisher::new();
///
/// // A relayer's thread has a clone, and publishes each worker that it starts or stops.
/// let relayer = std::thread::spawn({
///     let publisher = publisher.clone();
///     move || {
///         publisher.update_state(|state| {
///             state.chains.push("ibc-0".into());
///             let object = Object::Wallet { chain_id: "ibc-0".into() };
///             state.workers.push(Worker { id: 1, object, data: None });
///         });
///         publisher.update_state(|state| state.workers.retain(|worker| worker.id != 1));
///     }
/// });
/// relayer.join().unwrap();
///
/// let snapshot = publisher.reader().snapshot();
/// let state = snapshot.status().value().as_ref().unwrap();
/// assert_eq!((state.chains.len(), state.workers.len()), (1, 0));
/// ```
#[derive(Debug, Clone)]
pub struct StatePublisher {
    shared: Arc<Shared>,
}

/// Gives requests access to the current snapshot.
#[derive(Debug, Clone)]
pub struct StateReader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    current: ArcSwap<Snapshot>,
    /// The generation of the newest snapshot. Locked while a writer derives a new
    /// snapshot from the current one.
    newest: Mutex<Generation>,
    /// Notifies readers that wait for the next snapshot.
    changes: watch::Sender<()>,
    created: Instant,
    /// The time of the request with which the relayer last confirmed the state, in nanoseconds
    /// since `created`; 0 if it never has.
    confirmed: AtomicU64,
    /// The same of the versions and chains.
    chains_confirmed: AtomicU64,
    /// Whether the versions and chains are to be requested again.
    needs_refresh: AtomicBool,
}

/// An error for two chains with the same identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chain '{}' is configured twice; give each chain a unique identifier", for_log(.0.as_str()))]
pub struct DuplicateChain(pub ChainId);

impl Default for StatePublisher {
    fn default() -> Self {
        Self::new()
    }
}

impl StatePublisher {
    /// Creates a publisher whose chains and state are not known yet.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            current: ArcSwap::from_pointee(Snapshot::empty()),
            newest: Mutex::new(Generation(0)),
            changes: watch::Sender::new(()),
            created: Instant::now(),
            confirmed: AtomicU64::new(0),
            chains_confirmed: AtomicU64::new(0),
            needs_refresh: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a reader of the published snapshots.
    #[must_use]
    pub fn reader(&self) -> StateReader {
        StateReader { shared: Arc::clone(&self.shared) }
    }

    /// Lists a source of the state, by its URL or file, if it has one, and returns a reporter
    /// of its responses and failures.
    pub fn add_source(&self, kind: SourceKind, location: impl Into<String>) -> SourceReporter {
        let location = location.into();
        self.publish(|snapshot, next| {
            let mut sources = snapshot.sources.value().clone();
            let same = |source: &Source| source.kind == kind && source.location == location;
            let place = sources.iter().position(same).unwrap_or_else(|| {
                sources.push(Source::new(kind, location.clone()));
                sources.len() - 1
            });
            snapshot.sources = snapshot.sources.with(sources, next);
            SourceReporter { publisher: self.clone(), place }
        })
    }

    /// Sets the versions of the relayer's components. `ibc-relayer` must be first.
    pub fn set_components(&self, components: Vec<Component>) {
        self.publish(|snapshot, next| {
            snapshot.components = snapshot.components.with(components, next);
        });
    }

    /// Sets the dialect of the relayer.
    pub fn set_dialect(&self, dialect: RelayerDialect) {
        self.publish(|snapshot, next| {
            snapshot.dialect = snapshot.dialect.with(Some(dialect), next);
        });
    }

    /// Sets all chains, in their order, without the passwords and tokens in their URLs.
    ///
    /// # Errors
    /// Returns an error if two chains have the same identifier; then nothing is
    /// published.
    pub fn set_chains(&self, chains: Vec<ChainConfig>) -> Result<(), DuplicateChain> {
        let mut by_id = HashMap::with_capacity(chains.len());
        let ids: Vec<ChainId> = chains.iter().map(|chain| chain.id.clone()).collect();
        for mut chain in chains {
            chain.remove_secrets();
            if let Some(first) = by_id.insert(chain.id.clone(), chain) {
                return Err(DuplicateChain(first.id));
            }
        }
        self.publish(|snapshot, next| {
            snapshot.chains = by_id
                .into_iter()
                .map(|(id, chain)| {
                    let slice = match snapshot.chains.get(&id) {
                        Some(before) => before.with(chain, next),
                        None => ListedChain::Known(Versioned::new(chain, next)),
                    };
                    (id, slice)
                })
                .collect();
            snapshot.chain_ids = snapshot.chain_ids.with(Ok(ids), next);
        });
        Ok(())
    }

    /// Sets the identifiers of all chains, in their order. The configurations of new chains
    /// are not known, with this reason, until [`Self::set_chain`] sets them.
    ///
    /// # Errors
    /// Returns an error if two identifiers are equal; then nothing is published.
    pub fn set_chain_ids(
        &self,
        ids: Vec<ChainId>,
        reason: &NotReady,
    ) -> Result<(), DuplicateChain> {
        let mut seen = HashSet::with_capacity(ids.len());
        if let Some(twice) = ids.iter().find(|id| !seen.insert(*id)) {
            return Err(DuplicateChain(twice.clone()));
        }
        self.publish(|snapshot, next| {
            let mut before = std::mem::take(&mut snapshot.chains);
            snapshot.chains = ids
                .iter()
                .map(|id| {
                    let new = || ListedChain::NotReady(Versioned::new(reason.clone(), next));
                    (id.clone(), before.remove(id).unwrap_or_else(new))
                })
                .collect();
            snapshot.chain_ids = snapshot.chain_ids.with(Ok(ids), next);
        });
        Ok(())
    }

    /// Gives the reason why the configuration of a chain is not known. Does nothing if it
    /// is known, or if the chain is not listed.
    pub fn set_chain_not_ready(&self, id: &ChainId, reason: NotReady) {
        self.publish(|snapshot, next| {
            if let Some(ListedChain::NotReady(before)) = snapshot.chains.get_mut(id) {
                *before = before.with(reason, next);
            }
        });
    }

    /// Removes the chains that clients have requested before they were known, in the order
    /// of the requests, and returns them.
    #[must_use]
    pub fn take_requested_chains(&self) -> VecDeque<ChainId> {
        self.shared.current.load().requested.take()
    }

    /// Marks the chains as not known, with the reason.
    pub fn set_chains_not_ready(&self, reason: NotReady) {
        self.publish(|snapshot, next| {
            snapshot.chains.clear();
            snapshot.chain_ids = snapshot.chain_ids.with(Err(reason), next);
        });
    }

    /// Adds a chain after the others, or replaces the chain with the same identifier,
    /// without the passwords and tokens in its URLs.
    pub fn set_chain(&self, mut chain: ChainConfig) {
        chain.remove_secrets();
        self.publish(|snapshot, next| {
            if let Some(slice) = snapshot.chains.get_mut(&chain.id) {
                *slice = slice.with(chain, next);
                return;
            }
            let mut ids = snapshot.chain_ids.value().clone().unwrap_or_default();
            ids.push(chain.id.clone());
            snapshot.chain_ids = Versioned::new(Ok(ids), next);
            let id = chain.id.clone();
            snapshot.chains.insert(id, ListedChain::Known(Versioned::new(chain, next)));
        });
    }

    /// Removes the chain with this identifier, if there is one.
    pub fn remove_chain(&self, id: &ChainId) {
        self.publish(|snapshot, next| {
            if snapshot.chains.remove(id).is_some() {
                let mut ids = snapshot.chain_ids.value().clone().unwrap_or_default();
                ids.retain(|other| other != id);
                snapshot.chain_ids = Versioned::new(Ok(ids), next);
            }
        });
    }

    /// Sets the relayer's state and marks it as known and up to date.
    ///
    /// A state of any size is published, but a module needs memory for it: the bundled one
    /// about 100 bytes for each worker, and up to three times the size of its response.
    /// Under the default limits (64 MiB of memory), it serves 150,000 workers with a
    /// response of up to 16 MiB. For a larger state, raise the limits of memory, of the
    /// body and of the time.
    pub fn set_state(&self, mut state: RelayerState) {
        state.sort();
        self.publish(|snapshot, next| {
            snapshot.status = snapshot.status.with(Ok(state), next);
            snapshot.before_not_ready = None;
            snapshot.set_stale(None);
        });
    }

    /// Updates the relayer's state, starting from the empty state if it is not known.
    ///
    /// Other writers wait while `update` runs, so it must not publish anything itself.
    pub fn update_state(&self, update: impl FnOnce(&mut RelayerState)) {
        self.publish(|snapshot, next| {
            let mut state = snapshot.status.value().clone().unwrap_or_default();
            update(&mut state);
            state.sort();
            snapshot.status = snapshot.status.with(Ok(state), next);
        });
    }

    /// Marks the relayer's state as not known. The last known state is kept for
    /// [`StatePublisher::set_ready`].
    pub fn set_not_ready(&self, reason: NotReady) {
        self.publish(|snapshot, next| {
            if snapshot.status.value().is_ok() {
                snapshot.before_not_ready = Some(snapshot.status.clone());
            }
            snapshot.status = snapshot.status.with(Err(reason), next);
        });
    }

    /// Restores the last known state of the relayer, or sets the empty state if there is
    /// none. Does nothing if the state is known.
    pub fn set_ready(&self) {
        self.publish(|snapshot, next| {
            if snapshot.status.value().is_err() {
                snapshot.status = match snapshot.before_not_ready.take() {
                    Some(before) => Versioned::new(before.value().clone(), next),
                    None => Versioned::new(Ok(RelayerState::default()), next),
                };
            }
        });
    }

    /// Marks the published content as stale, so that responses carry its age; `None`
    /// marks it as up to date.
    pub fn set_stale(&self, stale: Option<Stale>) {
        self.publish(|snapshot, _| snapshot.set_stale(stale));
    }

    /// Sets the families of a scrape of the relayer's telemetry at this time.
    pub fn set_telemetry(&self, families: Vec<MetricFamily>, scraped: SystemTime) {
        self.publish(|snapshot, next| {
            snapshot.telemetry = Arc::new(snapshot.telemetry.with(families, scraped, next));
        });
    }

    /// Marks the telemetry as stale: the relayer has not responded since the last scrape
    /// at this time; `None` marks it as up to date.
    pub fn set_telemetry_stale(&self, since: Option<Instant>) {
        self.publish(|snapshot, _| {
            snapshot.telemetry = Arc::new(snapshot.telemetry.with_stale(since));
        });
    }

    /// Marks the telemetry as not known, with the reason.
    pub fn set_telemetry_not_ready(&self, reason: NotReady) {
        self.publish(|snapshot, next| {
            snapshot.telemetry = Arc::new(snapshot.telemetry.not_ready(reason, next));
        });
    }

    /// Publishes the whole state of another host, as one snapshot, and marks it as stale or as up
    /// to date.
    ///
    /// # Errors
    /// Returns an error if two chains have the same identifier; then nothing is published.
    pub fn replicate(&self, replica: Replica, stale: Option<Stale>) -> Result<(), DuplicateChain> {
        let Replica { generation, changed, components, chain_ids, chains, mut status, .. } =
            replica;
        let Replica { family_names, families, scraped, .. } = replica;
        let mut by_id = HashMap::with_capacity(chains.len());
        for (id, mut chain) in chains {
            if let Ok(chain) = &mut chain {
                chain.remove_secrets();
            }
            if by_id.contains_key(&id) {
                return Err(DuplicateChain(id));
            }
            by_id.insert(id, chain);
        }
        if let Ok(state) = &mut status {
            state.sort();
        }
        self.publish(|snapshot, next| {
            let before = std::mem::take(&mut snapshot.chains);
            let listed = |(id, chain): (ChainId, Known<ChainConfig>)| {
                let listed = match (before.get(&id), chain) {
                    (Some(before), Ok(chain)) => before.with(chain, next),
                    (None, Ok(chain)) => ListedChain::Known(Versioned::new(chain, next)),
                    (Some(ListedChain::NotReady(before)), Err(reason)) => {
                        ListedChain::NotReady(before.with(reason, next))
                    }
                    (_, Err(reason)) => ListedChain::NotReady(Versioned::new(reason, next)),
                };
                (id, listed)
            };
            snapshot.chains = by_id.into_iter().map(listed).collect();
            snapshot.components = snapshot.components.with(components, next);
            snapshot.dialect = snapshot.dialect.with(replica.dialect, next);
            snapshot.chain_ids = snapshot.chain_ids.with(chain_ids, next);
            snapshot.status = snapshot.status.with(status, next);
            snapshot.before_not_ready = None;
            let telemetry = &snapshot.telemetry;
            snapshot.telemetry =
                Arc::new(telemetry.replicated(family_names, families, scraped, next));
            snapshot.fleet = FleetPosition::Reader(generation);
            snapshot.set_stale(stale);
            // Responses of all hosts of the fleet have the same time.
            snapshot.changed.time = changed;
        });
        Ok(())
    }

    /// Sets the epoch in which this process is the writer of its fleet; `None` if it is not.
    pub fn set_epoch(&self, epoch: Option<u64>) {
        self.publish(|snapshot, _| {
            snapshot.fleet = match epoch {
                Some(epoch) => FleetPosition::Writer { epoch },
                None => FleetPosition::Unknown,
            };
        });
    }

    /// Notes that the relayer has confirmed the published state: it has responded to a request
    /// of this time.
    pub fn confirm(&self, requested: Instant) {
        self.shared.confirm(&self.shared.confirmed, requested);
    }

    /// Notes that the relayer has confirmed all published versions and chains: it has responded to
    /// requests for each of them since this time.
    pub fn confirm_chains(&self, requested: Instant) {
        self.shared.confirm(&self.shared.chains_confirmed, requested);
    }

    /// Asks a source that requests the versions and chains from a relayer to do so before it is time.
    pub fn request_refresh(&self) {
        self.shared.needs_refresh.store(true, Ordering::Release);
    }

    /// Returns whether that was asked since the last call.
    #[must_use]
    pub fn take_refresh(&self) -> bool {
        self.shared.needs_refresh.swap(false, Ordering::AcqRel)
    }

    /// Publishes the current snapshot with a change. New values in it get the given
    /// generation.
    fn publish<T>(&self, change: impl FnOnce(&mut Snapshot, Generation) -> T) -> T {
        // A panic in a caller's closure publishes nothing, so a poisoned lock guards a
        // consistent value.
        let mut newest = self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Generation(newest.0 + 1);
        let mut snapshot = Snapshot::clone(&self.shared.current.load());
        snapshot.generation = next;
        let result = change(&mut snapshot, next);
        if snapshot.has(next) {
            snapshot.changed.generation = next;
            if !matches!(snapshot.fleet, FleetPosition::Reader(_)) {
                snapshot.changed.time = SystemTime::now();
            }
        }
        self.shared.current.store(Arc::new(snapshot));
        *newest = next;
        self.shared.changes.send_replace(());
        result
    }
}

impl Shared {
    fn confirm(&self, confirmed: &AtomicU64, requested: Instant) {
        let since = requested.saturating_duration_since(self.created).as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX).max(1);
        confirmed.fetch_max(since, Ordering::Release);
    }

    fn confirmation(&self, confirmed: &AtomicU64) -> Option<Instant> {
        match confirmed.load(Ordering::Acquire) {
            0 => None,
            since => self.created.checked_add(Duration::from_nanos(since)),
        }
    }
}

impl StateReader {
    /// Returns the current snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current.load_full()
    }

    /// Borrows the current snapshot: cheaper than [`Self::snapshot`], but must not be
    /// kept.
    #[must_use]
    pub fn peek(&self) -> impl Deref<Target = Arc<Snapshot>> {
        self.shared.current.load()
    }

    /// Returns the time of the request with which the relayer last confirmed the state; none
    /// if its source does not confirm states.
    #[must_use]
    pub fn confirmed(&self) -> Option<Instant> {
        self.shared.confirmation(&self.shared.confirmed)
    }

    /// Returns the time of the first of the requests with which the relayer last confirmed the
    /// versions and chains; none if their source does not confirm them.
    #[must_use]
    pub fn chains_confirmed(&self) -> Option<Instant> {
        self.shared.confirmation(&self.shared.chains_confirmed)
    }

    /// Returns a receiver that is notified of each later publication. Publications before it
    /// is asked again are one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }
}

/// Reports the responses and failures of a source.
#[derive(Debug, Clone)]
pub struct SourceReporter {
    publisher: StatePublisher,
    place: usize,
}

impl SourceReporter {
    /// Records a usable response. A failure is over.
    pub fn responded(&self) {
        let current = self.publisher.shared.current.load();
        let source = &current.sources.value()[self.place];
        source.record_response(SystemTime::now());
        if source.failure.is_some() {
            self.update(|source| source.failure = None);
        }
    }

    /// Records a failure.
    pub fn failed(&self, message: &str) {
        self.update(|source| {
            let since = match &source.failure {
                Some(failure) => failure.since,
                None => SystemTime::now(),
            };
            source.failure = Some(SourceFailure { message: message.to_owned(), since });
            source.record_failure();
        });
    }

    fn update(&self, update: impl FnOnce(&mut Source)) {
        self.publisher.publish(|snapshot, next| {
            let mut sources = snapshot.sources.value().clone();
            update(&mut sources[self.place]);
            snapshot.sources = snapshot.sources.with(sources, next);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{DuplicateChain, ListedChain, Stale, StatePublisher, SystemTime};
    use crate::{
        ChainConfig, ChainKind, Component, EventSource, NotReady, Object, RelayerState, Worker,
    };
    use std::time::{Duration, Instant};

    fn chain(id: &str) -> ChainConfig {
        ChainConfig::new(id, ChainKind::CosmosSdk)
    }

    fn ids(publisher: &StatePublisher) -> Vec<String> {
        let snapshot = publisher.reader().snapshot();
        let ids = snapshot.chain_ids().value().as_ref().unwrap();
        ids.iter().map(ToString::to_string).collect()
    }

    fn wallet(id: u64) -> Worker {
        Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None }
    }

    #[test]
    fn a_generation_changes_only_with_its_content() {
        let publisher = StatePublisher::new();
        publisher.set_chains(vec![chain("a"), chain("b")]).unwrap();
        let before = publisher.reader().snapshot();
        publisher.set_chains(vec![chain("a"), chain("b")]).unwrap();
        let same = publisher.reader().snapshot();
        let changed = ChainConfig { max_gas: Some(1), ..chain("b") };
        publisher.set_chains(vec![chain("a"), changed]).unwrap();
        let after = publisher.reader().snapshot();

        let generation = |snapshot: &super::Snapshot, id| snapshot.chain(id).unwrap().generation();
        assert_eq!(before.chain_ids().generation(), same.chain_ids().generation());
        assert_eq!(generation(&before, "b"), generation(&same, "b"));
        assert_eq!(before.chain_ids().generation(), after.chain_ids().generation());
        assert_eq!(generation(&before, "a"), generation(&after, "a"));
        assert!(generation(&before, "b") < generation(&after, "b"));
    }

    #[test]
    fn the_last_change_has_a_time() {
        let publisher = StatePublisher::new();
        let changed = || publisher.reader().snapshot().changed();
        let first = changed();
        let publications: [fn(&StatePublisher); 6] = [
            |publisher| publisher.set_chains(vec![chain("a"), chain("b")]).unwrap(),
            |publisher| publisher.set_chain(ChainConfig { max_gas: Some(1), ..chain("a") }),
            |publisher| publisher.set_state(RelayerState::default()),
            |publisher| publisher.set_components(Vec::new()),
            |publisher| publisher.remove_chain(&"a".into()),
            |publisher| publisher.set_not_ready(NotReady::default()),
        ];
        for publish in publications {
            let before = changed();
            publish(&publisher);
            let after = changed();
            assert!(before.generation < after.generation && before.time <= after.time);
            publish(&publisher);
            publisher.set_stale(None);
            assert_eq!(changed(), after);
        }
        assert!(first.time.elapsed().is_ok());
    }

    #[test]
    fn an_unconfirmed_state_has_one_time() {
        let publisher = StatePublisher::new();
        let since = || publisher.reader().snapshot().unconfirmed_since();
        assert_eq!(since(), None);
        let now = Instant::now();
        publisher.set_stale(Some(Stale { since: now, chains: true }));
        let first = since().unwrap();
        assert!(first <= SystemTime::now());
        publisher.set_stale(Some(Stale { since: now, chains: true }));
        assert_eq!(since(), Some(first));
        publisher.set_stale(None);
        assert_eq!(since(), None);
    }

    #[test]
    fn a_new_state_is_never_shown_as_stale() {
        let publisher = StatePublisher::new();
        publisher.set_stale(Some(Stale { since: Instant::now(), chains: true }));
        publisher.set_state(RelayerState::default());
        let snapshot = publisher.reader().snapshot();
        assert_eq!((snapshot.stale(), snapshot.unconfirmed_since()), (None, None));
    }

    #[test]
    fn a_chain_that_returns_has_a_new_generation() {
        let publisher = StatePublisher::new();
        publisher.set_chain(chain("a"));
        let before = publisher.reader().snapshot().chain("a").unwrap().generation();
        publisher.remove_chain(&"a".into());
        publisher.set_chain(chain("a"));
        let after = publisher.reader().snapshot().chain("a").unwrap().generation();
        assert!(before < after);
    }

    #[test]
    fn urls_are_published_without_secrets() {
        let publisher = StatePublisher::new();
        let push = |url: &str| EventSource::Push { url: url.into(), batch_delay: Duration::ZERO };
        let secret = |id: &str| ChainConfig {
            rpc_addr: Some("https://user:pass@host/rpc".into()),
            grpc_addr: Some("https://pa/ss@host".into()),
            event_source: Some(push("wss://token@host/websocket")),
            ..chain(id)
        };
        publisher.set_chains(vec![secret("a")]).unwrap();
        publisher.set_chain(secret("b"));
        let snapshot = publisher.reader().snapshot();
        for id in ["a", "b"] {
            let config = snapshot.chain(id).unwrap().config().unwrap().value();
            assert_eq!(config.rpc_addr.as_deref(), Some("https://host/rpc"));
            assert_eq!(config.grpc_addr, None);
            assert_eq!(config.event_source, Some(push("wss://host/websocket")));
        }
    }

    #[test]
    fn chains_keep_their_order() {
        let publisher = StatePublisher::new();
        publisher.set_chains(vec![chain("b"), chain("a")]).unwrap();
        publisher.set_chain(chain("c"));
        publisher.set_chain(ChainConfig { max_gas: Some(1), ..chain("b") });
        assert_eq!(ids(&publisher), ["b", "a", "c"]);
        publisher.remove_chain(&"a".into());
        publisher.remove_chain(&"unknown".into());
        assert_eq!(ids(&publisher), ["b", "c"]);
        assert!(publisher.reader().snapshot().chain("a").is_none());
    }

    #[test]
    fn two_chains_of_one_identifier_change_nothing() {
        let publisher = StatePublisher::new();
        publisher.set_chain(chain("a"));
        let refused = publisher.set_chains(vec![chain("b"), chain("b")]);
        assert_eq!(refused, Err(DuplicateChain("b".into())));
        assert_eq!(ids(&publisher), ["a"]);
    }

    #[test]
    fn listed_chains_become_known_one_by_one() {
        let publisher = StatePublisher::new();
        let known = || {
            let snapshot = publisher.reader().snapshot();
            ["a", "b"].map(|id| {
                let config = snapshot.chain(id).map(ListedChain::config);
                config.map(|known| known.map(|chain| chain.value().clone()).map_err(Clone::clone))
            })
        };
        let reason = NotReady { message: "later".into(), ..NotReady::default() };
        let twice = publisher.set_chain_ids(vec!["a".into(), "a".into()], &reason);
        assert_eq!((twice, known()), (Err(DuplicateChain("a".into())), [None, None]));
        publisher.set_chain_ids(vec!["b".into(), "a".into()], &reason).unwrap();
        assert_eq!(ids(&publisher), ["b", "a"]);
        assert_eq!(known(), [Some(Err(reason.clone())), Some(Err(reason.clone()))]);
        publisher.set_chain(chain("a"));
        assert_eq!(known(), [Some(Ok(chain("a"))), Some(Err(reason.clone()))]);
        // A known chain stays known, whether it is listed again or cannot be read any more.
        let other = NotReady::default();
        publisher.set_chain_not_ready(&"a".into(), other.clone());
        publisher.set_chain_not_ready(&"b".into(), other.clone());
        publisher.set_chain_not_ready(&"c".into(), other.clone());
        publisher.set_chain_ids(vec!["a".into(), "b".into()], &reason).unwrap();
        assert_eq!(known(), [Some(Ok(chain("a"))), Some(Err(other))]);
        publisher.set_chain_ids(vec!["b".into()], &reason).unwrap();
        assert_eq!(known()[0], None);
    }

    #[test]
    fn requested_chains_are_taken_once() {
        let publisher = StatePublisher::new();
        let before = publisher.reader().snapshot();
        publisher.set_chain(chain("a"));
        // Requests hold snapshots of different ages.
        before.request_chain("b");
        publisher.reader().snapshot().request_chain("c");
        assert_eq!(publisher.take_requested_chains(), ["b".into(), "c".into()]);
        assert!(publisher.take_requested_chains().is_empty());
    }

    #[test]
    fn a_snapshot_is_unchanged_while_others_are_published() {
        let publisher = StatePublisher::new();
        let before = publisher.reader().snapshot();
        publisher.set_state(RelayerState { chains: vec!["a".into()], workers: vec![wallet(1)] });
        publisher.update_state(|state| state.workers.clear());
        let after = publisher.reader().snapshot();
        assert_eq!(before.status().value(), &Err(NotReady::default()));
        let state = after.status().value().clone().unwrap();
        assert_eq!(state, RelayerState { chains: vec!["a".into()], workers: Vec::new() });
    }

    #[test]
    fn the_last_known_state_is_valid_again_once_ready() {
        let publisher = StatePublisher::new();
        let state = RelayerState { chains: vec!["a".into()], workers: vec![wallet(1)] };
        let status = || publisher.reader().snapshot().status().value().clone();
        publisher.set_ready();
        assert_eq!(status(), Ok(RelayerState::default()));
        publisher.set_state(state.clone());
        for _ in 0..2 {
            publisher.set_not_ready(NotReady::default());
            publisher.set_not_ready(NotReady { message: "again".into(), ..NotReady::default() });
            assert!(status().is_err());
            publisher.set_ready();
            publisher.set_ready();
            assert_eq!(status(), Ok(state.clone()));
        }
    }

    #[test]
    fn publishers_and_readers_can_be_used_from_any_thread() {
        fn check<T: Clone + Send + Sync + 'static>() {}
        check::<StatePublisher>();
        check::<super::StateReader>();
    }

    #[test]
    fn generations_of_the_state_and_its_parts_change_only_with_them() {
        let publisher = StatePublisher::new();
        let parts =
            |version: &str| vec![Component { name: "ibc-relayer".into(), version: version.into() }];
        let state = |id| RelayerState { chains: Vec::new(), workers: vec![wallet(id)] };
        let generations = || {
            let snapshot = publisher.reader().snapshot();
            (snapshot.components().generation(), snapshot.status().generation())
        };
        publisher.set_components(parts("1"));
        publisher.set_state(state(1));
        let before = generations();
        publisher.set_components(parts("1"));
        publisher.set_state(state(1));
        publisher.update_state(|_| {});
        publisher.set_stale(None);
        assert_eq!(generations(), before);
        publisher.set_state(state(2));
        let state_changed = generations();
        assert!(state_changed.0 == before.0 && state_changed.1 > before.1);
        publisher.set_components(parts("2"));
        let both_changed = generations();
        assert!(both_changed.0 > before.0 && both_changed.1 == state_changed.1);
    }

    #[test]
    fn published_state_is_sorted() {
        let publisher = StatePublisher::new();
        publisher.set_state(RelayerState {
            chains: vec!["b".into(), "a".into()],
            workers: vec![
                Worker { id: 1, object: Object::Wallet { chain_id: "b".into() }, data: None },
                wallet(2),
            ],
        });
        let snapshot = publisher.reader().snapshot();
        let state = snapshot.status().value().as_ref().unwrap();
        assert_eq!(state.chains, ["a".into(), "b".into()]);
        assert_eq!(state.workers[0].id, 2);
    }

    #[test]
    fn a_panic_in_an_update_changes_nothing_and_blocks_no_reader() {
        let publisher = StatePublisher::new();
        publisher.set_state(RelayerState { chains: Vec::new(), workers: vec![wallet(1)] });
        let other = publisher.clone();
        std::thread::spawn(move || other.update_state(|_| panic!("as the test wants it")))
            .join()
            .unwrap_err();
        publisher.update_state(|state| state.workers.push(wallet(2)));
        let snapshot = publisher.reader().snapshot();
        assert_eq!(snapshot.status().value().as_ref().unwrap().workers.len(), 2);
    }
}
