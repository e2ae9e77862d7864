//! The runs of the last moments, so that requests that cannot be cached are repeated no sooner than
//! `min-interval` allows.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::key::Key;

/// The runs within `min-interval`.
pub(super) struct RecentRuns {
    min_interval: Duration,
    /// The maximum number of runs.
    room: usize,
    hasher: RandomState,
    /// The times of the runs, by their requests.
    times: HashMap<RunKey, Instant>,
    /// The requests in the order of their runs.
    order: VecDeque<RunKey>,
}

/// The hash of a request. If two have the same, one of them is delayed by the interval at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::http) struct RunKey(u64);

impl RecentRuns {
    pub(super) fn new(min_interval: Duration, room: u32) -> Self {
        let room = room as usize;
        let hasher = RandomState::new();
        Self { min_interval, room, hasher, times: HashMap::new(), order: VecDeque::new() }
    }

    /// Returns the key of the runs for requests with this one.
    pub(super) fn key(&self, key: &Key) -> RunKey {
        RunKey(self.hasher.hash_one(key))
    }

    /// Records a run that ends now. Without room, it is not recorded.
    pub(super) fn add(&mut self, key: RunKey, now: Instant) {
        self.forget(now);
        if self.times.contains_key(&key) {
            self.order.retain(|other| *other != key);
        } else if self.times.len() >= self.room {
            return;
        }
        self.times.insert(key, now);
        self.order.push_back(key);
    }

    /// Returns the time of the last run, if that was within the interval.
    pub(super) fn last(&mut self, key: RunKey, now: Instant) -> Option<Instant> {
        self.forget(now);
        self.times.get(&key).copied()
    }

    fn forget(&mut self, now: Instant) {
        while let Some(key) = self.order.front()
            && self.times[key] + self.min_interval <= now
        {
            self.times.remove(key);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, RecentRuns, RunKey};

    #[test]
    fn runs_are_known_until_the_interval_is_over() {
        let interval = Duration::from_millis(50);
        let mut runs = RecentRuns::new(interval, 2);
        let start = Instant::now();
        let [first, second, third] = [1, 2, 3].map(RunKey);
        assert_eq!(runs.last(first, start), None);
        runs.add(first, start);
        let later = start + interval / 2;
        runs.add(second, later);
        runs.add(third, later);
        assert_eq!(runs.last(first, later), Some(start));
        assert_eq!(runs.last(third, later), None, "there is no room");
        // A later run of the same request counts instead of the one before.
        runs.add(first, later);
        assert_eq!(runs.last(first, start + interval), Some(later));
        let end = later + interval;
        assert_eq!([first, second].map(|key| runs.last(key, end)), [None, None]);
        assert!(runs.times.is_empty() && runs.order.is_empty());
    }
}
