//! Rates of a running server, from two readings of its counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use relayer_rest_server::control::{ConnectionStatus, SourceStatus, Status};
use relayer_rest_server::registry::{self, MountStatus};
use relayer_rest_sources::{MetricsError, parse_metrics};
use serde::Serialize;

use super::super::swap::short;

/// The metric with the time when the process started.
const START_TIME: &str = "process_start_time_seconds";

/// The status and the metrics of a server at one moment.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    status: Status,
    metrics: Metrics,
    at: Instant,
    time: SystemTime,
}

/// The values of metrics by their series.
#[derive(Debug, Clone, Default)]
struct Metrics(BTreeMap<Series, f64>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    name: Arc<str>,
    labels: Vec<(Arc<str>, Arc<str>)>,
}

/// The state of a server, and its rates since the reading before.
///
/// Rates, latencies and ratios are `None` after the first reading, and without requests if
/// they depend on some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) uptime_seconds: Option<f64>,
    /// The time between the readings.
    pub(super) interval_seconds: Option<f64>,
    pub(super) ready: bool,
    pub(super) not_ready: Option<String>,
    /// Seconds since 1970, as in the status.
    pub(super) stale_since: Option<u64>,
    pub(super) snapshot: SnapshotReport,
    pub(super) sources: Vec<SourceStatus>,
    pub(super) connections: Option<ConnectionStatus>,
    /// In the order of the server, the API first.
    pub(super) mounts: Vec<MountReport>,
}

/// The published state of the relayer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SnapshotReport {
    /// The number of publications.
    pub(super) generation: Option<u64>,
    /// The time since the content changed.
    pub(super) unchanged_seconds: Option<f64>,
}

/// A mount, and its requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MountReport {
    pub(super) mount: String,
    pub(super) name: String,
    /// `None` if the mount has no module.
    pub(super) digest: Option<String>,
    pub(super) state: MountState,
    pub(super) requests_per_second: Option<f64>,
    pub(super) latency_p50_seconds: Option<f64>,
    pub(super) latency_p99_seconds: Option<f64>,
    /// The part of the requests that had a cached response.
    pub(super) cache_hit_ratio: Option<f64>,
    /// The rate of responses with a status of 500 or above.
    pub(super) errors_per_second: Option<f64>,
    /// The number of requests that wait for an instance.
    pub(super) queue_depth: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MountState {
    /// The module of the extension was rejected.
    Disabled,
    /// The extension is out of service because it failed too often.
    CircuitOpen,
    /// A module failed and was replaced by the previous one, which serves.
    Quarantined,
    /// The first module is being compiled or checked.
    Loading,
    Serving,
}

/// The requests of a mount between two readings.
#[derive(Debug, Default)]
struct Activity {
    requests: f64,
    errors: f64,
    hits: f64,
    /// The number of requests up to each bound, by the bound as the metrics write it.
    buckets: BTreeMap<Arc<str>, f64>,
}

impl Reading {
    /// Creates the reading of a status, and of metrics in the text format of Prometheus.
    ///
    /// # Errors
    /// Returns an error if the text is invalid.
    pub(super) fn new(
        status: Status,
        metrics: &str,
        at: Instant,
        time: SystemTime,
    ) -> Result<Self, MetricsError> {
        let samples = parse_metrics(metrics.as_bytes())?.into_iter().flat_map(|family| {
            let samples = family.samples.into_iter();
            samples
                .map(|sample| (Series { name: sample.name, labels: sample.labels }, sample.value))
        });
        let metrics = Metrics(samples.collect());
        Ok(Self { status, metrics, at, time })
    }

