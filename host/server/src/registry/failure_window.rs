//! The failures of a module within a time window, rated against all its runs and all
//! kinds of its requests.
//!
//! The kind of a request is its method and path. The query and the headers do not count,
//! or one client could turn one failing request into any number of them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use relayer_rest_sandbox::GuestRequest;
use tokio::time::Instant;

use super::failure_policy::FailurePolicy;

/// The maximum number of kinds of requests that are tracked. More add no information.
const MAX_KINDS: usize = 1_024;

/// The number of parts of the window in which runs are counted.
const PARTS: u32 = 10;

/// The hash keys of this process, so that a client cannot make two kinds collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The method and path of a request, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestKind(u64);

/// The runs of a module since it became active, and how many of them failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) all: u64,
    pub(super) failed: u64,
}

/// The runs and failures of a module within the window of its failure policy.
#[derive(Debug, Default)]
pub(super) struct FailureWindow {
    kinds: HashMap<RequestKind, KindHistory>,
    /// The counts at the beginning of each part of the window.
    parts: VecDeque<(Instant, Runs)>,
}

/// The results of one kind of requests.
#[derive(Debug, Clone, Copy, Default)]
struct KindHistory {
    /// When the module last responded to one, and when it last failed at one.
    responded: Option<Instant>,
    failed: Option<Instant>,
    /// The result of the previous module for a request at which this one failed.
    before: Option<Baseline>,
}

/// The result of the previous module for a request at which this one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Baseline {
    Responds,
    Fails,
}

impl RequestKind {
    pub(super) fn new(request: &GuestRequest) -> Self {
        Self(HASHER.hash_one((&request.method, request.target.path())))
    }
}

impl FailureWindow {
    /// Records a response, which `runs` includes.
    pub(super) fn responded(
        &mut self,
        kind: RequestKind,
        runs: Runs,
        policy: &FailurePolicy,
        now: Instant,
    ) {
        let all = runs.all.saturating_sub(1);
        self.advance(Runs { all, ..runs }, policy, now);
        if let Some(history) = self.history_of(kind) {
            history.responded = Some(now);
        }
    }

    /// Records a failure, which `runs` includes.
    pub(super) fn failed(
        &mut self,
        kind: RequestKind,
        runs: Runs,
        policy: &FailurePolicy,
        now: Instant,
    ) {
        let all = runs.all.saturating_sub(1);
        let failed = runs.failed.saturating_sub(1);
        self.advance(Runs { all, failed }, policy, now);
        if let Some(history) = self.history_of(kind) {
            history.failed = Some(now);
        }
    }

    /// Returns whether the previous module should be run for comparison: as far as is
    /// known, it has not been compared on this kind yet.
    pub(super) fn wants_comparison(&self, kind: RequestKind) -> bool {
        self.kinds.get(&kind).is_some_and(|history| history.before.is_none())
    }

    /// Records the result of the previous module.
    pub(super) fn compared(&mut self, kind: RequestKind, before: Baseline) {
        if let Some(history) = self.kinds.get_mut(&kind) {
            history.before = Some(before);
        }
    }

    /// Returns the number of kinds at which the module fails and the previous one
    /// responds.
    pub(super) fn regressions(&self) -> usize {
        self.kinds.values().filter(|history| history.before == Some(Baseline::Responds)).count()
    }

    /// Returns whether the module fails at most of its requests: at enough kinds of
    /// requests, at a large enough share of all kinds, and in a large enough share of all
    /// runs.
    pub(super) fn is_failing(&self, runs: Runs, policy: &FailurePolicy, now: Instant) -> bool {
        let failing = self.kinds.values().filter(|history| history.is_failing(policy, now)).count();
        let since = self.parts.front().map_or(Runs::default(), |(_, runs)| *runs);
        let failed = runs.failed.saturating_sub(since.failed);
        failing >= policy.failures as usize
            && policy.is_rate_reached(failing as u64, self.kinds.len() as u64)
            && policy.is_rate_reached(failed, runs.all.saturating_sub(since.all))
    }

