//! Does a collector get traces and metrics, if the environment names one?

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use relayer_rest_tests::collector::{Collector, Received, attributes};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script};
use relayer_rest_tests::wait::until;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::check_failure;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Returns the value of `traceparent`, with these flags.
fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from_digit(digit.into(), 16).unwrap())
        .collect()
}

/// Stops a server, which sends all telemetry before it ends, and returns the collector's.
async fn received(serving: Serving, collector: &Collector) -> Received {
    serving.stop().await;
    collector.received()
}

/// Checks that a span has these attributes, apart from those of its connection.
#[track_caller]
fn check_attributes(span: &Span, expected: &Value) {
    const OTHERS: [&str; 3] =
        ["http.response.body.size", "relayer_rest.request_id", "relayer_rest.module"];
    let mut found = attributes(&span.attributes);
    for name in OTHERS {
        assert!(found.remove(name).is_some(), "{name} is missing: {found:?}");
    }
    assert_eq!(serde_json::to_value(found).unwrap(), *expected);
}

#[tokio::test]
async fn each_request_has_a_span_with_its_route_and_its_cache_result() {
    let collector = Collector::start().await;
    let program = Program::server().env(ENDPOINT, collector.url());
    let serving = program.env("OTEL_RESOURCE_ATTRIBUTES", "deployment=blue").start().await;
    let mut client = serving.connect().await;
    let sampled = traceparent("01");
    let headers = [("traceparent", &*sampled), ("tracestate", "a=b"), ("user-agent", "u")];
    for _ in 0..2 {
        client.request_with("GET", "/chain/ibc-0?x=%20", &headers).await;
    }
    // A client that wants no trace gets none.
    let unsampled = traceparent("00");
    client.request_with("GET", "/version", &[("traceparent", &*unsampled)]).await;
    client.get("/nothing").await;
    let Received { spans, resource, .. } = received(serving, &collector).await;
    assert_eq!(spans.len(), 3, "{spans:#?}");
    for (span, cache) in [(&spans[0], "miss"), (&spans[1], "hit")] {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!((&*span.name, &*span.trace_state), ("GET /chain/{id}", "a=b"));
        assert_eq!(span.kind(), SpanKind::Server);
        assert!(span.start_time_unix_nano < span.end_time_unix_nano);
        let expected = json!({
            "http.request.method": "GET",
            "http.response.status_code": 200,
            "http.route": "/chain/{id}",
            "url.path": "/chain/ibc-0",
            "url.query": "x=%20",
            "url.scheme": "http",
            "network.protocol.name": "http",
            "network.protocol.version": "1.1",
            "client.address": "127.0.0.1",
            "server.address": "localhost",
            "user_agent.original": "u",
            "relayer_rest.mount": "/",
            "relayer_rest.cache": cache,
        });
        check_attributes(span, &expected);
    }
    let [other] = [&spans[2]];
    assert_ne!(hex(&other.trace_id), TRACE);
    assert!(other.parent_span_id.is_empty());
    assert_eq!(other.name, "GET");
    assert_eq!(attributes(&other.attributes)["http.response.status_code"], 404);
    assert_eq!(resource["service.name"], "relayer-rest");
    assert_eq!(resource["deployment"], "blue");
    assert!(resource.contains_key("service.instance.id"));
}

/// Thousands of spans can wait for a collector.
#[tokio::test]
async fn a_client_cannot_make_a_span_large() {
    let collector = Collector::start().await;
    let program = Program::server().env(ENDPOINT, collector.url());
    let serving = program.start().await;
    let long = "a".repeat(5_000);
    let state = format!("a={long}");
    let parent = traceparent("01");
    let headers = [("user-agent", &*long), ("traceparent", &*parent), ("tracestate", &*state)];
    let mut client = serving.connect().await;
    client.request_with(&"B".repeat(3_000), &format!("/{long}?{long}"), &headers).await;
    let spans = received(serving, &collector).await.spans;
    assert_eq!((spans[0].name.as_str(), spans[0].trace_state.as_str()), ("HTTP", ""));
    assert_eq!(hex(&spans[0].trace_id), TRACE);
    let found = attributes(&spans[0].attributes);
    assert_eq!(found["http.request.method"], "_OTHER");
    for name in ["http.request.method_original", "url.path", "url.query", "user_agent.original"] {
        let value = found[name].as_str().unwrap();
        assert!((1024..1100).contains(&value.len()), "{name}: {}", value.len());
    }
}

