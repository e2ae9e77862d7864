//! Does Prometheus' own tool accept the metrics without remarks?

use std::fmt::Write as _;
use std::io::Write;
use std::process::{Command, Stdio};

use relayer_rest_host::module::{BundledExtension, Grants, Limits};
use relayer_rest_host::state::sample;
use relayer_rest_sdk::contract::Component;
use relayer_rest_sdk::testing::{FakeHost, chain};
use relayer_rest_sdk::{Object, Request};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::grafana::queries;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{TestServer, engine, extension};

/// Runs `promtool check metrics`, and returns whether it succeeds, and its output.
fn promtool(metrics: &[u8]) -> (bool, String) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed");
    promtool.stdin.take().unwrap().write_all(metrics).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[track_caller]
fn check(host: &FakeHost) {
    let response = relayer_rest_metrics::handle(host, &Request::get("/"));
    assert_eq!(response.status, 200);
    let text = response.text_body();
    assert_eq!(promtool(&response.body), (true, String::new()), "{text}");
}

/// Returns a relayer whose state is fully known, with these names.
fn full(chains: [&str; 2], name: &str) -> FakeHost {
    let [src_chain_id, dst_chain_id] = chains;
    let objects = [
        Object::Client { dst_chain_id, dst_client_id: name, src_chain_id },
        Object::Channel { dst_chain_id, src_chain_id, src_channel_id: name, src_port_id: name },
        Object::Connection { dst_chain_id, src_chain_id, src_connection_id: name },
        Object::Packet { dst_chain_id, src_chain_id, src_channel_id: name, src_port_id: name },
        Object::Packet { dst_chain_id, src_chain_id, src_channel_id: "other", src_port_id: name },
        Object::Wallet { chain_id: src_chain_id },
        Object::CrossChainQuery { src_chain_id, dst_chain_id, query_id: name, connection_id: name },
        Object::Other { kind: name, fields: &[] },
    ];
    let mut host = FakeHost::new()
        .with_chain(src_chain_id)
        .with_chain(dst_chain_id)
        .with_chain_config(chain("not connected"));
    host = objects.iter().fold(host, FakeHost::with_worker);
    host.state.as_mut().unwrap().chains.push("not configured".to_owned());
    host.components.push(Component { name: name.to_owned(), version: name.to_owned() });
    host
}

#[test]
#[ignore = "needs promtool: apt install prometheus"]
fn the_metrics_pass_promtool() {
    for mut host in [FakeHost::new(), full(["ibc-0", "ibc-1"], "name"), FakeHost::not_ready("wait")]
    {
        check(&host);
        host.unconfirmed_since = Some(1_767_225_600_123_456_789);
        check(&host);
    }
    for odd in ["", "\\", "\"", "\n", "\r", "\0", "a\nb{c=\"d\"} 1\n# EOF", "\\\\\"\\n", "ü {},=#"]
    {
        check(&full([odd, "b"], "name"));
        check(&full(["a", odd], odd));
        check(&full([odd, odd], odd));
    }
}

/// Covers the bundled component over HTTP, as Prometheus gets it.
#[tokio::test]
#[ignore = "needs promtool: apt install prometheus"]
async fn the_served_metrics_pass_promtool() {
    let included = BundledExtension::named("metrics").unwrap();
    let fenced = engine(&Limits::default()).with_grants(Grants::from(&included));
    let metrics = extension("/ext/metrics", &fenced, included.component);
    let server = TestServer::builder().extension(metrics).without_state().start().await;
    for is_known in [false, true] {
        if is_known {
            sample(&server.publisher);
        }
        let response = server.get("/ext/metrics").await;
        assert_eq!(response.status, 200);
        assert!(response.header("content-type").starts_with("text/plain; version=0.0.4"));
        assert_eq!(response.text().contains("ibc-1"), is_known, "{}", response.text());
        assert_eq!(promtool(response.text().as_bytes()), (true, String::new()));
    }
}

#[test]
#[ignore = "needs promtool: apt install prometheus"]
fn promtool_rejects_invalid_metrics() {
    let (passes, output) = promtool(b"# HELP a_total It is.\n# TYPE a_total gauge\na_total 1\n");
    assert!(!passes && output.contains("a_total"), "{output}");
    let (passes, output) = promtool(b"a{b=\"c\nd\"} 1\n");
    assert!(!passes && output.contains("error"), "{output}");
}

#[tokio::test]
#[ignore = "needs promtool: apt install prometheus"]
async fn the_metrics_of_the_host_pass_all_checks() {
    let files = Folder::new();
    let settings = "extension = [{ name = 'health' }]\n[admin]\nlisten = 'unix:admin.sock'\n";
    let settings = files.write("relayer-rest.toml", settings);
    let serving = Program::server().args(["--config", &settings]).start().await;
    for path in ["/version", "/version", "/nope", "/ext/health/readyz"] {
        serving.connect().await.get(path).await;
    }
    let socket = files.path("admin.sock");
    let curl = Command::new("curl")
        .args(["--silent", "--fail", "--unix-socket", &socket, "http://localhost/metrics"])
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&curl.stdout);
    assert!(text.contains("relayer_rest_requests_total{"), "{curl:?}");
    assert_eq!(promtool(&curl.stdout), (true, String::new()), "{text}");
}

#[test]
#[ignore = "needs promtool: apt install prometheus"]
fn the_queries_of_the_dashboard_are_valid() {
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, query) in queries().iter().enumerate() {
        // Grafana replaces its variables before.
        let query = query.replace("$__rate_interval", "1m").replace('\'', "''");
        writeln!(rules, "  - record: query:{number}\n    expr: '{query}'").unwrap();
    }
    let files = Folder::new();
    let file = files.write("rules.yml", &rules);
    let output = Command::new("promtool").args(["check", "rules", &file]).output();
    let output = output.expect("promtool is installed");
    assert!(output.status.success(), "{output:?}\n{rules}");
}
