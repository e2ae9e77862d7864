//! Does the relayer's telemetry reach modules, with its age and its failures?

use std::sync::Arc;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script};
use relayer_rest_tests::wait::until_async;

const CONFIG: &str = include_str!("../../fixtures/hermes-1.13.toml");

const EXTENSIONS: &str = "extension = [{ name = 'health' }, { name = 'metrics' }]";

/// Returns the metrics of a relayer with a backlog and a wallet.
fn metrics(oldest: u64, balance: f64) -> Arc<[u8]> {
    let channel = r#"chain="ibc-0",channel="channel-0",counterparty="ibc-1",port="transfer""#;
    let text = format!(
        "# HELP backlog_oldest_sequence Sequence number of the oldest SendPacket event\n\
         # TYPE backlog_oldest_sequence gauge\n\
         backlog_oldest_sequence{{{channel}}} {oldest}\n\
         # TYPE wallet_balance gauge\n\
         wallet_balance{{account=\"a\",chain=\"ibc-0\",denom=\"uatom\"}} {balance}\n"
    );
    text.into_bytes().into()
}

fn relayer() -> Relayer {
    let relayer = Relayer::start(Script::of_1_13());
    set_metrics(&relayer, metrics(7, 100.5));
    relayer
}

fn set_metrics(relayer: &Relayer, metrics: Arc<[u8]>) {
    relayer.change(|script| drop(script.bodies.insert("/metrics".to_owned(), metrics)));
}

async fn start(relayer: &Relayer, args: &[&str]) -> Serving {
    let folder = Folder::new();
    let config = folder.write("relayer-rest.toml", EXTENSIONS);
    let url = relayer.url();
    let upstream = ["--upstream", &url, "--poll", "10ms", "--telemetry-poll", "10ms"];
    let telemetry = ["--telemetry", &url, "--config", &config];
    Program::server().args(upstream).args(telemetry).args(args).start().await
}

/// Returns the failure of the source of the telemetry.
async fn failure(serving: &Serving) -> Option<String> {
    let sources = serving.control_client().status().await.unwrap().sources;
    let telemetry = sources.into_iter().find(|source| source.kind == "telemetry").unwrap();
    telemetry.failure.map(|failure| failure.message)
}

