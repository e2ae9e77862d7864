//! Source: a sample relayer for experiments. It has two chains of a local test setup,
//! each with two clients of the other, and telemetry.

use std::time::SystemTime;

use relayer_rest_state::{Object, RelayerState, SourceKind, StatePublisher, Worker};

use super::hermes_config::HermesConfig;
use super::metrics_text;

const CONFIG: &str = include_str!("sample.toml");
const TELEMETRY: &[u8] = include_bytes!("sample.prom");

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
    let families = metrics_text::parse(TELEMETRY).expect("the sample is valid");
    publisher.set_telemetry(families, SystemTime::now());
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
