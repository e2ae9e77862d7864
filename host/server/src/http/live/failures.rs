//! The failures of the last moments.
//!
//! A failure is not cached. Clients that connect again and again to a response that fails would
//! cause a run each.

use std::collections::{HashMap, VecDeque};

use relayer_rest_state::Generation;
use tokio::time::Instant;

use super::key::Key;
use super::limits::LiveLimits;
use super::resolve::Answer;
use super::tally::{CountedBytes, LiveTally};

/// The failures within `min-interval`, by the key of their requests.
#[derive(Default)]
pub(super) struct RecentFailures {
    by_key: HashMap<Key, Failure>,
    /// The keys, by the time at which their failures are forgotten.
    ends: VecDeque<(Instant, Key)>,
}

/// The failure of a request.
pub(super) struct Failure {
    pub(super) answer: Answer,
    /// The time of its run.
    pub(super) time: Instant,
    /// The generation of the state after its run.
    pub(super) generation: Generation,
    _counted: CountedBytes,
}

impl RecentFailures {
    /// Keeps a failure, if there is room for it.
    pub(super) fn add(
        &mut self,
        key: Key,
        answer: &Answer,
        generation: Generation,
        limits: &LiveLimits,
        tally: &LiveTally,
    ) {
        let now = Instant::now();
        self.forget(now);
        if self.by_key.len() >= limits.entries as usize || self.by_key.contains_key(&key) {
            return;
        }
        let Err(response) = &answer.outcome else { return };
        let size = 2 * key.size() + response.body().len();
        let Some(counted) = tally.count(size, limits.memory.as_u64()) else { return };
        let answer = answer.clone();
        let failure = Failure { answer, time: now, generation, _counted: counted };
        self.by_key.insert(key.clone(), failure);
        self.ends.push_back((now + limits.min_interval, key));
    }

    /// Returns the failure of requests with this key.
    pub(super) fn get(&mut self, key: &Key) -> Option<&Failure> {
        self.forget(Instant::now());
        self.by_key.get(key)
    }

    /// Forgets the failures of runs that may be repeated.
    pub(super) fn forget(&mut self, now: Instant) {
        while let Some((_, key)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            self.by_key.remove(&key);
        }
    }
}
