//! Requests the chains one by one. A chain that cannot be read is retried later and does
//! not delay the others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use relayer_rest_common::backoff::Backoff;
use relayer_rest_state::{ChainConfig, ChainId, Snapshot};
use tokio::time::Instant;

/// The first and the maximum delay before a chain that could not be read is requested
/// again.
const MIN_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Chains that have been read are published after this time at the latest, even if others
/// have not been requested yet.
const MAX_UNPUBLISHED: Duration = Duration::from_mins(1);

pub(super) struct ChainRefresh {
    /// All chains, in the relayer's order.
    ids: Vec<ChainId>,
    to_ask: VecDeque<ChainId>,
    retries: VecDeque<Retry>,
    /// Chains that have been read but not published yet.
    read: HashMap<ChainId, ChainConfig>,
    /// The time of the next publication, unless all chains have been requested earlier.
    publish_at: Instant,
    has_news: bool,
    is_first: bool,
}

/// A chain that could not be read.
struct Retry {
    id: ChainId,
    at: Instant,
    backoff: Backoff,
}

impl ChainRefresh {
    /// Starts a refresh of these chains; `is_first` if no chains are known yet.
    pub(super) fn new(mut ids: Vec<ChainId>, is_first: bool, now: Instant) -> Self {
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        Self {
            to_ask: ids.iter().cloned().collect(),
            ids,
            retries: VecDeque::new(),
            read: HashMap::new(),
            publish_at: now + MAX_UNPUBLISHED,
            has_news: true,
            is_first,
        }
    }

    /// Returns whether the first round, before which no chain is known, is in progress.
    pub(super) fn is_first(&self) -> bool {
        self.is_first && !self.is_complete()
    }

    /// Returns whether each chain has been requested.
    pub(super) fn is_complete(&self) -> bool {
        self.to_ask.is_empty()
    }

    /// Returns the next chain to request, if one is due.
    pub(super) fn next(&self, now: Instant) -> Option<&ChainId> {
        let retry = || self.retries.iter().find(|retry| retry.at <= now).map(|retry| &retry.id);
        self.to_ask.front().or_else(retry)
    }

    /// Records the configuration of a chain.
    pub(super) fn found(&mut self, chain: ChainConfig) {
        self.completed(&chain.id);
        self.has_news = true;
        self.read.insert(chain.id.clone(), chain);
    }

    /// Removes a chain that the relayer no longer has.
    pub(super) fn not_found(&mut self, id: &ChainId) {
        self.completed(id);
        self.has_news = true;
        self.ids.retain(|other| other != id);
    }

    /// Schedules a retry of a chain whose response cannot be used.
    pub(super) fn unreadable(&mut self, id: &ChainId, now: Instant) {
        let backoff = self.completed(id).map(|retry| retry.backoff);
        let mut backoff = backoff.unwrap_or_else(|| Backoff::new(MIN_WAIT, MAX_WAIT));
        let at = now + backoff.next_delay();
        self.retries.push_back(Retry { id: id.clone(), at, backoff });
    }

    fn completed(&mut self, id: &ChainId) -> Option<Retry> {
        if self.to_ask.front() == Some(id) {
            self.to_ask.pop_front();
        }
        let place = self.retries.iter().position(|retry| retry.id == *id)?;
        self.retries.remove(place)
    }

    /// Returns the publication that is due, if there is one.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Publication> {
        let is_due = self.is_complete() || now >= self.publish_at;
        if !is_due || !self.has_news {
            return None;
        }
        self.publish_at = now + MAX_UNPUBLISHED;
        self.has_news = false;
        Some(Publication { ids: self.ids.clone(), read: std::mem::take(&mut self.read) })
    }
}

/// Chains to publish.
pub(super) struct Publication {
    ids: Vec<ChainId>,
    read: HashMap<ChainId, ChainConfig>,
}

impl Publication {
    /// Returns the chains in their order. A chain that was not read keeps its last known
    /// configuration, or is left out if there is none. Returns `None` if there are chains
    /// but none of them is known.
    pub(super) fn chains(mut self, last_known: &Snapshot) -> Option<Vec<ChainConfig>> {
        let is_empty = self.ids.is_empty();
        let known = |id: &ChainId| Some(last_known.chain(id.as_str())?.value().clone());
        let chains: Vec<_> = self
            .ids
            .into_iter()
            .filter_map(|id| self.read.remove(&id).or_else(|| known(&id)))
            .collect();
        (is_empty || !chains.is_empty()).then_some(chains)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChainRefresh, MAX_UNPUBLISHED, MAX_WAIT};
    use relayer_rest_state::{ChainConfig, ChainId, ChainKind, StatePublisher};
    use tokio::time::Instant;