    /// Returns whether the module has failed at requests of this kind and responded to
    /// none within the window.
    pub(super) fn is_known_to_fail(
        &self,
        kind: RequestKind,
        policy: &FailurePolicy,
        now: Instant,
    ) -> bool {
        self.kinds.get(&kind).is_some_and(|history| history.is_failing(policy, now))
    }

    /// Returns whether the module has responded to the last request of this kind.
    pub(super) fn is_known_to_respond(&self, kind: RequestKind) -> bool {
        self.kinds.get(&kind).is_some_and(|history| history.responded > history.failed)
    }

    /// Begins a new part of the window if it is time, and drops old parts and kinds.
    fn advance(&mut self, runs: Runs, policy: &FailurePolicy, now: Instant) {
        let part = policy.window / PARTS;
        if self.parts.back().is_some_and(|(start, _)| now.duration_since(*start) < part) {
            return;
        }
        self.parts.push_back((now, runs));
        // The first part is the one in which the window begins.
        let is_over = |start: &Instant| now.duration_since(*start) > policy.window;
        while self.parts.get(1).is_some_and(|(start, _)| is_over(start)) {
            self.parts.pop_front();
        }
        if self.parts.len() == 2 && self.parts.front().is_some_and(|(start, _)| is_over(start)) {
            self.parts.pop_front();
        }
        self.kinds.retain(|_, history| {
            is_recent(history.responded, policy, now) || is_recent(history.failed, policy, now)
        });
    }

    fn history_of(&mut self, kind: RequestKind) -> Option<&mut KindHistory> {
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            return None;
        }
        Some(self.kinds.entry(kind).or_default())
    }
}

impl KindHistory {
    /// Returns whether the module has failed and not responded within the window.
    fn is_failing(&self, policy: &FailurePolicy, now: Instant) -> bool {
        is_recent(self.failed, policy, now) && !is_recent(self.responded, policy, now)
    }
}

fn is_recent(time: Option<Instant>, policy: &FailurePolicy, now: Instant) -> bool {
    time.is_some_and(|time| now.duration_since(time) <= policy.window)
}

#[cfg(test)]
mod tests {
    use super::{Baseline, FailurePolicy, FailureWindow, MAX_KINDS, RequestKind, Runs};
    use relayer_rest_sandbox::GuestRequest;
    use std::time::Duration;
    use tokio::time::Instant;

    /// The window and the runs of a module, and a clock.
    struct TestWindow {
        window: FailureWindow,
        runs: Runs,
        start: Instant,
        seconds: f64,
    }

    impl TestWindow {
        fn new() -> Self {
            let window = FailureWindow::default();
            let runs = Runs::default();
            Self { window, runs, start: Instant::now(), seconds: 0.0 }
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_secs_f64(self.seconds)
        }

        fn responds(&mut self, kind: u64) {
            self.runs.all += 1;
            self.window.responded(
                RequestKind(kind),
                self.runs,
                &FailurePolicy::default(),
                self.now(),
            );
        }

        /// Records a failure, and returns whether the module is failing then.
        fn fails(&mut self, kind: u64) -> bool {
            (self.runs.all, self.runs.failed) = (self.runs.all + 1, self.runs.failed + 1);
            let policy = FailurePolicy::default();
            self.window.failed(RequestKind(kind), self.runs, &policy, self.now());
            self.window.is_failing(self.runs, &policy, self.now())
        }
    }

    fn request(method: &str, target: &str, header: Option<&str>) -> GuestRequest {
        let header = header.map(|value| (http::header::ACCEPT, value.parse().unwrap()));
        let headers = header.into_iter().collect();
        GuestRequest::new(method.parse().unwrap(), target.parse().unwrap(), headers)
    }

    #[test]
    fn a_module_that_fails_every_request_is_failing_after_a_few() {
        let mut test = TestWindow::new();
        let results: Vec<_> = (0..6).map(|kind| test.fails(kind)).collect();
        assert_eq!(results, [false, false, false, false, true, true]);
    }

