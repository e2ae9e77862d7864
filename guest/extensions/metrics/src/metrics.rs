//! `GET /`: the metrics.
//!
//! Unknown data is left out and does not make the response an error: the metrics must
//! also show that the relayer is down.

use std::collections::{BTreeMap, BTreeSet};

use relayer_rest_sdk::contract::Source;
use relayer_rest_sdk::{Host, Response, relayer_metric};

use crate::exposition::{CONTENT_TYPE, Exposition, Labels, Seconds};
use crate::workers;

pub(crate) fn metrics<H: Host>(host: &H) -> Response {
    let components = host.components();
    let chains = host.chain_ids();
    let state = host.state();
    let mut text = Exposition::default();

    let components: BTreeSet<_> =
        components.iter().map(|part| (&*part.name, &*part.version)).collect();
    text.gauges(
        "relayer_component_info",
        "The version of a component of the relayer.",
        components.into_iter().map(|(name, version)| ([("name", name), ("version", version)], 1)),
    );

    text.gauge(
        "relayer_chains_ready",
        "Whether the configured chains are known.",
        u8::from(chains.is_ok()),
    );
    text.gauge(
        "relayer_state_ready",
        "Whether the connected chains and the active workers are known.",
        u8::from(state.is_ok()),
    );
    if let Ok(chains) = &chains {
        text.gauge("relayer_chains", "The number of configured chains.", chains.len());
    }
    if let Ok(state) = &state {
        let configured = chains.iter().flatten().map(|id| (&**id, 0));
        let connected = state.chains.iter().map(|id| (&**id, 1));
        let chains: BTreeMap<_, u8> = configured.chain(connected).collect();
        text.gauges(
            "relayer_chain_connected",
            "Whether the relayer is connected to the chain.",
            chains.into_iter().map(|(id, connected)| ([("chain", id)], connected)),
        );
        text.gauges(
            "relayer_workers",
            "The number of active workers by kind and by chains; a wallet has src_chain only.",
            workers::count(state).into_iter().map(|(group, workers)| {
                let labels = [
                    ("kind", group.kind),
                    ("src_chain", group.src_chain),
                    ("dst_chain", group.dst_chain),
                ];
                (labels, workers)
            }),
        );
    }

    text.gauge(
        "relayer_snapshot_changed_timestamp_seconds",
        "The Unix time of the last change of the exported state.",
        Seconds(host.changed()),
    );
    let unconfirmed_since = host.unconfirmed_since();
    text.gauge(
        "relayer_snapshot_confirmed",
        "Whether the exported state is confirmed: 0 while the relayer does not respond.",
        u8::from(unconfirmed_since.is_none()),
    );
    if let Some(since) = unconfirmed_since {
        text.gauge(
            "relayer_snapshot_unconfirmed_since_timestamp_seconds",
            "The Unix time since which the relayer has not responded; absent while it responds.",
            Seconds(since),
        );
    }
    sources(host, &mut text);
    telemetry(host, &mut text);
    Response::of_type(CONTENT_TYPE, text.into_text())
}

fn source_labels(source: &Source) -> Labels<'_, 2> {
    [("kind", &*source.kind), ("location", &*source.location)]
}

/// Writes the sources of the data; a sample has the kind `sample`.
fn sources<H: Host>(host: &H, text: &mut Exposition) {
    let sources = host.sources();
    text.gauges(
        "relayer_source_up",
        "Whether the source of the data works: 0 while it does not respond, or its file is invalid.",
        sources.iter().map(|source| (source_labels(source), u8::from(source.failure.is_none()))),
    );
    text.gauges(
        "relayer_source_failing_since_timestamp_seconds",
        "The Unix time since which the source of the data has failed; absent while it works.",
        sources.iter().filter_map(|source| {
            Some((source_labels(source), Seconds(source.failure.as_ref()?.since)))
        }),
    );
}

