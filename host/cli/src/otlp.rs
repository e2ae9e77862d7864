//! Traces and metrics for an OpenTelemetry collector, if `OTEL_EXPORTER_OTLP_ENDPOINT` or the
//! variable of a signal is set.
//!
//! | file | job |
//! |---|---|
//! | `environment.rs` | the variables of the environment |
//! | `traces.rs` | a span for each request |
//! | `metrics.rs` | sends the metrics at an interval |
//! | `convert.rs` | the metrics as messages of the protocol |

mod convert;
mod environment;
mod metrics;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use relayer_rest_server::RequestObserver;
use tokio::task::spawn_blocking;
use tracing::info;

pub(super) use convert::MetricSources;
use environment::Environment;
pub(super) use environment::OtlpError;
use metrics::MetricsExporter;
use traces::Traces;

/// The time for the last spans and metrics when the server ends.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(5);

/// The exporters that the environment enables.
pub(super) struct Otlp {
    resource: Resource,
    traces: Option<Traces>,
    metrics: Option<MetricsExporter>,
}

impl Otlp {
    /// Starts the exporters.
    ///
    /// # Errors
    /// Returns an error if a variable of the environment cannot be used.
    pub(super) fn start() -> Result<Self, OtlpError> {
        let environment = Environment::read()?;
        let resource = resource();
        let traces = match environment.traces {
            Some(endpoint) => {
                info!(%endpoint, "exporting traces");
                Some(Traces::start(endpoint, resource.clone())?)
            }
            None => None,
        };
        let metrics = match environment.metrics {
            Some(target) => {
                info!(endpoint = %target.endpoint, interval = ?target.interval, "exporting metrics");
                Some(MetricsExporter::new(target)?)
            }
            None => None,
        };
        Ok(Self { resource, traces, metrics })
    }

    /// Returns the observer that makes a span of each request, if there are traces.
    pub(super) fn observer(&self) -> Option<Arc<dyn RequestObserver>> {
        self.traces.as_ref().map(Traces::observer)
    }

    /// Sends metrics from now on, if the environment enables them.
    pub(super) fn export_metrics(&mut self, sources: MetricSources) {
        if let Some(metrics) = &mut self.metrics {
            metrics.start(&self.resource, sources);
        }
    }

    /// Sends the last spans and metrics, for [`MAX_FLUSH_TIME`] at most.
    pub(super) async fn shut_down(self) {
        let traces = self.traces.map(|traces| spawn_blocking(move || traces.shut_down()));
        if let Some(metrics) = self.metrics {
            metrics.shut_down().await;
        }
        if let Some(traces) = traces {
            traces.await.ok();
        }
    }
}

/// Returns the description of this process. The environment takes precedence.
fn resource() -> Resource {
    let detected = Resource::builder().build();
    // The library's name if the environment has none.
    let is_unnamed = detected
        .iter()
        .any(|(key, value)| key.as_str() == NAME && value.as_str().starts_with("unknown_service"));
    let instance = format!("{:032x}", fastrand::u128(..));
    let own = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            // Counters of two processes must not be taken for those of one.
            KeyValue::new("service.instance.id", instance),
        ])
        .with_attributes(
            detected.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())),
        );
    if is_unnamed { own.with_service_name("relayer-rest").build() } else { own.build() }
}

/// The attribute with the name of a service.
const NAME: &str = "service.name";
