//! A relayer's telemetry: metric families, each of them a versioned value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::relayer::NotReady;
use super::versioned::{Generation, Known, Versioned};

/// A family of metrics: samples with the same meaning.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct MetricFamily {
    /// The name, such as `backlog_size`.
    pub name: Arc<str>,
    /// The kind of metric.
    pub kind: MetricKind,
    /// The description; empty if there is none.
    pub help: String,
    /// The samples, each with other labels or another name.
    pub samples: Vec<Sample>,
}

/// A kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum MetricKind {
    /// A count that only increases, until the relayer restarts.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Counts of observations by their size.
    Histogram,
    /// Quantiles of observations.
    Summary,
    /// Another kind, or one that is not known.
    Untyped,
}

/// A value with labels.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Sample {
    /// The name: the one of the family, with a suffix such as `_bucket` for a histogram.
    pub name: Arc<str>,
    /// The names and values of the labels, in their order.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The value; it may be infinite or not a number.
    pub value: f64,
    /// The time since which the value has been the same, as far as the host has observed
    /// it. The publisher sets this.
    pub since: SystemTime,
}

/// Two samples are equal if a client sees no difference: a value that is not a number
/// equals itself.
impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.value.to_bits() == other.value.to_bits()
            && self.since == other.since
            && self.name == other.name
            && self.labels == other.labels
    }
}

/// The telemetry of a relayer at one time.
#[derive(Debug)]
pub struct Telemetry {
    names: Versioned<Known<Vec<Arc<str>>>>,
    families: BTreeMap<Arc<str>, Versioned<MetricFamily>>,
    /// The time of the last scrape.
    scraped: SystemTime,
    stale: Option<Instant>,
}

impl NotReady {
    /// Returns the reason of telemetry that nothing provides.
    #[must_use]
    pub fn without_telemetry() -> Self {
        Self {
            message: "the relayer's telemetry is not read; start with --telemetry URL".to_owned(),
            // Only a restart with other arguments changes this.
            retry_after: Duration::from_mins(1),
        }
    }
}

impl Telemetry {
    /// Returns telemetry that is not known because nothing provides it.
    pub(super) fn unavailable(generation: Generation) -> Self {
        Self {
            names: Versioned::new(Err(NotReady::without_telemetry()), generation),
            families: BTreeMap::new(),
            scraped: SystemTime::UNIX_EPOCH,
            stale: None,
        }
    }

    pub(super) fn from_recorded(
        names: Versioned<Known<Vec<Arc<str>>>>,
        families: BTreeMap<Arc<str>, Versioned<MetricFamily>>,
        scraped: SystemTime,
    ) -> Self {
        Self { names, families, scraped, stale: None }
    }

    /// Returns the names of the families, sorted.
    #[must_use]
    pub fn names(&self) -> &Versioned<Known<Vec<Arc<str>>>> {
        &self.names
    }

    /// Returns a family.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&Versioned<MetricFamily>> {
        self.families.get(name)
    }

    /// Returns the time of the last scrape, if there is telemetry.
    #[must_use]
    pub fn scraped(&self) -> Option<SystemTime> {
        self.names.value().is_ok().then_some(self.scraped)
    }

    /// Returns the time of the last scrape, if the relayer has not responded since.
    #[must_use]
    pub fn stale(&self) -> Option<Instant> {
        self.stale
    }

    /// Returns this telemetry with the families of a scrape.
    pub(super) fn with(
        &self,
        families: Vec<MetricFamily>,
        scraped: SystemTime,
        next: Generation,
    ) -> Self {
        let families: BTreeMap<_, _> = families
            .into_iter()
            .map(|mut family| {
                let before = self.families.get(&family.name);
                set_times(&mut family, before.map(Versioned::value), scraped);
                let name = Arc::clone(&family.name);
                let versioned = match before {
                    Some(before) => before.with(family, next),
                    None => Versioned::new(family, next),
                };
                (name, versioned)
            })
            .collect();
        let names = self.names.with(Ok(families.keys().cloned().collect()), next);
        Self { names, families, scraped, stale: None }
    }

    /// Returns the telemetry of another host.
    pub(super) fn replicated(
        &self,
        names: Known<Vec<Arc<str>>>,
        families: Vec<MetricFamily>,
        scraped: Option<SystemTime>,
        next: Generation,
    ) -> Self {
        let version = |family: MetricFamily| {
            let name = Arc::clone(&family.name);
            let versioned = match self.families.get(&name) {
                Some(before) => before.with(family, next),
                None => Versioned::new(family, next),
            };
            (name, versioned)
        };
        Self {
            names: self.names.with(names, next),
            families: families.into_iter().map(version).collect(),
            scraped: scraped.unwrap_or(self.scraped),
            stale: None,
        }
    }

    /// Returns the generation of the newest change.
    pub(super) fn generation(&self) -> Generation {
        let families = self.families.values().map(Versioned::generation);
        families.fold(self.names.generation(), Ord::max)
    }

    /// Returns this telemetry as if it was scraped again, this much later.
    pub(super) fn after(&self, time: Duration) -> Self {
        let Self { names, families, scraped, stale } = self;
        let families = families.clone();
        Self { names: names.clone(), families, scraped: *scraped + time, stale: *stale }
    }

    /// Returns telemetry that is not known, with the reason.
    pub(super) fn not_ready(&self, reason: NotReady, next: Generation) -> Self {
        let names = self.names.with(Err(reason), next);
        Self { names, families: BTreeMap::new(), scraped: self.scraped, stale: None }
    }

    /// Returns the same telemetry, stale since the last scrape at this time.
    pub(super) fn with_stale(&self, stale: Option<Instant>) -> Self {
        let Self { names, families, scraped, .. } = self;
        let (names, families) = (names.clone(), families.clone());
        Self { names, families, scraped: *scraped, stale }
    }
}