#[tokio::test]
async fn failures_and_cancelled_requests_are_errors_of_their_spans() {
    let files = Folder::new();
    let trap = files.write("trap.wasm", component::that_traps_later("{}"));
    let spin = files.write("spin.wasm", component::that_spins_on_spin());
    let text = format!(
        "[[extension]]\nname = 'trap'\nmodule = '{trap}'\n[[extension]]\nname = 'spin'\nmodule = '{spin}'\n[extension.limits]\ntime = '60s'\n"
    );
    let settings = files.write("c.toml", text);
    let collector = Collector::start().await;
    let program = Program::server().args(["--config", &settings]);
    let program = program.env(ENDPOINT, collector.url());
    // Each span is sent at once.
    let serving = program.env("OTEL_BSP_SCHEDULE_DELAY", "1").start().await;
    let mut client = serving.connect().await;
    assert_eq!(client.get(&format!("/ext/trap{TRAP}")).await.status, 500);
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    stream.write_all(b"GET /ext/spin/spin HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    drop(stream);
    until("both spans", || collector.received().spans.len() == 2).await;
    let spans = received(serving, &collector).await.spans;
    for (path, error) in [("/ext/trap", "500"), ("/ext/spin/spin", "cancelled")] {
        let of_path = |found: &&Span| {
            attributes(&found.attributes)["url.path"].as_str().unwrap().starts_with(path)
        };
        let failed = spans.iter().find(of_path).unwrap();
        assert_eq!(attributes(&failed.attributes)["error.type"], error);
        let status = failed.status.as_ref().unwrap();
        assert_eq!(status.code(), StatusCode::Error);
    }
}

#[tokio::test]
async fn a_command_to_the_relayer_belongs_to_the_trace_of_its_request() {
    let relayer = Relayer::start(Script::of_1_13());
    relayer.change(|script| {
        let body = br#"{"status":"success","result":null}"#;
        script.bodies.insert("/clear_packets?chain=ibc-0".to_owned(), (*body).into());
    });
    let files = Folder::new();
    let tokens = files.write("tokens", "ops 0123456789abcdef\n");
    fs::set_permissions(tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let settings =
        files.write("c.toml", "[commands]\nclear-packets = true\ntoken-file = 'tokens'\n");
    let collector = Collector::start().await;
    let args = ["--upstream", &relayer.url(), "--config", &settings, "--log-format", "json"];
    let program = Program::server().args(args).env(ENDPOINT, collector.url());
    let mut serving = program.start().await;
    let mut client = serving.connect().await;
    client.get_until("/chain/ibc-0", |found| found.text().contains("success")).await;
    let parent = traceparent("01");
    let headers = [("authorization", "Bearer 0123456789abcdef"), ("traceparent", &*parent)];
    let response = client.request_with("POST", "/clear_packets?chain=ibc-0", &headers).await;
    assert_eq!(response.status, 200);
    // So does the log.
    let line = serving.logged("command executed").await;
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["span"]["trace_id"], TRACE);
    let spans = received(serving, &collector).await.spans;
    let span = spans.iter().find(|span| hex(&span.trace_id) == TRACE).unwrap();
    assert_eq!(span.name, "POST /clear_packets");
    let expected = format!("00-{TRACE}-{}-01", hex(&span.span_id));
    assert_eq!(relayer.seen().traceparents, [expected]);
}

/// Returns the points of a counter as their attributes and their values.
fn counts(metric: &Metric) -> Vec<(Value, i64)> {
    let Some(metric::Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.is_monotonic);
    let points = sum.data_points.iter().map(|point| {
        let Some(number_data_point::Value::AsInt(value)) = point.value else { panic!("{point:?}") };
        (serde_json::to_value(attributes(&point.attributes)).unwrap(), value)
    });
    points.collect()
}

#[tokio::test]
async fn metrics_have_the_durations_of_requests_and_the_families_of_the_admin_listener() {
    let collector = Collector::start().await;
    let serving = Program::server()
        .env(ENDPOINT, collector.url())
        .env("OTEL_TRACES_EXPORTER", "none")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "10")
        .start()
        .await;
    until("two messages at the interval", || collector.received().metrics.len() >= 2).await;
    let mut client = serving.connect().await;
    for _ in 0..3 {
        client.get("/chain/ibc-0").await;
    }
    // The last message is sent at the end.
    let Received { metrics, spans, headers, resource } = received(serving, &collector).await;
    assert!(spans.is_empty());
    assert_eq!(
        (&headers["x-key"], &headers["content-encoding"]),
        (&"a b".parse().unwrap(), &"gzip".parse().unwrap())
    );
    assert_eq!(resource["service.name"], "relayer-rest");
    let last = metrics.last().unwrap();
    let metric = |name: &str| {
        let mut found = last.iter().filter(|metric| metric.name == name);
        let metric = found.next().unwrap_or_else(|| panic!("{name} is missing"));
        assert!(found.next().is_none(), "{name} is there twice");
        metric
    };
    let duration = metric("http.server.request.duration");
    assert_eq!(duration.unit, "s");
    let Some(metric::Data::Histogram(histogram)) = &duration.data else { panic!("{duration:?}") };
    let mut points: Vec<_> = histogram.data_points.iter().collect();
    points.sort_by_key(|point| point.count);
    for (point, (count, cache)) in points.iter().zip([(1, "miss"), (2, "hit")]) {
        let mut found = attributes(&point.attributes);
        assert!(found.remove("relayer_rest.module").is_some());
        let expected = json!({
            "http.request.method": "GET",
            "http.response.status_code": 200,
            "http.route": "/chain/{id}",
            "url.scheme": "http",
            "relayer_rest.mount": "/",
            "relayer_rest.cache": cache,
        });
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
        assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (count, count));
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(
            (point.explicit_bounds[0], *point.explicit_bounds.last().unwrap()),
            (20e-6, 10.0)
        );
        assert!(point.sum.unwrap() > 0.0);
        assert!(
            0 < point.start_time_unix_nano && point.start_time_unix_nano < point.time_unix_nano
        );
    }
    assert_eq!(points.len(), 2);
    assert_eq!(counts(metric("relayer_rest_cache_hits")), [(json!({"mount": "/"}), 2)]);
    assert_eq!(metric("process_cpu_seconds").unit, "s");
    assert_eq!(metric("process_resident_memory_bytes").unit, "By");
    let Some(metric::Data::Gauge(build)) = &metric("relayer_rest_build_info").data else {
        panic!()
    };
    assert_eq!(build.data_points.len(), 1);
}