#[tokio::test]
async fn extensions_read_the_telemetry() {
    let relayer = relayer();
    let serving = start(&relayer, &[]).await;
    let mut client = serving.connect().await;
    let balance = r#"wallet_balance{account="a",chain="ibc-0",denom="uatom"} 100.5"#;
    let known = client.get_until("/ext/metrics", |found| found.text().contains(balance)).await;
    for line in [
        "# HELP backlog_oldest_sequence Sequence number of the oldest SendPacket event",
        "# TYPE backlog_oldest_sequence gauge",
        r#"backlog_oldest_sequence{chain="ibc-0",channel="channel-0",counterparty="ibc-1",port="transfer"} 7"#,
    ] {
        assert!(known.text().lines().any(|found| found == line), "{}", known.text());
    }
    let since = |text: &str| {
        let name = "relayer_backlog_oldest_since_timestamp_seconds{";
        text.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let readyz = "/ext/health/readyz?min-balance=100uatom";
    client.get_until(readyz, |found| found.text() == "ok").await;
    let query = "max-backlog-age=0s&min-balance=101uatom&exclude=max-backlog-age";
    let low = client.get(&format!("/ext/health/readyz?{query}")).await;
    let line = "[-]min-balance/101uatom failed: a on ibc-0 has 100.5uatom\n";
    assert!(low.status == 503 && low.text().contains(line), "{}", low.text());
    // A new scrape with the same packet has the same time, and another packet a new one.
    let scraped = |text: &str| {
        let name = "relayer_telemetry_scraped_timestamp_seconds ";
        text.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let before = scraped(known.text());
    let later = client.get_until("/ext/metrics", |found| scraped(found.text()) != before).await;
    assert_eq!(since(later.text()), since(known.text()));
    set_metrics(&relayer, metrics(8, 99.0));
    let later = client.get_until("/ext/metrics", |found| found.text().contains("\"} 8\n")).await;
    assert_ne!(since(later.text()), since(known.text()));
}

#[tokio::test]
async fn telemetry_that_is_not_readable_is_stale_and_expires() {
    let relayer = relayer();
    let serving = start(&relayer, &["--max-stale", "10s"]).await;
    let mut client = serving.connect().await;
    let has_backlog = |text: &str| text.contains("backlog_oldest_sequence{");
    client.get_until("/ext/metrics", |found| has_backlog(found.text())).await;
    set_metrics(&relayer, b"<html>not metrics".as_slice().into());
    until_async("the telemetry has failed", async || failure(&serving).await.is_some()).await;
    let message = failure(&serving).await.unwrap();
    assert!(
        message.starts_with("not metrics of Prometheus: line 1: expected a sample"),
        "{message}"
    );
    let check = client.get("/ext/health/readyz?min-balance=1").await;
    let line = "[-]source/telemetry failed: not metrics of Prometheus: line 1: ";
    assert!(check.status == 503 && check.text().contains(line), "{}", check.text());
    // The API needs no telemetry.
    client.get_until("/ext/health/readyz", |found| found.text() == "ok").await;
    let state = client.get("/state").await;
    assert!(state.status == 200 && !state.headers.contains_key("age"));
    // The metrics of this host remain when the ones of the relayer expire.
    let expired = client.get_until("/ext/metrics", |found| !has_backlog(found.text())).await;
    assert!(expired.text().contains("relayer_source_up{kind=\"telemetry\""), "{}", expired.text());
    let check = client.get("/ext/health/readyz?min-balance=1").await;
    let line = "the relayer's telemetry has not been readable for 10s";
    assert!(check.text().contains(line), "{}", check.text());
    set_metrics(&relayer, metrics(7, 1.0));
    client.get_until("/ext/metrics", |found| has_backlog(found.text())).await;
    until_async("the failure is over", async || failure(&serving).await.is_none()).await;
}

#[tokio::test]
async fn stale_telemetry_has_its_age() {
    let relayer = relayer();
    let serving = start(&relayer, &[]).await;
    let mut client = serving.connect().await;
    let fresh = client.get_until("/ext/metrics", |found| found.text().contains("wallet_")).await;
    assert!(!fresh.headers.contains_key("age"));
    set_metrics(&relayer, b"!".as_slice().into());
    let has_age = |found: &relayer_rest_tests::client::Response| found.headers.contains_key("age");
    let stale = client.get_until("/ext/metrics", has_age).await;
    assert!(stale.text().contains("wallet_"));
}

#[tokio::test]
async fn the_address_of_the_telemetry_is_in_the_relayers_configuration() {
    let relayer = relayer();
    let files = Folder::new();
    let port = relayer.address.port();
    let section = format!("[telemetry]\nenabled = true\nhost = '0.0.0.0'\nport = {port}\n");
    let sections = CONFIG.replace("[telemetry.buckets", &format!("{section}[telemetry.buckets"));
    let relayer_config = files.write("hermes.toml", sections);
    let config = files.write("relayer-rest.toml", EXTENSIONS);
    let args = ["--relayer-config", &relayer_config, "--config", &config];
    let serving = Program::server().args(args).start().await;
    let mut client = serving.connect().await;
    client.get_until("/ext/metrics", |found| found.text().contains("wallet_balance{")).await;
    drop(serving);
    let args = ["--relayer-config", &relayer_config, "--telemetry", "none"];
    let serving = Program::server().args(args).start().await;
    let sources = serving.control_client().status().await.unwrap().sources;
    assert!(sources.iter().all(|source| source.kind == "relayer-config"), "{sources:?}");
}

#[tokio::test]
async fn the_telemetry_of_the_sample_can_be_disabled() {
    let files = Folder::new();
    let config = files.write("relayer-rest.toml", EXTENSIONS);
    for (option, is_shown) in [(&[][..], true), (&["--telemetry", "none"], false)] {
        let serving = Program::server().args(["--config", &config]).args(option).start().await;
        let mut client = serving.connect().await;
        let metrics = client.get_until("/ext/metrics", |found| found.status == 200).await;
        assert_eq!(metrics.text().contains("\nwallet_balance{"), is_shown, "{}", metrics.text());
    }
}

#[tokio::test]
async fn the_address_of_the_telemetry_is_checked() {
    let ended = Program::server().args(["--telemetry", "localhost:3001"]).run().await;
    assert_eq!(ended.status, Some(2));
    let message = "--telemetry: not the URL of a relayer's telemetry: unsupported scheme localhost; \
        expected one such as http://127.0.0.1:3001/metrics, or none\n";
    assert!(ended.stderr.ends_with(message), "{}", ended.stderr);
}
