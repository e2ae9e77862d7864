//! The relayer states on which modules are tested. They are fictitious, and contain each
//! field both present and absent, and workers of every kind.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_sources::sample;
use relayer_rest_state::{
    AddressType, ChainConfig, ChainKind, ChannelFilter, ChannelMinFees, Component, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, GenesisRestart,
    MinFee, NotReady, Object, OtherObject, PacketFilter, Ratio, RelayerState, Snapshot,
    StatePublisher, Value, Worker, WorkerData,
};

/// The number of channels in the state with many workers.
const MANY: u64 = 700;

/// A relayer's state, and its name in messages.
pub(super) struct State {
    pub(super) name: &'static str,
    pub(super) snapshot: Arc<Snapshot>,
}

/// Returns the fixed states.
pub(super) fn made_up() -> Vec<State> {
    let state = |name, fill: fn(&StatePublisher)| {
        let publisher = StatePublisher::new();
        fill(&publisher);
        State { name, snapshot: publisher.reader().snapshot() }
    };
    vec![
        state("sample", sample),
        state("nothing known yet", |_| {}),
        state("no chains", |publisher| {
            publisher.set_chains(Vec::new()).expect("none are alike");
            publisher.set_state(RelayerState::default());
        }),
        state("workers not known", |publisher| {
            sample(publisher);
            publisher.set_not_ready(NotReady::default());
        }),
        state("every field", every_field),
        state("many workers", many_workers),
    ]
}

fn every_field(publisher: &StatePublisher) {
    let bare = ChainConfig::new("bare-1", ChainKind::CosmosSdk);
    let penumbra = ChainConfig {
        rpc_addr: Some("https://rpc.penumbra.example/".into()),
        event_source: Some(EventSource::Pull { interval: Duration::from_secs(1), max_retries: 4 }),
        key_name: Some("penumbra-key".into()),
        packet_filter: Some(PacketFilter { policy: FilterPolicy::AllowAll, min_fees: vec![] }),
        genesis_restart: Some(GenesisRestart { height: 3, archive_addr: None }),
        ..ChainConfig::new("penumbra-1", ChainKind::Penumbra)
    };
    let odd = ChainConfig {
        trusting_period: Some(Duration::new(1_209_661, 1_000)),
        gas_price: Some(GasPrice { price: 0.000_001, denom: "peg\"\\\u{fc}".into() }),
        ..full("odd \u{fc}/%\"chain", FilterPolicy::Deny(channels()))
    };
    let namada = ChainConfig {
        kind: ChainKind::Namada,
        address_type: Some(AddressType::Cosmos),
        event_source: Some(EventSource::Pull {
            interval: Duration::from_millis(1500),
            max_retries: 0,
        }),
        ..full("namada-1", FilterPolicy::AllowAll)
    };
    let unheard = ChainConfig {
        extension_options: vec![ExtensionOption { name: "fee".into(), value: "1".into() }],
        ..ChainConfig::new("unheard-1", ChainKind::Other("Unheard".into()))
    };
    let components = [("ibc-relayer", "9.8.7"), ("telemetry", "0.1+b\"")];
    publisher.set_components(
        components
            .map(|(name, version)| Component { name: name.into(), version: version.into() })
            .into(),
    );
    let chains =
        vec![full("full-1", FilterPolicy::Allow(channels())), bare, penumbra, namada, unheard, odd];
    publisher.set_chains(chains).expect("their identifiers differ");
    publisher.set_state(RelayerState {
        chains: vec!["full-1".into(), "bare-1".into()],
        workers: workers(),
    });
}

fn channels() -> Vec<ChannelFilter> {
    [("transfer", "channel-0"), ("ica*", "*")]
        .map(|(port, channel)| ChannelFilter { port: port.into(), channel: channel.into() })
        .into()
}

