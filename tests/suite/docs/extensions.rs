//! Does docs/extensions.md match the bundled extensions and the settings?

use std::collections::BTreeMap;
use std::fmt::Write;

use relayer_rest_host::config::Config;
use relayer_rest_host::module::{BUNDLED_EXTENSIONS, BundledExtension, Grants, Limits};
use relayer_rest_sdk::contract::{Source, SourceFailure};
use relayer_rest_sdk::testing::FakeHost;
use relayer_rest_sdk::{Object, Request};
use relayer_rest_tests::server::{TestServer, engine, extension};

use super::page::{Page, code};

fn page() -> Page {
    Page::read("docs/extensions.md")
}

#[test]
fn the_bundled_extensions_are_mounted_as_shown() {
    let page = page();
    let config = Config::parse(page.block("toml", "extension = [")).unwrap();
    let named: Vec<_> = config.extension.iter().map(|extension| extension.name.as_str()).collect();
    assert!(named.into_iter().eq(BUNDLED_EXTENSIONS.iter().map(|bundled| bundled.name)));
    for extension in config.extension {
        assert!(page.text.contains(&format!("At `{}`", extension.path())), "{}", extension.path());
    }
}

#[test]
fn the_third_party_extension_is_valid() {
    let page = page();
    let config = Config::parse(page.block("toml", "[[extension]]")).unwrap();
    assert_eq!(config.extension[0].path().as_str(), "/ext/hello");
    assert_eq!(config.extension[0].granted(), Grants::new(&["chains"]).unwrap());
}

/// Returns the metrics of a relayer whose state is fully known, with telemetry, and that
/// does not respond.
fn metrics() -> String {
    let mut host = FakeHost::new().with_chain("ibc-0").with_worker(&Object::Client {
        dst_chain_id: "b",
        dst_client_id: "c",
        src_chain_id: "a",
    });
    host.unconfirmed_since = Some(1);
    host.sources = vec![Source {
        kind: "upstream".to_owned(),
        location: "http://h".to_owned(),
        failure: Some(SourceFailure { message: "refused".to_owned(), since: 1 }),
    }];
    let channel = [("chain", "a"), ("counterparty", "b"), ("channel", "c"), ("port", "p")];
    let host = host.with_metric("backlog_oldest_sequence", &channel, 1.0);
    relayer_rest_metrics::handle(&host, &Request::get("/")).text_body().to_owned()
}

#[test]
fn the_metrics_are_listed() {
    let metrics = metrics();
    let mut labels = BTreeMap::new();
    for sample in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = sample.split_once(['{', ' ']).unwrap();
        // Labels are separated by commas, and their values are quoted.
        let names: Vec<_> =
            rest.split("=\"").map(|part| part.rsplit(['"', ',']).next().unwrap()).collect();
        labels.insert(name, names[..names.len() - 1].join(","));
    }
    let mut table = "| metric | meaning |\n|---|---|\n".to_owned();
    for line in metrics.lines() {
        let Some(help) = line.strip_prefix("# HELP ") else { continue };
        let (name, help) = help.split_once(' ').unwrap();
        let labels = labels.get(name).filter(|labels| !labels.is_empty());
        let labels = labels.map_or(String::new(), |labels| format!("{{{labels}}}"));
        writeln!(table, "| `{name}{labels}` | {help} |").unwrap();
    }
    page().check_generated("metrics", &table);
}

#[test]
fn the_queries_are_about_metrics_that_exist() {
    let metrics = metrics();
    let page = page();
    let queries = page.block("promql", "time()");
    let names = queries.split(|character: char| !character.is_alphanumeric() && character != '_');
    let names: Vec<_> = names.filter(|name| name.starts_with("relayer_")).collect();
    assert!(names.len() >= 4);
    assert!(names.iter().all(|name| metrics.contains(&format!("# HELP {name} "))), "{names:?}");
}

#[tokio::test]
async fn the_health_endpoints_are_served() {
    let bundled = BundledExtension::named("health").unwrap();
    let engine_of_health = engine(&Limits::default()).with_grants(Grants::from(&bundled));
    let health = extension("/ext/health", &engine_of_health, bundled.component);
    let server = TestServer::builder().extension(health).start().await;
    let page = page();
    let mut paths: Vec<_> =
        page.table("## Health").iter().map(|row| code(&row[0]).replace(":id", "ibc-0")).collect();
    let probes = page.block("yaml", "readinessProbe").lines();
    let probes = probes.filter_map(|line| line.trim().strip_prefix("path: /ext/health"));
    paths.extend(probes.map(str::to_owned));
    assert_eq!(paths.len(), 8);
    for path in paths {
        let response = server.get(&format!("/ext/health{path}")).await;
        assert_eq!((response.status.as_u16(), response.text()), (200, "ok"), "{path}");
    }
    assert_eq!(server.get("/ext/health/readyz/chain/none").await.status, 404);
    server.publisher.set_state(relayer_rest_host::state::RelayerState::default());
    assert_eq!(server.get("/ext/health/readyz").await.status, 503);
}