    fn chain(id: &str) -> ChainConfig {
        ChainConfig::new(id, ChainKind::CosmosSdk)
    }

    fn refresh(ids: &[&str], now: Instant) -> ChainRefresh {
        ChainRefresh::new(ids.iter().map(|id| ChainId::from(*id)).collect(), true, now)
    }

    /// Publishes the chains that are due and returns their identifiers.
    fn due(refresh: &mut ChainRefresh, now: Instant, publisher: &StatePublisher) -> Vec<String> {
        let due = refresh.take_due(now);
        let chains = due.and_then(|due| due.chains(&publisher.reader().snapshot()));
        let chains = chains.unwrap_or_default();
        publisher.set_chains(chains.clone()).unwrap();
        chains.iter().map(|chain| chain.id.to_string()).collect()
    }

    #[test]
    fn an_unreadable_chain_delays_no_other_and_is_requested_again() {
        let now = Instant::now();
        let publisher = StatePublisher::new();
        let mut refresh = refresh(&["a", "b", "c"], now);
        refresh.found(chain("a"));
        assert!(refresh.take_due(now).is_none(), "two chains are not asked for yet");
        refresh.unreadable(&"b".into(), now);
        refresh.found(chain("c"));
        assert_eq!(due(&mut refresh, now, &publisher), ["a", "c"]);
        assert!(refresh.take_due(now).is_none(), "nothing is new");
        assert_eq!(refresh.next(now), None, "it is not time to try again");
        let later = now + MAX_WAIT;
        assert_eq!(refresh.next(later), Some(&"b".into()));
        refresh.found(chain("b"));
        assert_eq!(due(&mut refresh, later, &publisher), ["a", "b", "c"]);
        assert_eq!(refresh.next(later + MAX_WAIT), None);
    }

    #[test]
    fn a_chain_that_becomes_unreadable_keeps_its_last_known_state() {
        let now = Instant::now();
        let publisher = StatePublisher::new();
        let known = ChainConfig { max_gas: Some(7), ..chain("b") };
        publisher.set_chains(vec![chain("a"), known]).unwrap();
        let mut refresh = refresh(&["b", "c", "d"], now);
        refresh.unreadable(&"b".into(), now);
        refresh.not_found(&"c".into());
        refresh.found(chain("d"));
        assert_eq!(due(&mut refresh, now, &publisher), ["b", "d"]);
        let snapshot = publisher.reader().snapshot();
        assert_eq!(snapshot.chain("b").unwrap().value().max_gas, Some(7));
    }

    #[test]
    fn chains_stay_unknown_until_one_is_readable_or_all_are_absent() {
        let now = Instant::now();
        let publisher = StatePublisher::new();
        let mut refresh = refresh(&["a"], now);
        refresh.unreadable(&"a".into(), now);
        let due = refresh.take_due(now).unwrap();
        assert_eq!(due.chains(&publisher.reader().snapshot()), None, "there is a chain");
        refresh.not_found(&"a".into());
        let due = refresh.take_due(now).unwrap();
        assert_eq!(due.chains(&publisher.reader().snapshot()), Some(Vec::new()));
    }

    #[test]
    fn many_chains_are_published_while_others_are_requested() {
        let now = Instant::now();
        let publisher = StatePublisher::new();
        let mut refresh = refresh(&["a", "b", "c"], now);
        refresh.found(chain("a"));
        let later = now + MAX_UNPUBLISHED;
        assert_eq!(due(&mut refresh, later, &publisher), ["a"]);
        refresh.found(chain("b"));
        assert!(refresh.take_due(later).is_none());
        refresh.unreadable(&"c".into(), later);
        assert_eq!(due(&mut refresh, later, &publisher), ["a", "b"]);
    }

    #[test]
    fn the_wait_for_a_chain_grows_to_a_bound() {
        let now = Instant::now();
        let mut refresh = refresh(&["a"], now);
        for _ in 0..100 {
            refresh.unreadable(&"a".into(), now);
            assert_eq!(refresh.retries.len(), 1);
            assert!(refresh.retries[0].at <= now + MAX_WAIT);
        }
        assert!(refresh.retries[0].at >= now + MAX_WAIT / 2);
    }
}