/// The prefix of the names of the metrics of this module.
const PREFIX: &str = "relayer_";

/// Writes the metrics that the relayer exports, so that one scrape has everything, and the
/// age of the oldest packets, which the relayer does not export.
fn telemetry<H: Host>(host: &H, text: &mut Exposition) {
    let Ok(names) = host.metric_families() else { return };
    let scraped = host.scraped().unwrap_or_default();
    text.gauge(
        "relayer_telemetry_scraped_timestamp_seconds",
        "The Unix time at which the telemetry was read from the relayer.",
        Seconds(scraped),
    );
    if let Ok(Some(oldest)) = relayer_metric(host, "backlog_oldest_sequence") {
        let pending = oldest.samples.iter().filter(|sample| sample.value != 0.0);
        text.gauges(
            "relayer_backlog_oldest_since_timestamp_seconds",
            "The Unix time since which the oldest pending packet of the channel has been the same.",
            pending.map(|sample| {
                let labels = ["chain", "counterparty", "channel", "port"];
                (labels.map(|name| (name, sample.label(name))), Seconds(sample.since))
            }),
        );
    }
    // The names of this module's own metrics stay unique.
    for name in names.iter().filter(|name| !name.starts_with(PREFIX)) {
        if let Ok(Some(family)) = host.metric_family(name) {
            text.family(&family);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::metrics;
    use relayer_rest_sdk::Object;
    use relayer_rest_sdk::contract::{Component, Source, SourceFailure};
    use relayer_rest_sdk::testing::{FakeHost, chain};

    #[track_caller]
    fn check(host: &FakeHost, expected: &str) {
        let response = metrics(host);
        assert_eq!(response.status, 200);
        let content_type = ("content-type", "text/plain; version=0.0.4; charset=utf-8".into());
        assert_eq!(response.headers, [content_type]);
        assert_eq!(response.text_body(), expected);
    }

    #[test]
    fn all_known_facts_are_exported() {
        let packet = |channel| Object::Packet {
            dst_chain_id: "ibc-1",
            src_chain_id: "ibc-0",
            src_channel_id: channel,
            src_port_id: "transfer",
        };
        let mut host = FakeHost::new()
            .with_chain("ibc-1")
            .with_chain("ibc-0")
            .with_chain_config(chain("far"))
            .with_worker(&Object::Other { kind: "Sweep", fields: &[] })
            .with_worker(&packet("channel-0"))
            .with_worker(&packet("channel-1"))
            .with_worker(&Object::Wallet { chain_id: "ibc-0" });
        host.state.as_mut().unwrap().chains.push("unheard-of".to_owned());
        host.components.push(Component { name: "ibc".into(), version: "0.1.0".into() });
        host.changed += 1_234_567;
        check(
            &host,
            r#"# HELP relayer_component_info The version of a component of the relayer.
# TYPE relayer_component_info gauge
relayer_component_info{name="ibc",version="0.1.0"} 1
relayer_component_info{name="ibc-relayer",version="1.2.3"} 1
# HELP relayer_chains_ready Whether the configured chains are known.
# TYPE relayer_chains_ready gauge
relayer_chains_ready 1
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 1
# HELP relayer_chains The number of configured chains.
# TYPE relayer_chains gauge
relayer_chains 3
# HELP relayer_chain_connected Whether the relayer is connected to the chain.
# TYPE relayer_chain_connected gauge
relayer_chain_connected{chain="far"} 0
relayer_chain_connected{chain="ibc-0"} 1
relayer_chain_connected{chain="ibc-1"} 1
relayer_chain_connected{chain="unheard-of"} 1
# HELP relayer_workers The number of active workers by kind and by chains; a wallet has src_chain only.
# TYPE relayer_workers gauge
relayer_workers{kind="Packet",src_chain="ibc-0",dst_chain="ibc-1"} 2
relayer_workers{kind="Sweep"} 1
relayer_workers{kind="Wallet",src_chain="ibc-0"} 1
# HELP relayer_snapshot_changed_timestamp_seconds The Unix time of the last change of the exported state.
# TYPE relayer_snapshot_changed_timestamp_seconds gauge
relayer_snapshot_changed_timestamp_seconds 1767225600.001234
# HELP relayer_snapshot_confirmed Whether the exported state is confirmed: 0 while the relayer does not respond.
# TYPE relayer_snapshot_confirmed gauge
relayer_snapshot_confirmed 1
"#,
        );
    }

    const HEAD: &str = r#"# HELP relayer_component_info The version of a component of the relayer.
# TYPE relayer_component_info gauge
relayer_component_info{name="ibc-relayer",version="1.2.3"} 1
# HELP relayer_chains_ready Whether the configured chains are known.
# TYPE relayer_chains_ready gauge
"#;

    const TAIL: &str = "\
# HELP relayer_snapshot_changed_timestamp_seconds The Unix time of the last change of the exported state.
# TYPE relayer_snapshot_changed_timestamp_seconds gauge
relayer_snapshot_changed_timestamp_seconds 1767225600.000000
# HELP relayer_snapshot_confirmed Whether the exported state is confirmed: 0 while the relayer does not respond.
# TYPE relayer_snapshot_confirmed gauge
";

    #[test]
    fn sources_are_exported_with_their_failures() {
        let mut host = FakeHost::new();
        let source = |kind: &str, location: &str, failure| Source {
            kind: kind.to_owned(),
            location: location.to_owned(),
            failure,
        };
        let failure =
            SourceFailure { message: "refused".to_owned(), since: 1_767_225_601_500_000_000 };
        host.sources =
            vec![source("sample", "", None), source("upstream", "http://h/", Some(failure))];
        let text = metrics(&host);
        let expected = r#"relayer_source_up{kind="sample"} 1
relayer_source_up{kind="upstream",location="http://h/"} 0
# HELP relayer_source_failing_since_timestamp_seconds The Unix time since which the source of the data has failed; absent while it works.
# TYPE relayer_source_failing_since_timestamp_seconds gauge
relayer_source_failing_since_timestamp_seconds{kind="upstream",location="http://h/"} 1767225601.500000
"#;
        assert!(text.text_body().ends_with(expected), "{}", text.text_body());
    }

    #[test]
    fn the_telemetry_is_passed_through() {
        let labels =
            [("chain", "a"), ("channel", "channel-0"), ("counterparty", "b"), ("port", "transfer")];
        let host = FakeHost::new()
            .with_metric("relayer_chains", &[], 9.0)
            .with_metric("backlog_oldest_sequence", &labels, 12.0)
            .with_metric("backlog_oldest_sequence", &[("chain", "c")], 0.0)
            .with_metric("wallet_balance", &[("chain", "a")], 0.5);
        let text = metrics(&host);
        let expected = r#"# HELP relayer_telemetry_scraped_timestamp_seconds The Unix time at which the telemetry was read from the relayer.
# TYPE relayer_telemetry_scraped_timestamp_seconds gauge
relayer_telemetry_scraped_timestamp_seconds 1767225600.000000
# HELP relayer_backlog_oldest_since_timestamp_seconds The Unix time since which the oldest pending packet of the channel has been the same.
# TYPE relayer_backlog_oldest_since_timestamp_seconds gauge
relayer_backlog_oldest_since_timestamp_seconds{chain="a",counterparty="b",channel="channel-0",port="transfer"} 1767225600.000000
# TYPE backlog_oldest_sequence gauge
backlog_oldest_sequence{chain="a",channel="channel-0",counterparty="b",port="transfer"} 12
backlog_oldest_sequence{chain="c"} 0
# TYPE wallet_balance gauge
wallet_balance{chain="a"} 0.5
"#;
        assert!(text.text_body().ends_with(expected), "{}", text.text_body());
    }

    #[test]
    fn unknown_facts_are_left_out() {
        check(
            &FakeHost::not_ready("wait"),
            &format!(
                "{HEAD}relayer_chains_ready 0
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 0
{TAIL}relayer_snapshot_confirmed 1
"
            ),
        );
    }

    #[test]
    fn chains_can_be_known_without_the_state() {
        let mut host = FakeHost::not_ready("wait");
        host.chains = FakeHost::new().with_chain("ibc-0").chains;
        check(
            &host,
            &format!(
                "{HEAD}relayer_chains_ready 1
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 0
# HELP relayer_chains The number of configured chains.
# TYPE relayer_chains gauge
relayer_chains 1
{TAIL}relayer_snapshot_confirmed 1
"
            ),
        );
    }

    #[test]
    fn the_state_can_be_known_without_the_chains() {
        let mut host = FakeHost::not_ready("wait");
        host.state = FakeHost::new().with_chain("ibc-0").state;
        check(
            &host,
            &format!(
                "{HEAD}relayer_chains_ready 0
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 1
# HELP relayer_chain_connected Whether the relayer is connected to the chain.
# TYPE relayer_chain_connected gauge
relayer_chain_connected{{chain=\"ibc-0\"}} 1
{TAIL}relayer_snapshot_confirmed 1
"
            ),
        );
    }

    #[test]
    fn an_unconfirmed_state_has_its_time() {
        let mut host = FakeHost::not_ready("wait");
        host.unconfirmed_since = Some(1_767_225_601_500_000_000);
        check(
            &host,
            &format!(
                "{HEAD}relayer_chains_ready 0
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 0
{TAIL}relayer_snapshot_confirmed 0
# HELP relayer_snapshot_unconfirmed_since_timestamp_seconds The Unix time since which the relayer has not responded; absent while it responds.
# TYPE relayer_snapshot_unconfirmed_since_timestamp_seconds gauge
relayer_snapshot_unconfirmed_since_timestamp_seconds 1767225601.500000
"
            ),
        );
    }

    #[test]
    fn foreign_names_are_escaped_and_exported_once() {
        let odd = "a\\b\"c\nrelayer_chains 9";
        let mut host = FakeHost::new()
            .with_chain(odd)
            .with_chain_config(chain(odd))
            .with_worker(&Object::Wallet { chain_id: odd })
            .with_worker(&Object::Other { kind: odd, fields: &[] })
            .with_worker(&Object::Other { kind: "", fields: &[] });
        host.components = vec![Component { name: odd.into(), version: odd.into() }; 2];
        check(
            &host,
            &format!(
                r#"# HELP relayer_component_info The version of a component of the relayer.
# TYPE relayer_component_info gauge
relayer_component_info{{name="a\\b\"c\nrelayer_chains 9",version="a\\b\"c\nrelayer_chains 9"}} 1
# HELP relayer_chains_ready Whether the configured chains are known.
# TYPE relayer_chains_ready gauge
relayer_chains_ready 1
# HELP relayer_state_ready Whether the connected chains and the active workers are known.
# TYPE relayer_state_ready gauge
relayer_state_ready 1
# HELP relayer_chains The number of configured chains.
# TYPE relayer_chains gauge
relayer_chains 2
# HELP relayer_chain_connected Whether the relayer is connected to the chain.
# TYPE relayer_chain_connected gauge
relayer_chain_connected{{chain="a\\b\"c\nrelayer_chains 9"}} 1
# HELP relayer_workers The number of active workers by kind and by chains; a wallet has src_chain only.
# TYPE relayer_workers gauge
relayer_workers 1
relayer_workers{{kind="Wallet",src_chain="a\\b\"c\nrelayer_chains 9"}} 1
relayer_workers{{kind="a\\b\"c\nrelayer_chains 9"}} 1
{TAIL}relayer_snapshot_confirmed 1
"#
            ),
        );
    }
}
