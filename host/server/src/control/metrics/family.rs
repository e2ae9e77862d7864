//! Families of metrics, their samples, and their text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use relayer_rest_common::histogram::Times;

use super::families;

/// A family of metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name. Samples of counters end with `_total` in addition.
    pub name: &'static str,
    /// The kind.
    pub kind: FamilyKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The meaning, as a sentence without its end.
    pub help: &'static str,
}

/// A kind of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// A number that only grows.
    Counter,
    /// A number.
    Gauge,
    /// Counts of times by their upper bounds.
    Histogram,
}

/// Defines families, and the list of them.
macro_rules! define_families {
    ($($family:ident = $kind:ident $name:literal [$($label:literal),*], $help:literal;)*) => {
        $(static $family: Family = Family {
            name: $name,
            kind: FamilyKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*
        pub(super) static FAMILIES: &[&Family] = &[$(&$family),*];
    };
}
pub(super) use define_families;

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::control) enum Format {
    /// The one that all programs read.
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// Returns the format that a client prefers, by its header `accept`.
    pub(in crate::control) fn negotiate(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub(in crate::control) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Samples of families.
#[derive(Debug, Default)]
pub struct Samples(Vec<Sample>);

/// A value of a family.
#[derive(Debug)]
pub struct Sample {
    /// The family.
    pub family: &'static Family,
    /// The labels, with their values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
#[derive(Debug)]
pub enum Value {
    /// An integer, of a counter or a gauge.
    Integer(u64),
    /// A number that is not an integer, of a counter or a gauge.
    Number(f64),
    /// The content of a histogram.
    Times(Box<Times>),
}

impl Samples {
    /// Returns the samples of a family.
    pub fn of_family<'a>(&'a self, family: &'a Family) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |sample| std::ptr::eq(sample.family, family))
    }

    /// Adds a sample with the values of the labels, in their order.
    pub(super) fn add<const N: usize>(
        &mut self,
        family: &'static Family,
        labels: [&str; N],
        value: u64,
    ) {
        self.push(family, labels, Value::Integer(value));
    }

    /// Adds a sample that is not an integer.
    pub(super) fn add_number<const N: usize>(
        &mut self,
        family: &'static Family,
        labels: [&str; N],
        value: f64,
    ) {
        self.push(family, labels, Value::Number(value));
    }

    /// Adds a histogram.
    pub(super) fn add_times<const N: usize>(
        &mut self,
        family: &'static Family,
        labels: [&str; N],
        times: Times,
    ) {
        self.push(family, labels, Value::Times(Box::new(times)));
    }

    fn push<const N: usize>(&mut self, family: &'static Family, labels: [&str; N], value: Value) {
        debug_assert_eq!(family.labels.len(), N, "{}", family.name);
        let labels = labels.map(str::to_owned);
        let labels = family.labels.iter().copied().zip(labels).collect();
        self.0.push(Sample { family, labels, value });
    }

    /// Returns the text of all families that have samples.
    pub(in crate::control) fn text(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to memory succeeds");
        match format {
            Format::OpenMetrics => text,
            Format::Prometheus => prometheus(&text),
        }
    }
}

/// Returns the text in the older format, whose descriptions have the names of the samples.
fn prometheus(openmetrics: &str) -> String {
    let counters: Vec<_> = families().filter(|family| family.kind == FamilyKind::Counter).collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        let name = described.and_then(|rest| rest.split(' ').next());
        match name.filter(|name| counters.iter().any(|counter| counter.name == *name)) {
            Some(name) => text += &line.replacen(name, &format!("{name}_total"), 1),
            None => text += line,
        }
        text.push('\n');
    }
    text
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in families() {
            let mut samples = self.of_family(family).peekable();
            if samples.peek().is_none() {
                continue;
            }
            let kind = match family.kind {
                FamilyKind::Counter => MetricType::Counter,
                FamilyKind::Gauge => MetricType::Gauge,
                FamilyKind::Histogram => MetricType::Histogram,
            };
            let mut encoder = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            samples.try_for_each(|sample| sample.encode(&mut encoder))?;
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        if self.labels.is_empty() {
            self.encode_value(encoder)
        } else {
            self.encode_value(&mut encoder.encode_family(&self.labels.as_slice())?)
        }
    }

    fn encode_value(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (&self.value, self.family.kind) {
            (Value::Integer(number), FamilyKind::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(number, None)
            }
            (Value::Integer(number), _) => encoder.encode_gauge(number),
            (Value::Number(number), FamilyKind::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(number, None)
            }
            (Value::Number(number), _) => encoder.encode_gauge(number),
            (Value::Times(times), _) => {
                let (sum, count) = (times.sum().as_secs_f64(), times.count());
                encoder.encode_histogram::<NoLabelSet>(sum, count, &times.buckets(), None)
            }
        }
    }
}