/// The headers for a collector may be secrets.
#[tokio::test]
async fn a_redirect_of_the_collector_is_not_followed() {
    let other = Collector::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/v1/traces\r\ncontent-length: 0\r\n\r\n",
        other.url()
    );
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // It ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (redirect, count) = (redirect.clone(), Arc::clone(&counted));
            thread::spawn(move || {
                while stream.read(&mut [0; 8 << 10]).is_ok_and(|length| length > 0) {
                    count.fetch_add(1, SeqCst);
                    if stream.write_all(redirect.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let program = Program::server().env(ENDPOINT, url).env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let serving = program.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret").start().await;
    serving.connect().await.get("/version").await;
    until("a span is sent", || count.load(SeqCst) > 0).await;
    let found = received(serving, &other).await;
    assert!(found.spans.is_empty() && found.metrics.is_empty(), "{found:?}");
}

/// Clients do not notice the collector.
#[tokio::test]
async fn a_collector_that_does_not_respond_delays_neither_clients_nor_the_end() {
    // Connections are accepted by the system only.
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", collector.local_addr().unwrap());
    let program = Program::server().env(ENDPOINT, url);
    // More than a test waits for.
    let program = program.env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
    let serving = program.env("OTEL_BSP_SCHEDULE_DELAY", "1").start().await;
    let mut client = serving.connect().await;
    // More than the queue of spans.
    for _ in 0..3_000 {
        assert_eq!(client.get("/version").await.status, 200);
    }
    serving.signal(Signal::TERM);
    let ended = serving.ended().await;
    assert_eq!(ended.status, Some(0));
    assert!(ended.stderr.contains("the last metrics are lost"), "{}", ended.stderr);
}

#[tokio::test]
async fn variables_that_cannot_be_used_keep_the_server_from_starting() {
    for (name, value, message) in [
        (
            ENDPOINT,
            "localhost:4318",
            "OTEL_EXPORTER_OTLP_ENDPOINT: not a URL of http; use one such as http://127.0.0.1:4318",
        ),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not supported; use http/protobuf, which collectors receive on port 4318",
        ),
    ] {
        let program = Program::server().env(ENDPOINT, "http://127.0.0.1:4318");
        check_failure(&program.env(name, value).run().await, 2, message);
    }
}