    /// Returns the state of the server, and its rates since the reading before.
    pub(super) fn report(&self, before: Option<&Self>) -> Report {
        let interval = before.map(|before| self.at.saturating_duration_since(before.at));
        // All counts of another process are since its start.
        // In a container, each process may have the same id.
        let start = |of: &Self| of.metrics.value(START_TIME, None);
        let is_same =
            |before: &&Self| before.status.pid == self.status.pid && start(before) == start(self);
        let restarted = Metrics::default();
        let counts = before.filter(is_same).map_or(&restarted, |before| &before.metrics);
        let mut activities = self.metrics.activities(counts);
        let mounts = self.status.mounts.iter().map(|mount| {
            let activity = activities.remove(mount.mount.as_str()).unwrap_or_default();
            self.mount(mount, interval.map(|interval| (activity, interval)).as_ref())
        });
        Report {
            version: self.status.version.clone(),
            pid: self.status.pid,
            uptime_seconds: self.seconds_since(START_TIME),
            interval_seconds: interval.map(|interval| interval.as_secs_f64()),
            ready: self.status.ready,
            not_ready: self.status.not_ready.clone(),
            stale_since: self.status.stale_since,
            snapshot: SnapshotReport {
                generation: self
                    .metrics
                    .value("relayer_rest_snapshot_publications_total", None)
                    .map(whole),
                unchanged_seconds: self
                    .seconds_since("relayer_rest_snapshot_changed_timestamp_seconds"),
            },
            sources: self.status.sources.clone(),
            connections: self.status.connections,
            mounts: mounts.collect(),
        }
    }

    fn mount(&self, status: &MountStatus, activity: Option<&(Activity, Duration)>) -> MountReport {
        let rate = |count: fn(&Activity) -> f64| {
            let (activity, interval) = activity?;
            Some(count(activity) / interval.as_secs_f64()).filter(|rate| rate.is_finite())
        };
        let activity = activity.map(|(activity, _)| activity);
        MountReport {
            mount: status.mount.clone(),
            name: status.name.clone(),
            digest: status.module().map(|module| module.digest.clone()),
            state: MountState::from(status),
            requests_per_second: rate(|activity| activity.requests),
            latency_p50_seconds: activity.and_then(|activity| activity.latency(0.5)),
            latency_p99_seconds: activity.and_then(|activity| activity.latency(0.99)),
            cache_hit_ratio: activity.and_then(Activity::hit_ratio),
            errors_per_second: rate(|activity| activity.errors),
            queue_depth: self
                .metrics
                .value("relayer_rest_queue_depth", Some(&status.mount))
                .map(whole),
        }
    }

    /// Returns the time since the one in a metric.
    fn seconds_since(&self, name: &str) -> Option<f64> {
        let now = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some((now.as_secs_f64() - self.metrics.value(name, None)?).max(0.0))
    }
}

impl Metrics {
    /// Returns the value of a metric without labels, or with the one of a mount.
    fn value(&self, name: &str, mount: Option<&str>) -> Option<f64> {
        let labels = mount.map(|mount| ("mount".into(), mount.into())).into_iter().collect();
        self.0.get(&Series { name: name.into(), labels }).copied()
    }

    /// Returns the requests of each mount since these metrics before.
    fn activities(&self, before: &Self) -> BTreeMap<&str, Activity> {
        let mut activities: BTreeMap<&str, Activity> = BTreeMap::new();
        for (series, value) in &self.0 {
            // A mount that a reload replaced, or a module that is active again, counts from 0.
            let counted = before.0.get(series).filter(|before| *before <= value);
            let increase = value - counted.unwrap_or(&0.0);
            let Some(mount) = series.label("mount") else { continue };
            let activity = activities.entry(mount).or_default();
            match &*series.name {
                "relayer_rest_requests_total" => {
                    activity.requests += increase;
                    if series.label("status").is_some_and(|status| status.starts_with('5')) {
                        activity.errors += increase;
                    }
                }
                "relayer_rest_request_duration_seconds_count"
                    if series.label("cache") == Some("hit") =>
                {
                    activity.hits += increase;
                }
                "relayer_rest_request_duration_seconds_bucket" => {
                    if let Some((_, bound)) = series.labels.iter().find(|(name, _)| &**name == "le")
                    {
                        *activity.buckets.entry(Arc::clone(bound)).or_default() += increase;
                    }
                }
                _ => {}
            }
        }
        activities
    }
}

impl Series {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| &**label == name).map(|(_, value)| &**value)
    }
}

