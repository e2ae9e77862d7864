//! Requests the chains one by one: first those that are not known, and among them those
//! that clients request. A chain that cannot be read is retried later and does not delay the
//! others.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use relayer_rest_common::backoff::Backoff;
use relayer_rest_state::ChainId;
use tokio::time::Instant;

/// The first and the maximum delay before a chain that could not be read is requested
/// again.
const MIN_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(super) struct ChainRefresh {
    /// The chains that are not known and have not been requested.
    unknown: VecDeque<ChainId>,
    /// The number of chains at the front of `unknown` that clients have requested.
    requested: usize,
    /// Known chains to request again.
    known: VecDeque<ChainId>,
    retries: VecDeque<Retry>,
}

/// A chain that could not be read.
struct Retry {
    id: ChainId,
    at: Instant,
    backoff: Backoff,
}

impl ChainRefresh {
    /// Starts a refresh of these chains.
    pub(super) fn new(ids: &[ChainId], is_known: impl Fn(&ChainId) -> bool) -> Self {
        let (known, unknown) = ids.iter().cloned().partition(|id| is_known(id));
        Self { known, unknown, requested: 0, retries: VecDeque::new() }
    }

    /// Returns whether each chain has been requested.
    pub(super) fn is_complete(&self) -> bool {
        self.unknown.is_empty() && self.known.is_empty()
    }

    /// Returns the chains whose responses could not be used.
    pub(super) fn unread(&self) -> impl Iterator<Item = &ChainId> {
        self.retries.iter().map(|retry| &retry.id)
    }

    /// Moves unknown chains that clients request to the front.
    pub(super) fn prioritize(&mut self, requested: &VecDeque<ChainId>) {
        if requested.is_empty() {
            return;
        }
        let listed: HashSet<_> = self.unknown.iter().cloned().collect();
        let first: Vec<_> = requested.iter().filter(|id| listed.contains(*id)).cloned().collect();
        let before: Vec<_> = self.unknown.drain(..self.requested).collect();
        let before = before.into_iter().filter(|id| !first.contains(id));
        let first: Vec<_> = first.iter().cloned().chain(before).collect();
        self.unknown.retain(|id| !first.contains(id));
        self.requested = first.len();
        for id in first.into_iter().rev() {
            self.unknown.push_front(id);
        }
    }

    /// Returns the next chain that is not known and that clients have requested.
    pub(super) fn next_requested(&self) -> Option<&ChainId> {
        self.unknown.front().filter(|_| self.requested > 0)
    }

    /// Returns the next chain that is not known and has not been requested.
    pub(super) fn next_unknown(&self) -> Option<&ChainId> {
        self.unknown.front()
    }

    /// Returns the next chain to request, if one is due.
    pub(super) fn next(&self, now: Instant) -> Option<&ChainId> {
        let retry = || self.retries.iter().find(|retry| retry.at <= now).map(|retry| &retry.id);
        self.unknown.front().or(self.known.front()).or_else(retry)
    }

    /// Schedules a retry of a chain whose response cannot be used.
    pub(super) fn unreadable(&mut self, id: &ChainId, now: Instant) {
        let backoff = self.completed(id).map(|retry| retry.backoff);
        let mut backoff = backoff.unwrap_or_else(|| Backoff::new(MIN_WAIT, MAX_WAIT));
        let at = now + backoff.next_delay();
        self.retries.push_back(Retry { id: id.clone(), at, backoff });
    }

    /// Removes a chain that has been read, or that the relayer no longer has.
    pub(super) fn done(&mut self, id: &ChainId) {
        self.completed(id);
    }

    fn completed(&mut self, id: &ChainId) -> Option<Retry> {
        if self.unknown.front() == Some(id) {
            self.unknown.pop_front();
            self.requested = self.requested.saturating_sub(1);
        }
        if self.known.front() == Some(id) {
            self.known.pop_front();
        }
        let place = self.retries.iter().position(|retry| retry.id == *id)?;
        self.retries.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChainRefresh, MAX_WAIT};
    use relayer_rest_state::ChainId;
    use tokio::time::Instant;

    /// Returns a refresh of these chains, of which those in upper case are known.
    fn refresh(ids: &[&str]) -> ChainRefresh {
        let ids: Vec<_> = ids.iter().map(|id| ChainId::from(*id)).collect();
        ChainRefresh::new(&ids, |id| id.as_str().chars().all(char::is_uppercase))
    }

    /// Reads all chains that are due, and returns them in the order of the requests.
    fn read_all(refresh: &mut ChainRefresh, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| {
            let id = refresh.next(now)?.clone();
            refresh.done(&id);
            Some(id.to_string())
        })
        .collect()
    }

    #[test]
    fn unknown_chains_come_before_known_ones_and_requested_ones_first() {
        let mut refresh = refresh(&["A", "b", "c", "d", "E"]);
        refresh.prioritize(&["d".into(), "E".into(), "x".into(), "c".into()].into());
        assert_eq!(refresh.next_unknown(), Some(&"d".into()));
        assert_eq!(read_all(&mut refresh, Instant::now()), ["d", "c", "b", "A", "E"]);
        assert!(refresh.is_complete());
    }

    #[test]
    fn an_unreadable_chain_delays_no_other_and_is_requested_again() {
        let now = Instant::now();
        let mut refresh = refresh(&["a", "b", "C"]);
        refresh.unreadable(&"a".into(), now);
        assert_eq!(read_all(&mut refresh, now), ["b", "C"]);
        assert!(refresh.is_complete());
        // Clients cannot shorten the wait.
        refresh.prioritize(&["a".into()].into());
        assert_eq!((refresh.next_unknown(), refresh.next(now)), (None, None));
        assert_eq!(read_all(&mut refresh, now + MAX_WAIT), ["a"]);
        assert_eq!(refresh.next(now + 2 * MAX_WAIT), None);
    }

    #[test]
    fn the_wait_for_a_chain_grows_to_a_bound() {
        let now = Instant::now();
        let mut refresh = refresh(&["a"]);
        for _ in 0..100 {
            refresh.unreadable(&"a".into(), now);
            assert_eq!(refresh.retries.len(), 1);
            assert!(refresh.retries[0].at <= now + MAX_WAIT);
        }
        assert!(refresh.retries[0].at >= now + MAX_WAIT / 2);
    }
}
