//! The metrics of the server as messages of the protocol.
//!
//! The families of the admin listener keep their names, so that dashboards and alerts fit
//! both. `http.server.request.duration` is in addition, as the semantic conventions have it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_sdk::Resource;
use relayer_rest_common::histogram::Times;
use relayer_rest_server::ConnectionTally;
use relayer_rest_server::capsules::CapsuleTally;
use relayer_rest_server::control::metrics::{self, Family, FamilyKind, Sample, Samples, Value};
use relayer_rest_server::registry::{Mount, Registry, RequestSeries};
use relayer_rest_state::StateReader;

/// The parts of a server that have metrics.
pub(crate) struct MetricSources {
    pub(crate) registry: Arc<Registry>,
    pub(crate) state: StateReader,
    pub(crate) connections: ConnectionTally,
    pub(crate) capsules: Option<CapsuleTally>,
}

/// Makes messages of the metrics of a process.
pub(super) struct Converter {
    resource: ResourceMessage,
    scope: InstrumentationScope,
    start: u64,
}

impl Converter {
    /// Creates a converter for counters that began at this time.
    pub(super) fn new(resource: &Resource, start: SystemTime) -> Self {
        let attributes = resource.iter();
        let attributes = attributes.map(|(key, value)| attribute(key.as_str(), &value.as_str()));
        Self {
            resource: ResourceMessage { attributes: attributes.collect(), ..Default::default() },
            scope: InstrumentationScope {
                name: "relayer-rest".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Default::default()
            },
            start: nanos(start),
        }
    }

    /// Returns the metrics at this time.
    pub(super) fn message(
        &self,
        sources: &MetricSources,
        now: SystemTime,
    ) -> ExportMetricsServiceRequest {
        let MetricSources { registry, state, connections, capsules } = sources;
        let mounts = registry.mounts();
        let samples =
            metrics::collect(&mounts, &state.snapshot(), Some(connections), capsules.as_ref());
        let now = nanos(now);
        let mut metrics = vec![self.request_duration(mounts.iter().map(|mount| &**mount), now)];
        metrics.extend(metrics::families().map(|family| self.family(family, &samples, now)));
        metrics.retain(|metric| metric.data.is_some());
        let scope = Some(self.scope.clone());
        let scope_metrics = vec![ScopeMetrics { scope, metrics, ..Default::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = ResourceMetrics { resource, scope_metrics, ..Default::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
    }

    /// Returns a family; without data if it has no samples.
    fn family(&self, family: &'static Family, samples: &Samples, now: u64) -> Metric {
        let points = samples.of_family(family);
        let data = match family.kind {
            FamilyKind::Histogram => {
                histogram(points.filter_map(|sample| self.times(sample, now)).collect())
            }
            FamilyKind::Counter => {
                let data_points: Vec<_> =
                    points.filter_map(|point| self.number(point, now)).collect();
                (!data_points.is_empty()).then_some(metric::Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: CUMULATIVE,
                    is_monotonic: true,
                }))
            }
            FamilyKind::Gauge => {
                let data_points: Vec<_> =
                    points.filter_map(|point| self.number(point, now)).collect();
                (!data_points.is_empty()).then_some(metric::Data::Gauge(Gauge { data_points }))
            }
        };
        Metric {
            name: family.name.to_owned(),
            description: family.help.to_owned(),
            unit: unit(family.name).to_owned(),
            data,
            ..Default::default()
        }
    }

    /// Returns the times of requests, by the attributes of the semantic conventions.
    fn request_duration<'a>(&self, mounts: impl Iterator<Item = &'a Mount>, now: u64) -> Metric {
        let mut points = Vec::new();
        for mount in mounts {
            for series in mount.request_series() {
                let attributes = request_attributes(mount, &series);
                points.push(self.point(attributes, &series.times, now));
            }
        }
        Metric {
            name: "http.server.request.duration".to_owned(),
            description: "Duration of HTTP server requests".to_owned(),
            unit: "s".to_owned(),
            data: histogram(points),
            ..Default::default()
        }
    }

    fn times(&self, sample: &Sample, now: u64) -> Option<HistogramDataPoint> {
        let Value::Times(times) = &sample.value else { return None };
        Some(self.point(labels(sample), times, now))
    }

    fn point(&self, attributes: Vec<KeyValue>, times: &Times, now: u64) -> HistogramDataPoint {
        let (mut explicit_bounds, bucket_counts): (Vec<_>, Vec<_>) =
            times.buckets().into_iter().unzip();
        // The last bucket has no bound.
        explicit_bounds.pop();
        HistogramDataPoint {
            attributes,
            start_time_unix_nano: self.start,
            time_unix_nano: now,
            count: times.count(),
            sum: Some(times.sum().as_secs_f64()),
            bucket_counts,
            explicit_bounds,
            ..Default::default()
        }
    }

    fn number(&self, sample: &Sample, now: u64) -> Option<NumberDataPoint> {
        let value = match sample.value {
            Value::Integer(integer) => {
                number_data_point::Value::AsInt(i64::try_from(integer).unwrap_or(i64::MAX))
            }
            Value::Number(number) => number_data_point::Value::AsDouble(number),
            Value::Times(_) => return None,
        };
        Some(NumberDataPoint {
            attributes: labels(sample),
            start_time_unix_nano: self.start,
            time_unix_nano: now,
            value: Some(value),
            ..Default::default()
        })
    }
}

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

fn histogram(data_points: Vec<HistogramDataPoint>) -> Option<metric::Data> {
    let aggregation_temporality = CUMULATIVE;
    (!data_points.is_empty())
        .then_some(metric::Data::Histogram(Histogram { data_points, aggregation_temporality }))
}

fn request_attributes(mount: &Mount, series: &RequestSeries) -> Vec<KeyValue> {
    let method = if series.method == "other" { "_OTHER" } else { series.method };
    let scheme = if series.has_tls { "https" } else { "http" };
    let mut attributes = vec![
        attribute("http.request.method", method),
        attribute("url.scheme", scheme),
        attribute("relayer_rest.mount", mount.path().as_str()),
        attribute("relayer_rest.module", &series.module),
        attribute("relayer_rest.cache", series.origin.cache_result()),
    ];
    if let Some(route) = &series.route {
        attributes.push(attribute("http.route", &mount.path().join(route)));
    }
    if let Some(status) = series.status {
        let code = any_value::Value::IntValue(status.as_u16().into());
        attributes.push(key_value("http.response.status_code", code));
        if status.is_server_error() {
            attributes.push(attribute("error.type", status.as_str()));
        }
    }
    attributes
}

fn labels(sample: &Sample) -> Vec<KeyValue> {
    sample.labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    key_value(key, any_value::Value::StringValue(value.to_owned()))
}

fn key_value(key: &str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..Default::default() }
}

/// Returns the unit of a family, which its name ends with.
fn unit(name: &str) -> &'static str {
    if name.ends_with("_seconds") {
        "s"
    } else if name.ends_with("_bytes") {
        "By"
    } else {
        "1"
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
