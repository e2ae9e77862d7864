//! The runs of the last moments for requests that wait, with their answers: if they cannot be cached,
//! equal requests share them, and are repeated no sooner than `min-interval` allows.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::Generation;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, timeout_at};

use super::key;
use super::resolve::Answer;
use crate::registry::MountPath;

/// The runs in progress, and those within `min-interval`.
pub(super) struct RecentRuns {
    min_interval: Duration,
    /// The maximum number of runs.
    room: usize,
    /// The maximum size of all answers, in bytes.
    max_size: u64,
    /// The size of all answers, in bytes.
    size: u64,
    hasher: RandomState,
    /// The newest run for each request.
    runs: HashMap<RunKey, RecentRun>,
    /// The times of these runs, in their order; those of runs in progress only within the interval.
    order: BTreeSet<(Instant, RunKey)>,
    next: RunNumber,
}

struct RecentRun {
    /// The time of its begin, or of its end with an answer.
    time: Instant,
    /// The run in progress.
    running: Option<RunNumber>,
    /// Whether its answer is for its request only, so that no other one waits for it.
    is_own: bool,
    /// Its answer, with the size of that in bytes.
    answer: Option<(Answer, u64)>,
    /// Notified at its end.
    ended: Arc<Notify>,
}

/// The keyed hash of a request: others have the same one with a probability of 2⁻⁶⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RunKey(u64);

/// The number of a run.
pub(super) type RunNumber = u64;

/// A later run for a request.
pub(in crate::http) struct NextRun {
    /// The time at which it may begin; `None` while another one is in progress.
    pub(in crate::http) time: Option<Instant>,
    /// Completes when the one before it ends, whose answer it may share.
    ended: OwnedNotified,
}

impl NextRun {
    /// Waits until the run may begin, or the one before it has ended.
    pub(in crate::http) async fn over(self) {
        match self.time {
            Some(time) => drop(timeout_at(time, self.ended).await),
            None => self.ended.await,
        }
    }
}

impl RecentRuns {
    pub(super) fn new(min_interval: Duration, room: u32, max_size: u64) -> Self {
        Self {
            min_interval,
            room: room as usize,
            max_size,
            size: 0,
            hasher: RandomState::new(),
            runs: HashMap::new(),
            order: BTreeSet::new(),
            next: 0,
        }
    }

    /// Returns the key of the runs for a request of this mount.
    pub(super) fn key(&self, request: &GuestRequest, mount: &MountPath) -> RunKey {
        let headers = key::common_headers(&request.headers);
        RunKey(self.hasher.hash_one((mount, &request.target, headers)))
    }

    /// Records a run that begins now, if there is room.
    pub(super) fn begin(&mut self, key: RunKey, now: Instant) -> RunNumber {
        self.forget(now);
        let number = self.next;
        self.next += 1;
        if let Some(run) = self.at(key, now) {
            run.running = Some(number);
        }
        number
    }

    /// Records that a run ends now, if it is still the newest one.
    pub(super) fn end(&mut self, key: RunKey, number: RunNumber, answer: &Answer, now: Instant) {
        if !self.is_running(key, number) {
            return;
        }
        if let Some(run) = self.runs.get_mut(&key) {
            run.running = None;
        }
        self.store(key, answer, now);
    }

    /// Records a run of the evaluator that ends now. Another one may be in progress.
    pub(super) fn record(&mut self, key: RunKey, answer: &Answer, now: Instant) {
        if was_run(answer) {
            self.store(key, answer, now);
        }
    }

    /// Stores the answer of a run if others can share it, and there is memory for that.
    fn store(&mut self, key: RunKey, answer: &Answer, now: Instant) {
        self.forget(now);
        let before = self.runs.get_mut(&key).and_then(|run| run.answer.take());
        self.size -= before.as_ref().map_or(0, |(_, size)| *size);
        // Runs may end in another order than they begin.
        let newer = before.filter(|(before, _)| generation(before) > generation(answer));
        let is_own = newer.is_none() && is_own(answer);
        let answer = newer.unwrap_or_else(|| (answer.clone(), size(answer)));
        let size = answer.1;
        let is_kept = !is_own && self.size + size <= self.max_size;
        let Some(run) = self.at(key, now) else { return };
        run.is_own = is_own;
        run.ended.notify_waiters();
        if is_kept {
            run.answer = Some(answer);
            self.size += size;
        }
    }

    /// Forgets a run of a module that is not active any more.
    pub(super) fn cancel(&mut self, key: RunKey, number: RunNumber, now: Instant) {
        // The answer is that of another run, which has ended meanwhile.
        if self.runs.get(&key).is_some_and(|run| run.answer.is_some()) {
            self.abort(key, number, now);
        } else if self.is_running(key, number) {
            self.remove(key);
        }
    }

    /// Records that a run has no answer, because its client has left.
    pub(super) fn abort(&mut self, key: RunKey, number: RunNumber, now: Instant) {
        if !self.is_running(key, number) {
            return;
        }
        match self.runs.get_mut(&key) {
            // It is forgotten after the interval.
            Some(run) if run.time + self.min_interval > now => {
                run.running = None;
                run.ended.notify_waiters();
            }
            _ => self.remove(key),
        }
    }

