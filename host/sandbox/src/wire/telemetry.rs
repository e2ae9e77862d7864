//! Families of metrics.

use std::sync::Arc;

use relayer_rest_state as state;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lower};

use super::{number, shared, timestamp};

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct MetricFamily {
    #[serde(with = "shared")]
    name: Arc<str>,
    kind: MetricKind,
    help: String,
    samples: Vec<Sample>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum MetricKind {
    #[component(name = "counter")]
    Counter,
    #[component(name = "gauge")]
    Gauge,
    #[component(name = "histogram")]
    Histogram,
    #[component(name = "summary")]
    Summary,
    #[component(name = "untyped")]
    Untyped,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Sample {
    #[serde(with = "shared")]
    name: Arc<str>,
    labels: Vec<Label>,
    #[serde(with = "number")]
    value: f64,
    since: u64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Label {
    #[serde(with = "shared")]
    name: Arc<str>,
    #[serde(with = "shared")]
    value: Arc<str>,
}

impl From<&state::MetricFamily> for MetricFamily {
    fn from(family: &state::MetricFamily) -> Self {
        Self {
            name: Arc::clone(&family.name),
            kind: family.kind.into(),
            help: family.help.clone(),
            samples: family.samples.iter().map(Sample::from).collect(),
        }
    }
}

impl From<state::MetricKind> for MetricKind {
    fn from(kind: state::MetricKind) -> Self {
        match kind {
            state::MetricKind::Counter => Self::Counter,
            state::MetricKind::Gauge => Self::Gauge,
            state::MetricKind::Histogram => Self::Histogram,
            state::MetricKind::Summary => Self::Summary,
            state::MetricKind::Untyped => Self::Untyped,
        }
    }
}

impl From<&state::Sample> for Sample {
    fn from(sample: &state::Sample) -> Self {
        let label = |(name, value): &(Arc<str>, Arc<str>)| Label {
            name: Arc::clone(name),
            value: Arc::clone(value),
        };
        Self {
            name: Arc::clone(&sample.name),
            labels: sample.labels.iter().map(label).collect(),
            value: sample.value,
            since: timestamp(sample.since),
        }
    }
}