impl Activity {
    fn hit_ratio(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| (self.hits / self.requests).min(1.0))
    }

    /// Returns a quantile of the times, interpolated within its bucket, or the highest bound
    /// if it is above all.
    fn latency(&self, quantile: f64) -> Option<f64> {
        let bounds = self.buckets.iter();
        let bounds = bounds.filter_map(|(bound, count)| Some((bound.parse::<f64>().ok()?, *count)));
        let mut bounds: Vec<_> = bounds.collect();
        bounds.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let total = bounds.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let rank = total * quantile;
        let mut lower = (0.0, 0.0);
        for (bound, count) in bounds {
            if count >= rank && bound.is_finite() {
                let (start, below) = lower;
                let part = if count > below { (rank - below) / (count - below) } else { 1.0 };
                return Some(start + (bound - start) * part.clamp(0.0, 1.0));
            }
            if bound.is_finite() {
                lower = (bound, count);
            }
        }
        Some(lower.0)
    }
}

impl MountReport {
    /// Returns the name of the module with the start of its digest.
    pub(super) fn module(&self) -> String {
        match &self.digest {
            Some(digest) => format!("{}@{}", self.name, short(digest)),
            None => self.name.clone(),
        }
    }
}

impl From<&MountStatus> for MountState {
    fn from(status: &MountStatus) -> Self {
        match &status.state {
            registry::MountState::Loading => Self::Loading,
            registry::MountState::Disabled { .. } => Self::Disabled,
            registry::MountState::Active { circuit: Some(_), .. } => Self::CircuitOpen,
            registry::MountState::Active { .. } if status.quarantined.is_empty() => Self::Serving,
            registry::MountState::Active { .. } => Self::Quarantined,
        }
    }
}

