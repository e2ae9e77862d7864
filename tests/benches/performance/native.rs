//! The baseline: a relayer with a built-in API, whose state is in structs that
//! `serde_json` writes directly.

use serde::{Deserialize, Serialize};

/// A response body, in the shape of the JSON.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum NativeResponse {
    Version(Vec<Component>),
    Chains(Envelope<Vec<String>>),
    Chain(Box<Envelope<Chain>>),
    State(Envelope<State>),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Component {
    name: String,
    version: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Envelope<T> {
    status: String,
    result: T,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Chain {
    id: String,
    rpc_addr: Option<String>,
    websocket_addr: Option<String>,
    grpc_addr: Option<String>,
    rpc_timeout: Option<String>,
    account_prefix: Option<String>,
    key_name: Option<String>,
    store_prefix: Option<String>,
    max_gas: Option<u64>,
    gas_multiplier: Option<f64>,
    max_msg_num: Option<u64>,
    max_tx_size: Option<u64>,
    clock_drift: Option<String>,
    trusting_period: Option<String>,
    trust_threshold: Option<TrustThreshold>,
    gas_price: Option<GasPrice>,
    packet_filter: Option<PacketFilter>,
}

#[derive(Serialize, Deserialize)]
struct TrustThreshold {
    numerator: String,
    denominator: String,
}

#[derive(Serialize, Deserialize)]
struct GasPrice {
    price: f64,
    denom: String,
}

#[derive(Serialize, Deserialize)]
struct PacketFilter {
    policy: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    chains: Vec<String>,
    workers: Workers,
}

/// The only kind of workers that the generated relayers have.
#[derive(Serialize, Deserialize)]
struct Workers {
    #[serde(rename = "Packet")]
    packet: Vec<Worker>,
}

#[derive(Serialize, Deserialize)]
struct Worker {
    id: u64,
    object: Object,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type")]
enum Object {
    Packet {
        dst_chain_id: String,
        src_chain_id: String,
        src_channel_id: String,
        src_port_id: String,
    },
}

impl NativeResponse {
    /// Parses a module's response for a path into the structs that a relayer would have.
    pub(crate) fn new(path: &str, json: &[u8]) -> Self {
        let response = match path {
            "/version" => Self::Version(serde_json::from_slice(json).unwrap()),
            "/chains" => Self::Chains(serde_json::from_slice(json).unwrap()),
            "/state" => Self::State(serde_json::from_slice(json).unwrap()),
            _ if path.starts_with("/chain/") => Self::Chain(serde_json::from_slice(json).unwrap()),
            _ => panic!("{path} needs a type of its own"),
        };
        assert!(response.render() == json, "{path} is rendered in another way");
        response
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap()
    }
}
