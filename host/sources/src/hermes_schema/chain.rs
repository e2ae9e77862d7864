//! A chain's schema: the keys that are read, before conversion.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use serde::Deserialize;

use super::value::{DurationText, Finite, HeightText, RatioText, SequencesText, UrlText};

#[derive(Deserialize)]
#[serde(expecting = "a chain: a section [[chains]]")]
#[expect(clippy::struct_field_names, reason = "the names are the relayer's")]
pub(crate) struct Chain<Id> {
    pub(crate) id: Id,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) rpc_addr: Option<UrlText>,
    pub(super) grpc_addr: Option<UrlText>,
    /// In versions up to 1.5.
    pub(super) websocket_addr: Option<UrlText>,
    /// In versions from 1.6.
    pub(super) event_source: Option<EventSource>,
    pub(super) rpc_timeout: Option<DurationText>,
    pub(super) trusted_node: Option<bool>,
    pub(super) account_prefix: Option<String>,
    pub(super) key_name: Option<String>,
    /// The name of a Penumbra chain's key.
    pub(super) stub_key_name: Option<String>,
    pub(super) key_store_type: Option<String>,
    pub(super) key_store_folder: Option<String>,
    pub(super) store_prefix: Option<String>,
    pub(super) default_gas: Option<u64>,
    pub(super) max_gas: Option<u64>,
    pub(super) genesis_restart: Option<GenesisRestart>,
    /// In versions up to 0.15: the gas multiplier minus 1.
    pub(super) gas_adjustment: Option<Finite>,
    pub(super) gas_multiplier: Option<Finite>,
    pub(super) fee_granter: Option<String>,
    pub(super) max_msg_num: Option<u64>,
    pub(super) max_tx_size: Option<u64>,
    pub(super) max_grpc_decoding_size: Option<ByteSize>,
    pub(super) query_packets_chunk_size: Option<u64>,
    pub(super) clock_drift: Option<DurationText>,
    pub(super) max_block_time: Option<DurationText>,
    pub(super) trusting_period: Option<DurationText>,
    pub(super) client_refresh_rate: Option<RatioText>,
    pub(super) ccv_consumer_chain: Option<bool>,
    pub(super) memo_prefix: Option<String>,
    pub(super) memo_overwrite: Option<String>,
    pub(super) sequential_batch_tx: Option<bool>,
    pub(super) trust_threshold: Option<RatioText>,
    pub(super) gas_price: Option<GasPrice>,
    pub(super) packet_filter: Option<PacketFilter>,
    pub(super) dynamic_gas_price: Option<DynamicGasPrice>,
    pub(super) address_type: Option<AddressType>,
    #[serde(default)]
    pub(super) extension_options: Vec<ExtensionOption>,
    pub(super) compat_mode: Option<String>,
    pub(super) clear_interval: Option<u64>,
    #[serde(default)]
    pub(super) excluded_sequences: BTreeMap<String, Vec<SequencesText>>,
    pub(super) allow_ccq: Option<bool>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { mode = 'push', url = 'ws://127.0.0.1:26657/websocket' }")]
pub(super) struct EventSource {
    pub(super) mode: EventMode,
    pub(super) url: Option<UrlText>,
    pub(super) batch_delay: Option<DurationText>,
    pub(super) interval: Option<DurationText>,
    pub(super) max_retries: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EventMode {
    Push,
    Pull,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { restart_height = 1 }")]
pub(super) struct GenesisRestart {
    pub(super) restart_height: HeightText,
    pub(super) archive_addr: Option<UrlText>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { price = 0.025, denom = 'stake' }")]
pub(super) struct GasPrice {
    pub(super) price: Finite,
    pub(super) denom: String,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { enabled = true, multiplier = 1.1, max = 0.6 }")]
pub(super) struct DynamicGasPrice {
    #[serde(default)]
    pub(super) enabled: bool,
    pub(super) multiplier: Option<Finite>,
    pub(super) max: Option<Finite>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { policy = 'allow', list = [['transfer', 'channel-0']] }")]
pub(super) struct PacketFilter {
    pub(super) policy: Option<Policy>,
    #[serde(default)]
    pub(super) list: Vec<(String, String)>,
    #[serde(default)]
    pub(super) min_fees: BTreeMap<String, MinFees>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    AllowAll,
    Allow,
    Deny,
}

#[derive(Deserialize)]
pub(super) struct MinFees {
    #[serde(default)]
    pub(super) recv: Vec<MinFee>,
}

#[derive(Deserialize)]
pub(super) struct MinFee {
    pub(super) amount: u64,
    pub(super) denom: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table such as { derivation = 'cosmos' }")]
pub(super) struct AddressType {
    pub(super) derivation: Derivation,
    pub(super) proto_type: Option<ProtoType>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Derivation {
    Cosmos,
    Ethermint,
}

#[derive(Deserialize)]
pub(super) struct ProtoType {
    pub(super) pk_type: String,
}

#[derive(Deserialize)]
pub(super) struct ExtensionOption {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) value: toml::Value,
}