/// Returns a count, which the metrics have as a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, UNIX_EPOCH};

    use relayer_rest_server::control::Status;
    use relayer_rest_server::registry;
    use serde_json::json;

    use super::super::tests::{reading, status};
    use super::{MountState, Reading, Report};

    fn requests(mount: &str, status: &str, count: u64) -> String {
        format!(
            "relayer_rest_requests_total{{mount=\"{mount}\",module=\"a\",method=\"GET\",status=\"{status}\"}} {count}\n"
        )
    }

    /// Returns the lines of a histogram: the numbers of requests up to 1 ms, 2 ms, and in all.
    fn times(mount: &str, cache: &str, [one, two, all]: [u64; 3]) -> String {
        let line = |name: &str, le: &str, count: u64| {
            format!(
                "relayer_rest_request_duration_seconds_{name}{{mount=\"{mount}\",module=\"a\",cache=\"{cache}\"{le}}} {count}\n"
            )
        };
        [
            // In the order of texts, which is not that of the bounds.
            line("bucket", ",le=\"+Inf\"", all),
            line("bucket", ",le=\"0.001\"", one),
            line("bucket", ",le=\"0.002\"", two),
            line("count", "", all),
        ]
        .concat()
    }

    fn is_close(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9)
    }

    #[track_caller]
    fn assert_close(value: Option<f64>, expected: f64) {
        assert!(is_close(value, expected), "{value:?} is not {expected}");
    }

    #[test]
    fn rates_are_differences_by_mount() {
        let of = || status(1, &[("/", "api"), ("/ext/a", "a")]);
        let before = [
            requests("/", "200", 100),
            requests("/", "503", 1),
            times("/", "hit", [100, 100, 100]),
            times("/", "miss", [0, 1, 1]),
            requests("/ext/a", "200", 7),
        ];
        let after = [
            requests("/", "200", 160),
            requests("/", "503", 5),
            times("/", "hit", [148, 148, 148]),
            times("/", "miss", [0, 15, 17]),
            requests("/ext/a", "200", 7),
            "relayer_rest_queue_depth{mount=\"/ext/a\"} 4\n".to_owned(),
        ];
        let before = reading(of(), &before.concat(), 0);
        let report = reading(of(), &after.concat(), 4).report(Some(&before));
        assert_close(report.interval_seconds, 4.0);
        let [api, extension] = &report.mounts[..] else { panic!("{report:?}") };
        assert_close(api.requests_per_second, 16.0);
        assert_close(api.errors_per_second, 1.0);
        assert_close(api.cache_hit_ratio, 0.75);
        // 48 of 64 requests took up to 1 ms, 62 up to 2 ms.
        assert_close(api.latency_p50_seconds, 0.001 * 32.0 / 48.0);
        assert_close(api.latency_p99_seconds, 0.002);
        assert_eq!(api.queue_depth, None);
        assert_close(extension.requests_per_second, 0.0);
        assert_eq!(extension.cache_hit_ratio, None);
        assert_eq!(extension.latency_p50_seconds, None);
        assert_eq!(extension.queue_depth, Some(4));
    }

    #[test]
    fn the_first_reading_has_no_rates() {
        let metrics = format!(
            "{}relayer_rest_snapshot_publications_total 42\nrelayer_rest_snapshot_changed_timestamp_seconds 997.5\nprocess_start_time_seconds 2000\n",
            requests("/", "200", 100)
        );
        let report = reading(status(1, &[("/", "api")]), &metrics, 0).report(None);
        assert_eq!(report.interval_seconds, None);
        assert_eq!(report.mounts[0].requests_per_second, None);
        assert_eq!(report.mounts[0].cache_hit_ratio, None);
        assert_eq!(report.snapshot.generation, Some(42));
        assert_close(report.snapshot.unchanged_seconds, 2.5);
        // The clock was set back.
        assert_close(report.uptime_seconds, 0.0);
    }

    #[test]
    fn counters_that_start_again_count_from_zero() {
        let read = |pid, start, count, seconds| {
            let requests = requests("/", "200", count);
            let metrics = format!("{requests}process_start_time_seconds {start}\n");
            reading(status(pid, &[("/", "api")]), &metrics, seconds)
        };
        let restarted = |pid, start, count| -> Report {
            read(pid, start, count, 2).report(Some(&read(1, 10, 100, 0)))
        };
        let report = |pid, count| restarted(pid, 10, count);
        assert_close(report(1, 104).mounts[0].requests_per_second, 2.0);
        // The series was removed and is new.
        assert_close(report(1, 4).mounts[0].requests_per_second, 2.0);
        // The server was restarted, with another process id or the same one.
        assert_close(report(2, 104).mounts[0].requests_per_second, 52.0);
        assert_close(restarted(1, 11, 104).mounts[0].requests_per_second, 52.0);
    }

    #[test]
    fn two_readings_at_one_moment_have_no_rates() {
        let of = |count| reading(status(1, &[("/", "api")]), &requests("/", "200", count), 0);
        let report = of(2).report(Some(&of(1)));
        assert_eq!(report.mounts[0].requests_per_second, None);
        assert_close(report.mounts[0].cache_hit_ratio, 0.0);
    }

    #[test]
    fn an_open_circuit_is_shown_before_quarantined_modules() {
        let mut status = status(1, &[("/", "api")]);
        let state = |status: &Status| MountState::from(&status.mounts[0]);
        assert_eq!(state(&status), MountState::Serving);
        let quarantined = json!([{ "digest": "a", "reason": "b" }]);
        status.mounts[0].quarantined = serde_json::from_value(quarantined).unwrap();
        assert_eq!(state(&status), MountState::Quarantined);
        let opened = json!({ "reason": "a", "retry_after": 1 });
        let registry::MountState::Active { circuit, .. } = &mut status.mounts[0].state else {
            panic!("{status:?}")
        };
        *circuit = serde_json::from_value(opened).unwrap();
        assert_eq!(state(&status), MountState::CircuitOpen);
        status.mounts[0].state = registry::MountState::Loading;
        assert_eq!(state(&status), MountState::Loading);
        status.mounts[0].state = registry::MountState::Disabled { reason: "a".to_owned() };
        assert_eq!(state(&status), MountState::Disabled);
    }

    #[test]
    fn invalid_metrics_are_an_error() {
        let error = Reading::new(status(1, &[]), "<html>", Instant::now(), UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().starts_with("not metrics of Prometheus"), "{error}");
    }
}
