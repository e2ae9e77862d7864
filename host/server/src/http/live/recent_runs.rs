//! The runs of the last moments for requests that wait, with their answers: if they cannot be cached,
//! equal requests share them, and are repeated no sooner than `min-interval` allows.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::Generation;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::Instant;

use super::resolve::Answer;
use super::tally::CountedBytes;
use crate::registry::MountPath;

/// Headers that differ for each request.
const IDS: [&str; 3] = ["x-request-id", "traceparent", "tracestate"];

/// The runs within `min-interval`.
pub(super) struct RecentRuns {
    min_interval: Duration,
    /// The maximum number of runs.
    room: usize,
    hasher: RandomState,
    /// The newest run for each request.
    runs: HashMap<RunKey, RecentRun>,
    /// The times of all runs, in their order.
    order: VecDeque<(Instant, RunKey)>,
}

struct RecentRun {
    /// The time of its begin, or of its end.
    time: Instant,
    /// Its answer, with the memory of that.
    answer: Option<(Answer, CountedBytes)>,
    /// Notified at its end.
    ended: Arc<Notify>,
}

/// The hash of a request. If two have the same, one of them is delayed by the interval at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::http) struct RunKey(u64);

impl RecentRuns {
    pub(super) fn new(min_interval: Duration, room: u32) -> Self {
        let room = room as usize;
        let hasher = RandomState::new();
        Self { min_interval, room, hasher, runs: HashMap::new(), order: VecDeque::new() }
    }

    /// Returns the key of the runs for a request of this mount.
    pub(super) fn key(&self, request: &GuestRequest, mount: &MountPath) -> RunKey {
        // Modules of the contract can read each header. If they read the ids, no two requests are
        // equal, but also those that do not read them have others.
        let mut headers: Vec<_> = request.headers.iter().collect();
        headers.retain(|(name, _)| !IDS.contains(&name.as_str()));
        headers.sort_by_key(|(name, _)| name.as_str());
        RunKey(self.hasher.hash_one((mount, &request.target, headers)))
    }

    /// Records a run that begins now. Without room, it is not recorded.
    pub(super) fn begin(&mut self, key: RunKey, now: Instant) {
        self.forget(now);
        self.add(key, now);
    }

    /// Records a run that ends now, with its answer if there is memory for that.
    pub(super) fn end(
        &mut self,
        key: RunKey,
        answer: Option<(Answer, CountedBytes)>,
        now: Instant,
    ) {
        self.forget(now);
        if let Some(run) = self.add(key, now) {
            run.answer = answer;
            run.ended.notify_waiters();
        }
    }

    /// Forgets a run that did not begin after all.
    pub(super) fn cancel(&mut self, key: RunKey) {
        if let Some(run) = self.runs.remove(&key) {
            run.ended.notify_waiters();
        }
    }

    fn add(&mut self, key: RunKey, now: Instant) -> Option<&mut RecentRun> {
        if self.runs.len() >= self.room && !self.runs.contains_key(&key) {
            return None;
        }
        self.order.push_back((now, key));
        let new = || RecentRun { time: now, answer: None, ended: Arc::default() };
        let run = self.runs.entry(key).or_insert_with(new);
        run.time = now;
        Some(run)
    }

    /// Returns the time of the last run, if that was within the interval.
    pub(super) fn last(&mut self, key: RunKey, now: Instant) -> Option<Instant> {
        self.forget(now);
        self.runs.get(&key).map(|run| run.time)
    }

    /// Returns the time until which the next run must wait, and a future that completes when the last
    /// one ends; `None` if the next run may begin.
    pub(super) fn next(&mut self, key: RunKey, now: Instant) -> Option<(Instant, OwnedNotified)> {
        let time = self.last(key, now)? + self.min_interval;
        Some((time, Arc::clone(&self.runs[&key].ended).notified_owned()))
    }

    /// Returns the answer of the last run to a request with this key that came when this generation
    /// was the newest one.
    pub(super) fn answer(
        &self,
        key: RunKey,
        request: &GuestRequest,
        since: Generation,
    ) -> Option<&Answer> {
        let (answer, _) = self.runs.get(&key)?.answer.as_ref()?;
        let is_answer = match &answer.outcome {
            Ok(response) => {
                let (reads, query) = (response.reads(), request.target.query());
                // It may have read an id.
                response.generation() >= since
                    && (!reads.is_complete() || reads.matches_request(query, &request.headers))
            }
            Err(_) => answer.asked_at >= since,
        };
        is_answer.then_some(answer)
    }

    /// Forgets the runs before the interval.
    pub(super) fn forget(&mut self, now: Instant) {
        while let Some((time, key)) = self.order.front().copied()
            && time + self.min_interval <= now
        {
            self.order.pop_front();
            if self.runs.get(&key).is_some_and(|run| run.time == time) {
                self.runs.remove(&key);
            }
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
        runs.begin(first, start);
        let later = start + interval / 2;
        runs.end(second, None, later);
        runs.begin(third, later);
        assert_eq!(runs.last(first, later), Some(start));
        assert_eq!(runs.last(third, later), None, "there is no room");
        // A later run of the same request counts instead of the one before.
        runs.end(first, None, later);
        assert_eq!(runs.last(first, start + interval), Some(later));
        let end = later + interval;
        assert_eq!([first, second].map(|key| runs.last(key, end)), [None, None]);
        assert!(runs.runs.is_empty() && runs.order.is_empty());
    }

    #[test]
    fn the_end_of_a_run_ends_the_waits_for_the_next_one() {
        let mut runs = RecentRuns::new(Duration::from_millis(50), 2);
        let start = Instant::now();
        let [key, other] = [1, 2].map(RunKey);
        assert!(runs.next(key, start).is_none());
        runs.begin(key, start);
        runs.begin(other, start);
        let (time, ended) = runs.next(key, start).unwrap();
        assert_eq!(time, start + runs.min_interval);
        let (_, of_other) = runs.next(other, start).unwrap();
        runs.end(key, None, start);
        assert!(ended.now_or_never().is_some() && of_other.now_or_never().is_none());
        let (_, of_other) = runs.next(other, start).unwrap();
        runs.cancel(other);
        assert!(of_other.now_or_never().is_some() && runs.next(other, start).is_none());
    }
}
