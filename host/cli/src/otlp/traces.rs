//! A span for each request, with the attributes of the semantic conventions for HTTP servers.

use std::fmt::Display;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Version};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use relayer_rest_common::text::truncate_at;
use relayer_rest_server::{Exchange, RequestObservation, RequestObserver};
use relayer_rest_state::TraceContext;
use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use tracing::warn;

use super::MAX_FLUSH_TIME;
use super::environment::{Endpoint, OtlpError};

/// The maximum length of a value from the request, in characters: some thousand spans can wait
/// for the collector.
const MAX_VALUE: usize = 1024;

/// The maximum length of `tracestate`, in bytes, as the recommendation has it.
const MAX_TRACESTATE: usize = 512;

/// The methods of HTTP.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// The running exporter of traces, which sends spans in batches on a thread of its own.
pub(super) struct Traces(SdkTracerProvider);

/// Begins the span of each request.
struct Observer {
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

/// The span of a request.
struct RequestSpan(Span);

/// The headers with the client's trace.
struct Parent<'a>(&'a HeaderMap);

impl Traces {
    /// Starts the exporter, with the sampler and the limits of the environment.
    pub(super) fn start(endpoint: Endpoint, resource: Resource) -> Result<Self, OtlpError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client(endpoint.timeout)?)
            .with_endpoint(endpoint.url)
            .build()
            .map_err(unusable)?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_batch_exporter(exporter)
            .build();
        Ok(Self(provider))
    }

    /// Returns the observer that makes the spans.
    pub(super) fn observer(&self) -> Arc<dyn RequestObserver> {
        let scope = InstrumentationScope::builder("relayer-rest")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let tracer = self.0.tracer_with_scope(scope);
        Arc::new(Observer { tracer, propagator: TraceContextPropagator::new() })
    }

    /// Sends the last spans.
    pub(super) fn shut_down(&self) {
        if let Err(error) = self.0.shutdown_with_timeout(MAX_FLUSH_TIME) {
            warn!(%error, "the last spans may be lost");
        }
    }
}

/// Returns a client that follows no redirects: headers for the collector may be secrets.
fn client(timeout: Duration) -> Result<Client, OtlpError> {
    // It has a runtime of its own, which cannot be created within another.
    let create = move || Client::builder().timeout(timeout).redirect(Policy::none()).build();
    let created = thread::spawn(create).join();
    created.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(unusable)
}

fn unusable(error: impl Display) -> OtlpError {
    OtlpError {
        variable: "OTEL_EXPORTER_OTLP_TRACES".to_owned(),
        problem: error.to_string(),
        remedy: "change the variable that the error names",
    }
}

impl RequestObserver for Observer {
    fn begin(&self, time: SystemTime, headers: &HeaderMap) -> Option<Box<dyn RequestObservation>> {
        let parent = self.propagator.extract_with_context(&Context::new(), &Parent(headers));
        // The name and the attributes are known at the end.
        let span = SpanBuilder::from_name("HTTP").with_kind(SpanKind::Server).with_start_time(time);
        Some(Box::new(RequestSpan(self.tracer.build_with_context(span, &parent))))
    }
}

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(key)?.to_str().ok()?;
        (value.len() <= MAX_TRACESTATE).then_some(value)
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl RequestObservation for RequestSpan {
    fn trace_context(&self) -> Option<TraceContext> {
        let context = self.0.span_context();
        let flags = context.trace_flags().to_u8();
        let traceparent = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
        let tracestate = context.trace_state().header();
        let tracestate = (!tracestate.is_empty()).then_some(tracestate);
        Some(TraceContext { traceparent, tracestate })
    }

    fn end(self: Box<Self>, exchange: &Exchange) {
        let Self(mut span) = *self;
        if !span.is_recording() {
            return;
        }
        let route = route(exchange);
        let method = method(exchange).unwrap_or("HTTP");
        span.update_name(match &route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        });
        span.set_attributes(request(exchange));
        span.set_attributes(response(exchange));
        span.set_attributes(route.map(|route| KeyValue::new("http.route", route)));
        if let Some(error) = error(exchange) {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(exchange.time + exchange.duration);
    }
}

/// Returns the method if HTTP has it: a client can send any other.
fn method(exchange: &Exchange) -> Option<&'static str> {
    METHODS.into_iter().find(|name| *name == exchange.method.as_str())
}

/// Returns the route, with the path of its mount.
fn route(exchange: &Exchange) -> Option<String> {
    let handling = exchange.response.as_ref()?.handling.as_ref()?;
    Some(handling.mount.join(handling.route.as_ref()?))
}

fn request(exchange: &Exchange) -> Vec<KeyValue> {
    let scheme = if exchange.has_tls { "https" } else { "http" };
    let version = match exchange.version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    let mut attributes = vec![
        KeyValue::new("http.request.method", method(exchange).unwrap_or("_OTHER")),
        KeyValue::new("url.path", bounded(exchange.target.path())),
        KeyValue::new("url.scheme", scheme),
        KeyValue::new("network.protocol.name", "http"),
        KeyValue::new("network.protocol.version", version),
    ];
    let mut add = |key, value: Option<Value>| {
        attributes.extend(value.map(|value| KeyValue::new(key, value)));
    };
    if method(exchange).is_none() {
        add("http.request.method_original", Some(bounded(exchange.method.as_str()).into()));
    }
    add("url.query", exchange.target.query().map(|query| bounded(query).into()));
    add("client.address", exchange.client.map(|client| client.to_string().into()));
    add("user_agent.original", text(exchange.user_agent.as_ref()).map(Value::from));
    let authority = text(exchange.host.as_ref()).and_then(|host| host.parse::<Authority>().ok());
    if let Some(authority) = authority {
        add("server.address", Some(bounded(authority.host()).into()));
        add("server.port", authority.port_u16().map(|port| i64::from(port).into()));
    }
    attributes
}

fn response(exchange: &Exchange) -> Vec<KeyValue> {
    let Some(response) = &exchange.response else { return Vec::new() };
    let length = i64::try_from(response.length).unwrap_or(i64::MAX);
    let mut attributes = vec![
        KeyValue::new("http.response.status_code", i64::from(response.status.as_u16())),
        KeyValue::new("http.response.body.size", length),
    ];
    let mut add = |key, value: Option<String>| {
        attributes.extend(value.map(|value| KeyValue::new(key, value)));
    };
    add("relayer_rest.request_id", text(response.id.as_ref()));
    add("relayer_rest.module", text(response.module.as_ref()));
    if let Some(handling) = &response.handling {
        add("relayer_rest.mount", Some(handling.mount.as_str().to_owned()));
        add("relayer_rest.cache", Some(handling.origin.cache_result().to_owned()));
    }
    attributes
}

/// Returns the type of the error of a request that has failed.
fn error(exchange: &Exchange) -> Option<String> {
    match &exchange.response {
        None => Some("cancelled".to_owned()),
        Some(response) => {
            response.status.is_server_error().then(|| response.status.as_str().to_owned())
        }
    }
}

fn text(value: Option<&HeaderValue>) -> Option<String> {
    value.map(|value| bounded(&String::from_utf8_lossy(value.as_bytes())))
}

fn bounded(text: &str) -> String {
    truncate_at(text, MAX_VALUE)
}
