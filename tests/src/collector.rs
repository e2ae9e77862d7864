//! An OpenTelemetry collector, which keeps all spans and metrics that it receives.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A collector, which runs until it is dropped.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    listening: JoinHandle<()>,
}

/// The telemetry that a collector has received.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// The attributes of the sender of the last message.
    pub resource: HashMap<String, Value>,
    /// All spans.
    pub spans: Vec<Span>,
    /// The metrics of each message.
    pub metrics: Vec<Vec<Metric>>,
    /// The headers of the last message.
    pub headers: hyper::HeaderMap,
}

impl Collector {
    /// Starts a collector on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let shared = Arc::clone(&received);
        let listening = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, received, listening }
    }

    /// Returns the URL for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the received telemetry.
    #[must_use]
    pub fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(stream: TcpStream, received: Arc<Mutex<Received>>) {
    let service = service_fn(move |request| respond(request, Arc::clone(&received)));
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn respond(
    request: Request<Incoming>,
    received: Arc<Mutex<Received>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    assert_eq!(head.headers["content-type"], "application/x-protobuf");
    if head.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip") {
        let mut decoded = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut decoded).unwrap();
        body = decoded;
    }
    let mut received = received.lock().unwrap();
    match head.uri.path() {
        "/v1/traces" => {
            for resource in ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans {
                received.resource = attributes(&resource.resource.unwrap().attributes);
                let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                received.spans.extend(spans);
            }
        }
        "/v1/metrics" => {
            for resource in ExportMetricsServiceRequest::decode(&*body).unwrap().resource_metrics {
                received.resource = attributes(&resource.resource.unwrap().attributes);
                let metrics = resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
                received.metrics.push(metrics.collect());
            }
        }
        path => panic!("{path} is no endpoint of a collector"),
    }
    received.headers = head.headers;
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

/// Returns attributes as JSON.
#[must_use]
pub fn attributes(attributes: &[KeyValue]) -> HashMap<String, Value> {
    let value = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(Value::from(&**text)),
        any_value::Value::IntValue(integer) => Some(Value::from(*integer)),
        _ => None,
    };
    let pair = |attribute: &KeyValue| (attribute.key.clone(), value(attribute).unwrap_or_default());
    attributes.iter().map(pair).collect()
}