    /// Forgets the runs that have ended: other modules may be active.
    pub(super) fn forget_ended(&mut self) {
        let ended = self.runs.iter().filter(|(_, run)| run.running.is_none());
        for key in ended.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key);
        }
    }

    /// Ends the waits of all requests for runs.
    pub(super) fn notify_all(&self) {
        self.runs.values().for_each(|run| run.ended.notify_waiters());
    }

    fn is_running(&self, key: RunKey, number: RunNumber) -> bool {
        self.runs.get(&key).is_some_and(|run| run.running == Some(number))
    }

    fn remove(&mut self, key: RunKey) {
        if let Some(run) = self.runs.remove(&key) {
            self.size -= run.answer.map_or(0, |(_, size)| size);
            self.order.remove(&(run.time, key));
            run.ended.notify_waiters();
        }
    }

    /// Returns the record of a run that begins or ends now, if there is room.
    fn at(&mut self, key: RunKey, now: Instant) -> Option<&mut RecentRun> {
        if self.runs.len() >= self.room && !self.runs.contains_key(&key) {
            return None;
        }
        let new = || RecentRun {
            time: now,
            running: None,
            is_own: false,
            answer: None,
            ended: Arc::default(),
        };
        let run = self.runs.entry(key).or_insert_with(new);
        self.order.remove(&(run.time, key));
        self.order.insert((now, key));
        run.time = now;
        Some(run)
    }

    /// Returns the time of the last run, if that is in progress or was within the interval.
    pub(super) fn last(&mut self, key: RunKey, now: Instant) -> Option<Instant> {
        self.forget(now);
        self.runs.get(&key).map(|run| run.time)
    }

    /// Returns when the next run may begin if that is later.
    pub(super) fn next(&mut self, key: RunKey, now: Instant) -> Option<NextRun> {
        self.forget(now);
        let run = self.runs.get(&key).filter(|run| !run.is_own)?;
        // A run that takes longer than the interval is not repeated before its end.
        let time = run.running.is_none().then(|| run.time + self.min_interval);
        Some(NextRun { time, ended: Arc::clone(&run.ended).notified_owned() })
    }

    /// Returns the answer of the last run to a request with this key that came when this generation
    /// was the newest one.
    pub(super) fn answer(&self, key: RunKey, since: Generation) -> Option<&Answer> {
        let (answer, _) = self.runs.get(&key)?.answer.as_ref()?;
        (generation(answer) >= since).then_some(answer)
    }

    /// Forgets the runs that ended before the interval.
    pub(super) fn forget(&mut self, now: Instant) {
        while let Some((time, key)) = self.order.first().copied()
            && time + self.min_interval <= now
        {
            self.order.pop_first();
            if self.runs.get(&key).is_some_and(|run| run.running.is_none()) {
                self.remove(key);
            }
        }
    }

    /// Returns when the next run is to be forgotten.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.order.first().map(|(time, _)| *time + self.min_interval)
    }
}

/// Returns whether an answer is for its request only.
fn is_own(answer: &Answer) -> bool {
    match &answer.outcome {
        Ok(response) => answer.has_commands() || response.reads().has_ids(),
        // Without a run, there is nothing to limit.
        Err(_) => !was_run(answer),
    }
}

/// Returns whether the module was run, and the answer is not an error of the host.
fn was_run(answer: &Answer) -> bool {
    answer.outcome.is_ok() || answer.is_failure
}

/// Returns the generation of the state that an answer is of, or a later one.
fn generation(answer: &Answer) -> Generation {
    answer.outcome.as_ref().map_or(answer.asked_at, |response| response.generation())
}

/// Returns the size of an answer, in bytes.
fn size(answer: &Answer) -> u64 {
    let size = match &answer.outcome {
        Ok(response) => response.size(),
        Err(response) => response.body().len(),
    };
    size as u64
}

#[cfg(test)]
mod tests {
    use super::{Answer, Duration, Instant, RecentRuns, RunKey, size};
    use crate::http::live::fixture::Fixture;
    use futures_util::FutureExt;

    const INTERVAL: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn runs_are_known_until_the_interval_is_over() {
        let answer = Fixture::new().answer().await;
        let mut runs = RecentRuns::new(INTERVAL, 2, u64::MAX);
        let start = Instant::now();
        let [first, second, third] = [1, 2, 3].map(RunKey);
        assert_eq!(runs.last(first, start), None);
        let number = runs.begin(first, start);
        let later = start + INTERVAL / 2;
        runs.record(second, &answer, later);
        runs.begin(third, later);
        assert_eq!(runs.last(first, later), Some(start));
        assert_eq!(runs.last(third, later), None, "there is no room");
        // A run in progress is known for longer.
        let end = start + INTERVAL * 3;
        assert_eq!(runs.last(first, end), Some(start));
        assert_eq!(runs.last(second, end), None);
        assert_eq!(runs.size, 0);
        runs.end(first, number, &answer, end);
        assert_eq!(runs.last(first, end + INTERVAL / 2), Some(end));
        assert_eq!(runs.last(first, end + INTERVAL), None);
        assert!(runs.runs.is_empty() && runs.order.is_empty() && runs.next_end().is_none());
    }