/// Returns a chain that has all fields.
fn full(id: &str, policy: FilterPolicy) -> ChainConfig {
    let min_fees = vec![ChannelMinFees {
        channel: "channel-*".into(),
        recv: vec![
            MinFee { amount: 10, denom: Some("uatom".into()) },
            MinFee { amount: u64::MAX, denom: None },
        ],
    }];
    ChainConfig {
        rpc_addr: Some("http://127.0.0.1:26657/".into()),
        grpc_addr: Some("http://127.0.0.1:9090/".into()),
        event_source: Some(EventSource::Push {
            url: "ws://127.0.0.1:26657/websocket".into(),
            batch_delay: Duration::from_millis(500),
        }),
        rpc_timeout: Some(Duration::from_secs(10)),
        trusted_node: Some(true),
        account_prefix: Some("cosmos".into()),
        key_name: Some("testkey".into()),
        key_store_type: Some("Test".into()),
        key_store_folder: Some("/keys".into()),
        store_prefix: Some("ibc".into()),
        default_gas: Some(100_000),
        max_gas: Some(1_000_000_000_000_000),
        genesis_restart: Some(GenesisRestart {
            height: 7,
            archive_addr: Some("http://archive.example/".into()),
        }),
        gas_multiplier: Some(2.0),
        fee_granter: Some("cosmos1granter".into()),
        max_msg_num: Some(30),
        max_tx_size: Some(2_097_152),
        max_grpc_decoding_size: Some(33_554_432),
        query_packets_chunk_size: Some(50),
        clock_drift: Some(Duration::from_secs(5)),
        max_block_time: Some(Duration::from_secs(30)),
        trusting_period: Some(Duration::from_hours(14 * 24)),
        client_refresh_rate: Ratio::new(1, 3),
        ccv_consumer_chain: Some(true),
        memo_prefix: Some("memo".into()),
        memo_overwrite: Some("other".into()),
        sequential_batch_tx: Some(true),
        trust_threshold: Ratio::new(2, 3),
        gas_price: Some(GasPrice { price: 0.025, denom: "stake".into() }),
        packet_filter: Some(PacketFilter { policy, min_fees }),
        dynamic_gas_price: Some(DynamicGasPrice { enabled: true, multiplier: 1.1, max: 0.6 }),
        address_type: Some(AddressType::Ethermint { pk_type: "/ethsecp256k1.PubKey".into() }),
        compat_mode: Some("0.37".into()),
        clear_interval: Some(100),
        extension_options: vec![ExtensionOption {
            name: "ethermint_dynamic_fee".into(),
            value: "1".into(),
        }],
        excluded_sequences: vec![ExcludedSequences {
            channel: "channel-1".into(),
            ranges: vec![1..=1, 3..=5],
        }],
        allow_ccq: Some(false),
        ..ChainConfig::new(id, ChainKind::CosmosSdk)
    }
}

/// Returns a worker of each kind, and a second client that sorts before the first.
fn workers() -> Vec<Worker> {
    let other = |kind: &str| OtherObject {
        kind: kind.into(),
        fields: vec![
            ("text".into(), Value::Text("a\"\u{fc}".into())),
            ("natural".into(), Value::Natural(u64::MAX)),
            ("integer".into(), Value::Integer(-1)),
            ("number".into(), Value::Number(0.5)),
            ("boolean".into(), Value::Boolean(true)),
            ("null".into(), Value::Null),
        ],
    };
    let client = |client: &str| Object::Client {
        dst_chain_id: "bare-1".into(),
        dst_client_id: client.into(),
        src_chain_id: "full-1".into(),
    };
    let objects = [
        client("07-tendermint-2"),
        client("07-tendermint-10"),
        Object::Connection {
            dst_chain_id: "bare-1".into(),
            src_chain_id: "full-1".into(),
            src_connection_id: "connection-0".into(),
        },
        Object::Channel {
            dst_chain_id: "bare-1".into(),
            src_chain_id: "full-1".into(),
            src_channel_id: "channel-0".into(),
            src_port_id: "transfer".into(),
        },
        packet(0),
        Object::Wallet { chain_id: "full-1".into() },
        Object::CrossChainQuery {
            src_chain_id: "full-1".into(),
            dst_chain_id: "bare-1".into(),
            query_id: "query-1".into(),
            connection_id: "connection-0".into(),
        },
        Object::Other(other("Unheard")),
    ];
    let data = |object: &Object| match object {
        Object::Client { .. } => Some(WorkerData::Client { misbehaviour: true, refresh: false }),
        Object::Other(_) => Some(WorkerData::Other(other("Unheard"))),
        _ => None,
    };
    (1..).zip(objects).map(|(id, object)| Worker { id, data: data(&object), object }).collect()
}

fn packet(number: u64) -> Object {
    Object::Packet {
        dst_chain_id: "bare-1".into(),
        src_chain_id: "full-1".into(),
        src_channel_id: format!("channel-{number}").into(),
        src_port_id: "transfer".into(),
    }
}

fn many_workers(publisher: &StatePublisher) {
    sample(publisher);
    publisher.set_state(RelayerState {
        chains: vec!["ibc-0".into(), "ibc-1".into()],
        workers: (0..MANY)
            .map(|number| Worker { id: number, object: packet(number), data: None })
            .collect(),
    });
}
