//! Source: a sample relayer for experiments. It has two chains of a local test setup,
//! each with two clients of the other, and telemetry.

use std::time::SystemTime;

use relayer_rest_state::{
    MetricFamily, MetricKind, Object, RelayerState, Sample, SourceKind, StatePublisher, Worker,
};

use super::hermes_config::HermesConfig;

const CONFIG: &str = include_str!("sample.toml");

/// Publishes the sample.
///
/// # Panics
/// Never, because the sample is part of this crate and is tested.
pub fn sample(publisher: &StatePublisher) {
    publisher.add_source(SourceKind::Sample, "").responded();
    let config = HermesConfig::parse(CONFIG).expect("the sample is valid");
    publisher.set_chains(config.chains).expect("the sample's chains differ");
    publisher.set_state(RelayerState {
        chains: vec!["ibc-0".into(), "ibc-1".into()],
        workers: vec![
            client(1, "ibc-1", "ibc-0", "07-tendermint-0"),
            client(2, "ibc-1", "ibc-0", "07-tendermint-1"),
            client(3, "ibc-0", "ibc-1", "07-tendermint-0"),
            client(4, "ibc-0", "ibc-1", "07-tendermint-1"),
        ],
    });
    let families = vec![
        family(
            "client_updates_submitted_total",
            MetricKind::Counter,
            "Number of client update messages submitted",
            &["client", "dst_chain", "src_chain"],
            &[
                (&["07-tendermint-0", "ibc-1", "ibc-0"], 12.0),
                (&["07-tendermint-0", "ibc-0", "ibc-1"], 11.0),
            ],
        ),
        family(
            "wallet_balance",
            MetricKind::Gauge,
            "The balance of each wallet Hermes uses per chain",
            &["account", "chain", "denom"],
            &[
                (&["cosmos1sample", "ibc-0", "samoleans"], 99_996_000.0),
                (&["cosmos1sample", "ibc-1", "samoleans"], 99_994_000.0),
            ],
        ),
        family("workers", MetricKind::Gauge, "Number of workers", &["type"], &[(&["client"], 4.0)]),
    ];
    publisher.set_telemetry(families, SystemTime::now());
}

/// Returns a family of metrics with these labels. Each sample has their values, and its own.
fn family(
    name: &str,
    kind: MetricKind,
    help: &str,
    labels: &[&str],
    samples: &[(&[&str], f64)],
) -> MetricFamily {
    let sample = |(values, value): &(&[&str], f64)| Sample {
        name: name.into(),
        labels: labels
            .iter()
            .zip(*values)
            .map(|(&label, &value)| (label.into(), value.into()))
            .collect(),
        value: *value,
        since: SystemTime::UNIX_EPOCH,
    };
    let samples = samples.iter().map(sample).collect();
    MetricFamily { name: name.into(), kind, help: help.to_owned(), samples }
}

fn client(id: u64, src: &str, dst: &str, client: &str) -> Worker {
    let object = Object::Client {
        dst_chain_id: dst.into(),
        dst_client_id: client.into(),
        src_chain_id: src.into(),
    };
    Worker { id, object, data: None }
}

#[cfg(test)]
mod tests {
    use super::sample;
    use relayer_rest_state::StatePublisher;

    #[test]
    fn the_sample_is_two_chains_with_two_clients_each_and_telemetry() {
        let publisher = StatePublisher::new();
        sample(&publisher);
        let snapshot = publisher.reader().snapshot();
        assert_eq!(snapshot.chain_ids().value(), &Ok(vec!["ibc-0".into(), "ibc-1".into()]));
        assert_eq!(snapshot.status().value().as_ref().unwrap().workers.len(), 4);
        assert!(snapshot.telemetry().family("wallet_balance").is_some());
    }
}