    #[test]
    fn repetitions_of_one_kind_of_request_count_once() {
        let mut test = TestWindow::new();
        assert!((0..10_000).all(|_| !test.fails(1)));
    }

    #[test]
    fn methods_and_paths_distinguish_kinds_and_queries_and_headers_do_not() {
        let kind = |request| RequestKind::new(&request);
        let page = kind(request("GET", "/a", None));
        assert_eq!(page, kind(request("GET", "/a?1", None)));
        assert_eq!(page, kind(request("GET", "/a", Some("x"))));
        assert_ne!(page, kind(request("POST", "/a", None)));
        assert_ne!(page, kind(request("GET", "/b", None)));
    }

    #[test]
    fn failures_are_rated_against_runs() {
        let mut test = TestWindow::new();
        for _ in 0..20 {
            test.responds(100);
        }
        assert!((0..19).all(|kind| !test.fails(kind)));
        assert!(test.fails(19), "20 of 40");
    }

    #[test]
    fn failures_are_rated_against_kinds_of_requests() {
        let mut test = TestWindow::new();
        for kind in 100..110 {
            test.responds(kind);
        }
        // One client can cause any number of runs.
        assert!((0..1_000).all(|turn| !test.fails(turn % 9)));
        assert!(test.fails(9));
    }

    #[test]
    fn a_kind_that_also_succeeds_is_not_counted() {
        let mut test = TestWindow::new();
        for kind in 0..10 {
            test.responds(kind);
        }
        assert!((0..100).all(|turn| !test.fails(turn % 10)));
        let policy = FailurePolicy::default();
        assert!(!test.window.is_known_to_fail(RequestKind(0), &policy, test.now()));
    }

    #[test]
    fn recent_successes_are_counted_and_old_ones_are_not() {
        let mut test = TestWindow::new();
        for turn in 0..90 {
            test.seconds = f64::from(turn) / 10.0;
            test.responds(100);
        }
        assert!((0..20).all(|kind| !test.fails(kind)), "20 of 110 within 10 s");
        // By now, the responses are outside the window.
        test.seconds = 60.0;
        let results: Vec<_> = (0..5).map(|kind| test.fails(kind)).collect();
        assert_eq!(results, [false, false, false, false, true]);
    }

    #[test]
    fn a_module_that_starts_to_fail_is_failing_once_its_successes_are_old() {
        let mut test = TestWindow::new();
        for kind in 0..5 {
            test.responds(kind);
        }
        let mut is_failing = false;
        for turn in 0..40 {
            test.seconds = 0.1 + f64::from(turn) / 2.0;
            for kind in 0..5 {
                is_failing = test.fails(kind);
            }
            assert_eq!(is_failing, test.seconds > 10.0, "{} s", test.seconds);
        }
    }

    #[test]
    fn failures_that_are_far_apart_are_tolerated() {
        let mut test = TestWindow::new();
        for kind in 0..100 {
            test.seconds += 2.6;
            assert!(!test.fails(kind));
        }
    }

    #[test]
    fn a_kind_is_compared_with_the_previous_module_once() {
        let mut test = TestWindow::new();
        assert!(!test.window.wants_comparison(RequestKind(1)));
        test.fails(1);
        assert!(test.window.wants_comparison(RequestKind(1)));
        test.window.compared(RequestKind(1), Baseline::Fails);
        test.fails(1);
        assert!(!test.window.wants_comparison(RequestKind(1)));
        assert_eq!(test.window.regressions(), 0);
        test.fails(2);
        test.window.compared(RequestKind(2), Baseline::Responds);
        assert_eq!(test.window.regressions(), 1);
    }

    #[test]
    fn the_window_is_bounded() {
        let mut test = TestWindow::new();
        for kind in 0..10_000 {
            test.responds(kind);
        }
        assert_eq!(test.window.kinds.len(), MAX_KINDS);
        for _ in 0..1_000 {
            test.seconds += 0.5;
            test.responds(1);
        }
        assert!(test.window.parts.len() <= 12, "{}", test.window.parts.len());
        assert_eq!(test.window.kinds.len(), 1);
    }
}
