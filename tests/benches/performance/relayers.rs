//! Generated relayers of any size.

use std::fmt::Write;

use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_host::state::{ChainConfig, Object, RelayerState, StatePublisher, Worker};

/// The number of chains of a professional operator.
const CHAINS: u64 = 40;

/// The paths of the API, one for each endpoint.
pub(crate) const PATHS: [&str; 4] = ["/version", "/chains", "/chain/chain-00", "/state"];

/// Publishes a relayer with this many packet workers, each with a channel of its own.
pub(crate) fn fill(publisher: &StatePublisher, workers: u64) {
    publisher.set_chains(chains()).unwrap();
    publisher.set_state(state(workers));
}

pub(crate) fn chains() -> Vec<ChainConfig> {
    let mut config =
        String::from("[global]\n[rest]\nenabled = true\nhost = '127.0.0.1'\nport = 3000\n");
    for chain in 0..CHAINS {
        write!(
            config,
            "[[chains]]\nid = 'chain-{chain:02}'\nrpc_addr = 'http://127.0.0.1:26657'\n\
             grpc_addr = 'http://127.0.0.1:9090'\nwebsocket_addr = 'ws://127.0.0.1:26657/websocket'\n\
             rpc_timeout = '10s'\naccount_prefix = 'cosmos'\nkey_name = 'testkey'\n\
             store_prefix = 'ibc'\nmax_gas = 3000000\ngas_multiplier = 1.1\n\
             trusting_period = '14days'\ntrust_threshold = {{ numerator = '1', denominator = '3' }}\n\
             gas_price = {{ price = 0.001, denom = 'stake' }}\n"
        )
        .unwrap();
    }
    HermesConfig::parse(&config).unwrap().chains
}

pub(crate) fn state(workers: u64) -> RelayerState {
    let worker = |id: u64| Worker {
        id,
        object: Object::Packet {
            dst_chain_id: format!("chain-{:02}", id % CHAINS).into(),
            src_chain_id: format!("chain-{:02}", id / CHAINS % CHAINS).into(),
            src_channel_id: format!("channel-{id}").into(),
            src_port_id: "transfer".into(),
        },
        data: None,
    };
    RelayerState {
        chains: (0..CHAINS).map(|chain| format!("chain-{chain:02}").into()).collect(),
        workers: (0..workers).map(worker).collect(),
    }
}
