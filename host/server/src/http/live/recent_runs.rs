//! The runs of the last moments, so that requests that cannot be cached are repeated no sooner than
//! `min-interval` allows.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;

use super::key::Key;

/// The runs within `min-interval`.
pub(super) struct RecentRuns {
    min_interval: Duration,
    /// The maximum number of runs.
    room: usize,
    hasher: RandomState,
    /// The runs, by their requests.
    runs: HashMap<RunKey, RecentRun>,
    /// The requests in the order of their runs.
    order: VecDeque<RunKey>,
}

/// The newest run for a request.
struct RecentRun {
    /// Its begin or end.
    time: Instant,
    /// Notified when others may have its answer.
    answered: Arc<Notify>,
}

/// The hash of a request. If two have the same, one of them is delayed by the interval at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RunKey(u64);

impl RecentRuns {
    pub(super) fn new(min_interval: Duration, room: u32) -> Self {
        let room = room as usize;
        let hasher = RandomState::new();
        Self { min_interval, room, hasher, runs: HashMap::new(), order: VecDeque::new() }
    }

    /// Returns the key of the runs for requests with this one.
    pub(super) fn key(&self, key: &Key) -> RunKey {
        RunKey(self.hasher.hash_one(key))
    }

    /// Records a run that begins or ends now. Without room, it is not recorded.
    pub(super) fn add(&mut self, key: RunKey, now: Instant) {
        self.forget(now);
        if let Some(run) = self.runs.get_mut(&key) {
            run.time = now;
            self.order.retain(|other| *other != key);
        } else if self.runs.len() >= self.room {
            return;
        } else {
            self.runs.insert(key, RecentRun { time: now, answered: Arc::default() });
        }
        self.order.push_back(key);
    }

    /// Returns the time of the last run, if that was within the interval.
    pub(super) fn last(&mut self, key: RunKey, now: Instant) -> Option<Instant> {
        self.forget(now);
        self.runs.get(&key).map(|run| run.time)
    }

    /// Returns the time until which the next run must wait, and a future that completes when others may
    /// have the answer of the last one; `None` if the next run may begin.
    pub(super) fn next(&mut self, key: RunKey, now: Instant) -> Option<(Instant, OwnedNotified)> {
        let time = self.last(key, now)? + self.min_interval;
        Some((time, Arc::clone(&self.runs[&key].answered).notified_owned()))
    }

    /// Notices that others may have the answer of the last run.
    pub(super) fn answered(&self, key: RunKey) {
        if let Some(run) = self.runs.get(&key) {
            run.answered.notify_waiters();
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some(key) = self.order.front()
            && self.runs[key].time + self.min_interval <= now
        {
            self.runs.remove(key);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, RecentRuns, RunKey};
    use futures_util::FutureExt;

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
        assert!(runs.runs.is_empty() && runs.order.is_empty());
    }

    #[test]
    fn the_answer_of_a_run_ends_the_waits_for_the_next_one() {
        let mut runs = RecentRuns::new(Duration::from_millis(50), 2);
        let start = Instant::now();
        let [key, other] = [1, 2].map(RunKey);
        assert!(runs.next(key, start).is_none());
        runs.add(key, start);
        runs.add(other, start);
        let (time, answered) = runs.next(key, start).unwrap();
        assert_eq!(time, start + runs.min_interval);
        let (_, of_other) = runs.next(other, start).unwrap();
        runs.add(key, start);
        runs.answered(key);
        assert!(answered.now_or_never().is_some() && of_other.now_or_never().is_none());
    }
}
