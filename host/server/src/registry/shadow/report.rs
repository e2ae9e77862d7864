//! The report of a shadow.

use std::time::Duration;

use relayer_rest_common::histogram::Times;
use serde::{Deserialize, Serialize};

use super::expected::ChangeKind;
use crate::registry::compare::Change;

/// The report of a shadow: the comparison of a candidate with the active module on the requests
/// of clients, as they came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShadowReport {
    /// The duration, in seconds.
    pub seconds: f64,
    /// The distinct requests without a cached response that were compared, each on the snapshot
    /// of the active module's run.
    pub requests: u64,
    /// The generations of the state on which they ran.
    pub generations: u64,
    /// The requests that were not compared, because the candidate was too slow or the shadow
    /// ended.
    pub dropped: u64,
    /// The frequent requests that were compared once more at the end, whether or not their
    /// responses were cached.
    pub frequent: u64,
    /// The requests to which the responses differ in a way that was not expected.
    pub unexpected: u64,
    /// The requests to which the responses differ in expected ways only.
    pub expected: u64,
    /// The differences by route, kind and place; the unexpected ones first.
    pub differences: Vec<ShadowDifference>,
    /// The number of further routes, kinds and places with differences.
    pub unlisted: u64,
    /// The expected changes that did not occur.
    pub unseen: Vec<String>,
    /// The processor time of the candidate's runs, to that of the active module's on the same
    /// requests; none if it is not limited.
    pub slowdown: Option<f64>,
    /// The runs of the active module, for clients.
    pub active: RunsReport,
    /// The runs of the candidate, at a lower priority.
    pub candidate: RunsReport,
}

/// The differences at one place of the responses of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowDifference {
    /// The method and the path, as the module declares it, or else of the first request.
    pub route: String,
    /// The kind.
    pub kind: ChangeKind,
    /// The JSON pointer, with `*` for the index of each array.
    pub pointer: Option<String>,
    /// The name of the header.
    pub header: Option<String>,
    /// Whether the change was expected.
    pub is_expected: bool,
    /// How often it occurred. Several elements of an array count as often.
    pub count: u64,
    /// The first request with it.
    pub request: String,
    /// The change in that.
    pub first: Change,
}

/// The runs of a module on the compared requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunsReport {
    /// The number of runs.
    pub runs: u64,
    /// The runs that failed.
    pub failures: u64,
    /// The mean time of a run, in milliseconds.
    pub mean_millis: f64,
    /// The time that half of the runs do not exceed, in milliseconds: an upper bound.
    pub p50_millis: f64,
    /// The time that 99 % of the runs do not exceed, in milliseconds: an upper bound.
    pub p99_millis: f64,
    /// The peak size of the memories and tables of an instance, in bytes.
    pub peak_memory: usize,
}

impl RunsReport {
    /// Creates the report from the times of runs.
    pub(super) fn new(times: &Times, failures: u64, peak_memory: usize) -> Self {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let runs = times.count();
        let mean = times.sum().checked_div(u32::try_from(runs).unwrap_or(u32::MAX));
        Self {
            runs,
            failures,
            mean_millis: millis(mean.unwrap_or_default()),
            p50_millis: millis(times.percentile(50)),
            p99_millis: millis(times.percentile(99)),
            peak_memory,
        }
    }
}