    #[tokio::test]
    async fn answers_take_a_limited_memory() {
        let answer = Fixture::new().answer().await;
        let mut runs = RecentRuns::new(INTERVAL, 3, 2 * size(&answer));
        let start = Instant::now();
        for key in [1, 1, 2, 3].map(RunKey) {
            runs.record(key, &answer, start);
        }
        let kept = [1, 2, 3].map(|key| runs.runs[&RunKey(key)].answer.is_some());
        assert_eq!((kept, runs.size), ([true, true, false], 2 * size(&answer)));
        runs.forget(start + INTERVAL);
        assert_eq!(runs.size, 0);
    }

    #[tokio::test]
    async fn the_end_of_a_run_ends_the_waits_for_the_next_one() {
        let answer = Fixture::new().answer().await;
        let mut runs = RecentRuns::new(INTERVAL, 2, u64::MAX);
        let start = Instant::now();
        let [key, other] = [1, 2].map(RunKey);
        assert!(runs.next(key, start).is_none());
        let number = runs.begin(key, start);
        runs.begin(other, start);
        let next = runs.next(key, start).unwrap();
        assert_eq!(next.time, None);
        let of_other = runs.next(other, start).unwrap();
        runs.end(key, number, &answer, start);
        assert!(next.over().now_or_never().is_some() && of_other.over().now_or_never().is_none());
        let of_other = runs.next(other, start).unwrap();
        runs.notify_all();
        assert!(of_other.over().now_or_never().is_some());
        for _ in 0..10 {
            let number = runs.begin(other, start);
            runs.abort(other, number, start);
        }
        assert_eq!(runs.order.len(), 2, "runs without an answer take no memory");
    }

    /// It has not run the module, or is another one for each request.
    #[tokio::test]
    async fn no_request_waits_for_an_answer_that_it_cannot_share() {
        let mut answer = Fixture::new().answer().await;
        answer.outcome = Err(hyper::Response::default().into());
        let mut runs = RecentRuns::new(INTERVAL, 2, u64::MAX);
        let (key, start) = (RunKey(1), Instant::now());
        for is_failure in [false, true] {
            runs.record(key, &Answer { is_failure, ..answer.clone() }, start);
            assert_eq!(runs.next(key, start).is_none(), !is_failure);
            assert_eq!(runs.size, 0);
        }
    }

    /// It is that of the evaluator, which may begin before another run and end after it.
    #[tokio::test]
    async fn an_older_answer_ends_no_other_run_and_replaces_no_newer_one() {
        let fixture = Fixture::new();
        let older = fixture.answer().await;
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        let newer = fixture.answer().await;
        let since = newer.asked_at;
        let host_error = Err(hyper::Response::default().into());
        let host_error = Answer { outcome: host_error, is_failure: false, ..newer.clone() };
        let mut runs = RecentRuns::new(INTERVAL, 2, u64::MAX);
        let (key, start) = (RunKey(1), Instant::now());
        let number = runs.begin(key, start);
        runs.record(key, &older, start);
        assert!(runs.answer(key, since).is_none());
        assert!(runs.next(key, start).is_some_and(|next| next.time.is_none()));
        runs.end(key, number, &newer, start);
        for late in [older, host_error] {
            runs.record(key, &late, start);
            assert!(runs.answer(key, since).is_some());
            assert_eq!(runs.size, size(&newer));
        }
        // Nor does the end of a run of another module.
        let number = runs.begin(key, start);
        runs.cancel(key, number, start);
        assert!(runs.answer(key, since).is_some());
        assert!(runs.next(key, start).is_some_and(|next| next.time.is_some()));
        // The interval after the answer may be over at that end.
        let number = runs.begin(key, start);
        let end = start + INTERVAL * 2;
        runs.forget(end);
        runs.cancel(key, number, end);
        assert!(runs.size == 0 && runs.runs.is_empty() && runs.order.is_empty());
    }

    #[test]
    fn an_aborted_run_delays_the_next_one_for_the_interval_after_its_begin() {
        let mut runs = RecentRuns::new(INTERVAL, 2, u64::MAX);
        let start = Instant::now();
        let key = RunKey(1);
        let first = runs.begin(key, start);
        let waiting = runs.next(key, start).unwrap();
        let later = start + INTERVAL / 2;
        runs.abort(key, first, later);
        assert!(waiting.over().now_or_never().is_some());
        assert_eq!(runs.next(key, later).unwrap().time, Some(start + INTERVAL), "it has begun");
        let next = start + INTERVAL;
        assert!(runs.next(key, next).is_none());
        let second = runs.begin(key, next);
        runs.abort(key, first, next);
        assert_eq!(runs.runs[&key].running, Some(second));
        // The interval is over at its end.
        let end = next + INTERVAL * 2;
        let waiting = runs.next(key, end).unwrap();
        runs.abort(key, second, end);
        assert!(waiting.over().now_or_never().is_some() && runs.next(key, end).is_none());
    }
}