/// Sets since when the samples have had their values.
fn set_times(family: &mut MetricFamily, before: Option<&MetricFamily>, now: SystemTime) {
    let key = |sample: &Sample| (Arc::clone(&sample.name), sample.labels.clone());
    let samples = before.iter().flat_map(|before| &before.samples);
    let known: HashMap<_, _> =
        samples.map(|sample| (key(sample), (sample.value.to_bits(), sample.since))).collect();
    for sample in &mut family.samples {
        sample.since = match known.get(&key(sample)) {
            Some((value, since)) if *value == sample.value.to_bits() => *since,
            _ => now,
        };
    }
}

impl MetricKind {
    /// Returns the name of the kind in the text format of Prometheus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricFamily, MetricKind, Sample};
    use crate::{NotReady, StatePublisher};
    use std::time::{Duration, Instant, SystemTime};

    fn family(name: &str, values: &[(&str, f64)]) -> MetricFamily {
        let sample = |(chain, value): &(&str, f64)| Sample {
            name: name.into(),
            labels: vec![("chain".into(), (*chain).into())],
            value: *value,
            since: SystemTime::UNIX_EPOCH,
        };
        MetricFamily {
            name: name.into(),
            kind: MetricKind::Gauge,
            help: String::new(),
            samples: values.iter().map(sample).collect(),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Returns the generation of a family, and the times in it.
    fn times(publisher: &StatePublisher, name: &str) -> (super::Generation, Vec<SystemTime>) {
        let snapshot = publisher.reader().snapshot();
        let family = snapshot.telemetry().family(name).unwrap();
        (family.generation(), family.value().samples.iter().map(|sample| sample.since).collect())
    }

    #[test]
    fn a_family_changes_only_with_a_value() {
        let publisher = StatePublisher::new();
        let families = |size| {
            let nan = family("balance", &[("a", f64::NAN)]);
            vec![family("size", &[("a", 1.0), ("b", size)]), nan]
        };
        publisher.set_telemetry(families(2.0), at(10));
        let (first, _) = times(&publisher, "size");
        let balance = times(&publisher, "balance");
        publisher.set_telemetry(families(2.0), at(20));
        assert_eq!(times(&publisher, "size"), (first, vec![at(10), at(10)]));
        publisher.set_telemetry(families(3.0), at(30));
        let (changed, since) = times(&publisher, "size");
        assert!(changed > first);
        assert_eq!(since, [at(10), at(30)]);
        assert_eq!(times(&publisher, "balance"), balance);
        let snapshot = publisher.reader().snapshot();
        assert_eq!(snapshot.telemetry().scraped(), Some(at(30)));
        // The state of the relayer is independent of it.
        assert!(snapshot.changed().generation < first);
    }

    #[test]
    fn stale_telemetry_keeps_its_values_until_it_expires() {
        let publisher = StatePublisher::new();
        let telemetry = || publisher.reader().snapshot();
        assert!(telemetry().telemetry().scraped().is_none());
        publisher.set_telemetry(vec![family("size", &[("a", 1.0)])], at(10));
        let before = times(&publisher, "size");
        publisher.set_telemetry_stale(Some(Instant::now()));
        assert!(telemetry().telemetry().stale().is_some());
        assert_eq!(times(&publisher, "size"), before);
        publisher.set_telemetry_not_ready(NotReady::default());
        assert!(telemetry().telemetry().family("size").is_none());
        assert!(telemetry().telemetry().names().value().is_err());
        publisher.set_telemetry(vec![family("size", &[("a", 1.0)])], at(40));
        assert!(telemetry().telemetry().stale().is_none());
        assert_eq!(times(&publisher, "size").1, [at(40)]);
    }
}
