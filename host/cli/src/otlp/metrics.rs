//! Sends the metrics of the server at an interval.
//!
//! The metrics of the library would count each request a second time, in memory that all threads
//! share. The metrics of the admin listener are sent instead.

use std::io::Write;
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use prost::Message;
use reqwest::Client;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::redirect::Policy;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::MAX_FLUSH_TIME;
use super::convert::{Converter, MetricSources};
use super::environment::{OtlpError, Target};

/// The exporter of metrics.
pub(super) struct MetricsExporter {
    sender: Option<Sender>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Sender {
    client: Client,
    target: Target,
}

impl MetricsExporter {
    pub(super) fn new(target: Target) -> Result<Self, OtlpError> {
        let client =
            Client::builder().timeout(target.endpoint.timeout).redirect(Policy::none()).build();
        let client = client.map_err(|error| OtlpError {
            variable: "OTEL_EXPORTER_OTLP_METRICS".to_owned(),
            problem: format!("no HTTP client can be created: {error}"),
            remedy: "set OTEL_METRICS_EXPORTER=none to start without it",
        })?;
        Ok(Self { sender: Some(Sender { client, target }), running: None })
    }

    /// Sends the metrics from now on.
    pub(super) fn start(&mut self, resource: &Resource, sources: MetricSources) {
        let Some(sender) = self.sender.take() else { return };
        let (end, ended) = oneshot::channel();
        let converter = Converter::new(resource, SystemTime::now());
        self.running = Some((end, tokio::spawn(sender.run(converter, sources, ended))));
    }

    /// Sends the last metrics.
    pub(super) async fn shut_down(self) {
        let Some((end, task)) = self.running else { return };
        drop(end);
        if timeout(MAX_FLUSH_TIME, task).await.is_err() {
            warn!("the last metrics are lost: the collector does not respond");
        }
    }
}

impl Sender {
    async fn run(
        self,
        converter: Converter,
        sources: MetricSources,
        mut ended: oneshot::Receiver<()>,
    ) {
        let mut ticks = interval(self.target.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        let mut has_failed = false;
        let mut is_last = false;
        while !is_last {
            tokio::select! {
                _ = &mut ended => is_last = true,
                _ = ticks.tick() => {}
            }
            let message = converter.message(&sources, SystemTime::now());
            match self.send(&message).await {
                Ok(()) if has_failed => {
                    has_failed = false;
                    info!("metrics exported again");
                }
                Ok(()) => {}
                // One line for an outage: all values are sent again at the next interval.
                Err(_) if has_failed => {}
                Err(error) => {
                    has_failed = true;
                    let endpoint = &self.target.endpoint;
                    warn!(%endpoint, error, "metrics not exported; trying again at each interval");
                }
            }
        }
    }

    async fn send(&self, message: &ExportMetricsServiceRequest) -> Result<(), String> {
        let Target { endpoint, headers, is_compressed, .. } = &self.target;
        let mut body = message.encode_to_vec();
        let mut request = self
            .client
            .post(endpoint.url.clone())
            .headers(headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf");
        if *is_compressed {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let compressed = encoder.write_all(&body).and_then(|()| encoder.finish());
            body = compressed.map_err(|error| error.to_string())?;
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        // The URL may contain a token.
        let response = request.body(body).send().await;
        let response = response.map_err(|error| error.without_url().to_string())?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the collector responded {status}")) }
    }
}
