//! A chain's configuration in the format of version 1.13 of the relayer: the fields of
//! its kind in their order, null if a chain does not have the field. A Cosmos SDK chain
//! has 39 fields, and its extension options if there are any.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::chain::{FilterJson, GasPriceJson};
use super::duration::DurationJson;
use relayer_rest_sdk::contract::{
    AddressType, ChainConfig, ChainKind, ChannelMinFees, DynamicGasPrice, EventSource,
    ExcludedSequences, GenesisRestart, MinFee, PacketFilter, Ratio, SequenceRange,
};

/// A chain of any kind.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Chain")]
#[serde(untagged)]
pub(crate) enum Chain113Json<'a> {
    Cosmos(Box<CosmosJson<'a>>),
    Penumbra(Box<PenumbraJson<'a>>),
    Other(Box<OtherJson<'a>>),
}

/// A chain of the Cosmos SDK, or of a kind with the same fields.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CosmosChain", deny_unknown_fields)]
pub(crate) struct CosmosJson<'a> {
    r#type: &'a str,
    id: &'a str,
    rpc_addr: Option<&'a str>,
    grpc_addr: Option<&'a str>,
    event_source: Option<EventSourceJson<'a>>,
    rpc_timeout: Option<DurationJson>,
    trusted_node: Option<bool>,
    account_prefix: Option<&'a str>,
    key_name: Option<&'a str>,
    key_store_type: Option<&'a str>,
    key_store_folder: Option<&'a str>,
    store_prefix: Option<&'a str>,
    default_gas: Option<u64>,
    max_gas: Option<u64>,
    genesis_restart: Option<GenesisRestartJson<'a>>,
    gas_adjustment: Option<f64>,
    gas_multiplier: Option<f64>,
    fee_granter: Option<&'a str>,
    max_msg_num: Option<u64>,
    max_tx_size: Option<u64>,
    max_grpc_decoding_size: Option<u64>,
    query_packets_chunk_size: Option<u64>,
    clock_drift: Option<DurationJson>,
    max_block_time: Option<DurationJson>,
    trusting_period: Option<DurationJson>,
    client_refresh_rate: Option<String>,
    ccv_consumer_chain: Option<bool>,
    memo_prefix: Option<&'a str>,
    memo_overwrite: Option<&'a str>,
    sequential_batch_tx: Option<bool>,
    trust_threshold: Option<RatioJson>,
    gas_price: Option<GasPriceJson<'a>>,
    packet_filter: Option<PacketFilterJson<'a>>,
    dynamic_gas_price: Option<DynamicGasPriceJson>,
    address_type: Option<AddressTypeJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extension_options: Vec<ExtensionOptionJson<'a>>,
    compat_mode: Option<&'a str>,
    clear_interval: Option<u64>,
    #[serde(serialize_with = "excluded")]
    #[schemars(with = "BTreeMap<String, Vec<SequencesJson>>")]
    excluded_sequences: &'a [ExcludedSequences],
    allow_ccq: Option<bool>,
}

/// A Penumbra chain, without the folder of its view service and its keys.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PenumbraChain", deny_unknown_fields)]
pub(crate) struct PenumbraJson<'a> {
    #[schemars(extend("const" = "Penumbra"))]
    r#type: &'static str,
    stub_key_name: Option<&'a str>,
    id: &'a str,
    grpc_addr: Option<&'a str>,
    rpc_addr: Option<&'a str>,
    event_source: Option<EventSourceJson<'a>>,
    rpc_timeout: Option<DurationJson>,
    packet_filter: Option<PacketFilterJson<'a>>,
    clear_interval: Option<u64>,
    query_packets_chunk_size: Option<u64>,
    max_block_time: Option<DurationJson>,
    genesis_restart: Option<GenesisRestartJson<'a>>,
    clock_drift: Option<DurationJson>,
    client_refresh_rate: Option<String>,
    trust_threshold: Option<RatioJson>,
    compat_mode: Option<&'a str>,
}

/// A chain of any other kind, reduced to common fields.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OtherChain", deny_unknown_fields)]
pub(crate) struct OtherJson<'a> {
    r#type: &'a str,
    id: &'a str,
    rpc_addr: Option<&'a str>,
    grpc_addr: Option<&'a str>,
    event_source: Option<EventSourceJson<'a>>,
    rpc_timeout: Option<DurationJson>,
    trusted_node: Option<bool>,
    stub_key_name: Option<&'a str>,
    clock_drift: Option<DurationJson>,
    max_block_time: Option<DurationJson>,
    trusting_period: Option<DurationJson>,
    client_refresh_rate: Option<String>,
    trust_threshold: Option<RatioJson>,
    clear_interval: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventSource")]
#[serde(tag = "mode", rename_all = "lowercase")]
enum EventSourceJson<'a> {
    Push { url: &'a str, batch_delay: DurationJson },
    Pull { interval: DurationJson, max_retries: u32 },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GenesisRestart")]
struct GenesisRestartJson<'a> {
    /// The relayer writes it as a text.
    restart_height: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_addr: Option<&'a str>,
}

/// A fraction of two numbers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ratio")]
struct RatioJson {
    numerator: u64,
    denominator: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PacketFilter")]
struct PacketFilterJson<'a> {
    #[serde(flatten)]
    policy: FilterJson<'a>,
    #[serde(serialize_with = "min_fees")]
    #[schemars(with = "BTreeMap<String, MinFeesJson<'a>>")]
    min_fees: &'a [ChannelMinFees],
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MinFees")]
struct MinFeesJson<'a> {
    recv: Vec<MinFeeJson<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MinFee")]
struct MinFeeJson<'a> {
    amount: u64,
    denom: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DynamicGasPrice")]
struct DynamicGasPriceJson {
    enabled: bool,
    multiplier: f64,
    max: f64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AddressType")]
#[serde(tag = "derivation", rename_all = "lowercase")]
enum AddressTypeJson<'a> {
    Cosmos,
    Ethermint { proto_type: ProtoTypeJson<'a> },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProtoType")]
struct ProtoTypeJson<'a> {
    pk_type: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtensionOption")]
struct ExtensionOptionJson<'a> {
    r#type: &'a str,
    value: &'a str,
}

/// A sequence number, or a range as `first-last`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sequences")]
#[serde(untagged)]
enum SequencesJson {
    One(u64),
    Range(String),
}

impl<'a> From<&'a ChainConfig> for Chain113Json<'a> {
    fn from(chain: &'a ChainConfig) -> Self {
        match &chain.kind {
            ChainKind::CosmosSdk => Self::Cosmos(Box::new(cosmos("CosmosSdk", chain))),
            ChainKind::Namada => Self::Cosmos(Box::new(cosmos("Namada", chain))),
            ChainKind::Penumbra => Self::Penumbra(Box::new(penumbra(chain))),
            ChainKind::Other(name) => Self::Other(Box::new(other(name, chain))),
        }
    }
}

fn cosmos<'a>(kind: &'a str, chain: &'a ChainConfig) -> CosmosJson<'a> {
    CosmosJson {
        r#type: kind,
        id: &chain.id,
        rpc_addr: chain.rpc_addr.as_deref(),
        grpc_addr: chain.grpc_addr.as_deref(),
        event_source: chain.event_source.as_ref().map(EventSourceJson::from),
        rpc_timeout: chain.rpc_timeout.map(DurationJson),
        trusted_node: chain.trusted_node,
        account_prefix: chain.account_prefix.as_deref(),
        key_name: chain.key_name.as_deref(),
        key_store_type: chain.key_store_type.as_deref(),
        key_store_folder: chain.key_store_folder.as_deref(),
        store_prefix: chain.store_prefix.as_deref(),
        default_gas: chain.default_gas,
        max_gas: chain.max_gas,
        genesis_restart: chain.genesis_restart.as_ref().map(GenesisRestartJson::from),
        // The multiplier includes it.
        gas_adjustment: None,
        gas_multiplier: chain.gas_multiplier,
        fee_granter: chain.fee_granter.as_deref(),
        max_msg_num: chain.max_msg_num,
        max_tx_size: chain.max_tx_size,
        max_grpc_decoding_size: chain.max_grpc_decoding_size,
        query_packets_chunk_size: chain.query_packets_chunk_size,
        clock_drift: chain.clock_drift.map(DurationJson),
        max_block_time: chain.max_block_time.map(DurationJson),
        trusting_period: chain.trusting_period.map(DurationJson),
        client_refresh_rate: chain.client_refresh_rate.map(rate),
        ccv_consumer_chain: chain.ccv_consumer_chain,
        memo_prefix: chain.memo_prefix.as_deref(),
        memo_overwrite: chain.memo_overwrite.as_deref(),
        sequential_batch_tx: chain.sequential_batch_tx,
        trust_threshold: chain.trust_threshold.map(RatioJson::from),
        gas_price: chain.gas_price.as_ref().map(GasPriceJson::from),
        packet_filter: chain.packet_filter.as_ref().map(PacketFilterJson::from),
        dynamic_gas_price: chain.dynamic_gas_price.map(DynamicGasPriceJson::from),
        address_type: chain.address_type.as_ref().map(AddressTypeJson::from),
        extension_options: chain
            .extension_options
            .iter()
            .map(|option| ExtensionOptionJson { r#type: &option.name, value: &option.value })
            .collect(),
        compat_mode: chain.compat_mode.as_deref(),
        clear_interval: chain.clear_interval,
        excluded_sequences: &chain.excluded_sequences,
        allow_ccq: chain.allow_ccq,
    }
}

fn penumbra(chain: &ChainConfig) -> PenumbraJson<'_> {
    PenumbraJson {
        r#type: "Penumbra",
        stub_key_name: chain.key_name.as_deref(),
        id: &chain.id,
        grpc_addr: chain.grpc_addr.as_deref(),
        rpc_addr: chain.rpc_addr.as_deref(),
        event_source: chain.event_source.as_ref().map(EventSourceJson::from),
        rpc_timeout: chain.rpc_timeout.map(DurationJson),
        packet_filter: chain.packet_filter.as_ref().map(PacketFilterJson::from),
        clear_interval: chain.clear_interval,
        query_packets_chunk_size: chain.query_packets_chunk_size,
        max_block_time: chain.max_block_time.map(DurationJson),
        genesis_restart: chain.genesis_restart.as_ref().map(GenesisRestartJson::from),
        clock_drift: chain.clock_drift.map(DurationJson),
        client_refresh_rate: chain.client_refresh_rate.map(rate),
        trust_threshold: chain.trust_threshold.map(RatioJson::from),
        compat_mode: chain.compat_mode.as_deref(),
    }
}

fn other<'a>(kind: &'a str, chain: &'a ChainConfig) -> OtherJson<'a> {
    OtherJson {
        r#type: kind,
        id: &chain.id,
        rpc_addr: chain.rpc_addr.as_deref(),
        grpc_addr: chain.grpc_addr.as_deref(),
        event_source: chain.event_source.as_ref().map(EventSourceJson::from),
        rpc_timeout: chain.rpc_timeout.map(DurationJson),
        trusted_node: chain.trusted_node,
        stub_key_name: chain.key_name.as_deref(),
        clock_drift: chain.clock_drift.map(DurationJson),
        max_block_time: chain.max_block_time.map(DurationJson),
        trusting_period: chain.trusting_period.map(DurationJson),
        client_refresh_rate: chain.client_refresh_rate.map(rate),
        trust_threshold: chain.trust_threshold.map(RatioJson::from),
        clear_interval: chain.clear_interval,
    }
}

fn rate(ratio: Ratio) -> String {
    format!("{}/{}", ratio.numerator, ratio.denominator)
}

impl<'a> From<&'a EventSource> for EventSourceJson<'a> {
    fn from(source: &'a EventSource) -> Self {
        match source {
            EventSource::Push(push) => {
                Self::Push { url: &push.url, batch_delay: DurationJson(push.batch_delay) }
            }
            EventSource::Pull(pull) => {
                Self::Pull { interval: DurationJson(pull.interval), max_retries: pull.max_retries }
            }
        }
    }
}

impl<'a> From<&'a GenesisRestart> for GenesisRestartJson<'a> {
    fn from(restart: &'a GenesisRestart) -> Self {
        let restart_height = restart.height.to_string();
        Self { restart_height, archive_addr: restart.archive_addr.as_deref() }
    }
}

impl From<Ratio> for RatioJson {
    fn from(ratio: Ratio) -> Self {
        Self { numerator: ratio.numerator, denominator: ratio.denominator }
    }
}

impl<'a> From<&'a PacketFilter> for PacketFilterJson<'a> {
    fn from(filter: &'a PacketFilter) -> Self {
        Self { policy: FilterJson::from(&filter.policy), min_fees: &filter.min_fees }
    }
}

impl From<DynamicGasPrice> for DynamicGasPriceJson {
    fn from(gas: DynamicGasPrice) -> Self {
        Self { enabled: gas.enabled, multiplier: gas.multiplier, max: gas.max }
    }
}

impl<'a> From<&'a AddressType> for AddressTypeJson<'a> {
    fn from(address: &'a AddressType) -> Self {
        match address {
            AddressType::Cosmos => Self::Cosmos,
            AddressType::Ethermint(pk_type) => {
                Self::Ethermint { proto_type: ProtoTypeJson { pk_type } }
            }
        }
    }
}

impl<'a> From<&'a MinFee> for MinFeeJson<'a> {
    fn from(fee: &'a MinFee) -> Self {
        Self { amount: fee.amount, denom: fee.denom.as_deref() }
    }
}

impl From<&SequenceRange> for SequencesJson {
    fn from(range: &SequenceRange) -> Self {
        if range.first == range.last {
            Self::One(range.first)
        } else {
            Self::Range(format!("{}-{}", range.first, range.last))
        }
    }
}

/// Writes the minimum fees as a map by channel.
fn min_fees<S: Serializer>(fees: &&[ChannelMinFees], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fees.len()))?;
    for fees in *fees {
        let recv = fees.recv.iter().map(MinFeeJson::from).collect();
        map.serialize_entry(&fees.channel, &MinFeesJson { recv })?;
    }
    map.end()
}

/// Writes the excluded sequences as a map by channel.
fn excluded<S: Serializer>(
    excluded: &&[ExcludedSequences],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(excluded.len()))?;
    for excluded in *excluded {
        let ranges: Vec<_> = excluded.ranges.iter().map(SequencesJson::from).collect();
        map.serialize_entry(&excluded.channel, &ranges)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::Chain113Json;
    use relayer_rest_sdk::contract::{
        AddressType, ChainConfig, ChainKind, DynamicGasPrice, EventSource, ExcludedSequences,
        FilterPolicy, GasPrice, GenesisRestart, PacketFilter, PushSource, Ratio, SequenceRange,
    };
    use relayer_rest_sdk::testing::chain as bare_chain;

    fn json(chain: &ChainConfig) -> String {
        serde_json::to_string(&Chain113Json::from(chain)).unwrap()
    }

    /// Compares with the response of a relayer of version 1.13 byte by byte.
    #[test]
    fn all_fields_are_written_in_their_order() {
        let chain = ChainConfig {
            rpc_addr: Some("http://127.0.0.1:26657/".into()),
            grpc_addr: Some("http://127.0.0.1:9090/".into()),
            event_source: Some(EventSource::Push(PushSource {
                url: "ws://127.0.0.1:26657/websocket".into(),
                batch_delay: 500_000_000,
            })),
            rpc_timeout: Some(10_000_000_000),
            trusted_node: Some(false),
            account_prefix: Some("cosmos".into()),
            key_name: Some("testkey".into()),
            key_store_type: Some("Test".into()),
            store_prefix: Some("ibc".into()),
            default_gas: Some(100_000),
            max_gas: Some(4_000_000),
            gas_multiplier: Some(1.1),
            max_msg_num: Some(30),
            max_tx_size: Some(2_097_152),
            max_grpc_decoding_size: Some(33_554_432),
            query_packets_chunk_size: Some(50),
            clock_drift: Some(5_000_000_000),
            max_block_time: Some(30_000_000_000),
            trusting_period: Some(1_209_600_000_000_000),
            client_refresh_rate: Some(Ratio { numerator: 1, denominator: 3 }),
            ccv_consumer_chain: Some(false),
            memo_prefix: Some(String::new()),
            sequential_batch_tx: Some(false),
            trust_threshold: Some(Ratio { numerator: 2, denominator: 3 }),
            gas_price: Some(GasPrice { price: 0.025, denom: "stake".into() }),
            packet_filter: Some(PacketFilter {
                policy: FilterPolicy::AllowAll,
                min_fees: Vec::new(),
            }),
            dynamic_gas_price: Some(DynamicGasPrice { enabled: false, multiplier: 1.1, max: 0.6 }),
            address_type: Some(AddressType::Cosmos),
            allow_ccq: Some(true),
            ..bare_chain("ibc-0")
        };
        assert_eq!(
            json(&chain),
            r#"{"type":"CosmosSdk","id":"ibc-0","rpc_addr":"http://127.0.0.1:26657/","grpc_addr":"http://127.0.0.1:9090/","event_source":{"mode":"push","url":"ws://127.0.0.1:26657/websocket","batch_delay":"500ms"},"rpc_timeout":"10s","trusted_node":false,"account_prefix":"cosmos","key_name":"testkey","key_store_type":"Test","key_store_folder":null,"store_prefix":"ibc","default_gas":100000,"max_gas":4000000,"genesis_restart":null,"gas_adjustment":null,"gas_multiplier":1.1,"fee_granter":null,"max_msg_num":30,"max_tx_size":2097152,"max_grpc_decoding_size":33554432,"query_packets_chunk_size":50,"clock_drift":"5s","max_block_time":"30s","trusting_period":"14days","client_refresh_rate":"1/3","ccv_consumer_chain":false,"memo_prefix":"","memo_overwrite":null,"sequential_batch_tx":false,"trust_threshold":{"numerator":2,"denominator":3},"gas_price":{"price":0.025,"denom":"stake"},"packet_filter":{"policy":"allowall","min_fees":{}},"dynamic_gas_price":{"enabled":false,"multiplier":1.1,"max":0.6},"address_type":{"derivation":"cosmos"},"compat_mode":null,"clear_interval":null,"excluded_sequences":{},"allow_ccq":true}"#
        );
    }

    #[test]
    fn sequences_are_numbers_and_ranges() {
        let ranges = vec![SequenceRange { first: 1, last: 1 }, SequenceRange { first: 3, last: 5 }];
        let excluded = ExcludedSequences { channel: "channel-1".into(), ranges };
        let json = json(&ChainConfig { excluded_sequences: vec![excluded], ..bare_chain("a") });
        assert!(json.contains(r#""excluded_sequences":{"channel-1":[1,"3-5"]}"#), "{json}");
    }

    #[test]
    fn penumbra_chains_have_their_fields_in_their_order() {
        let allow_all = PacketFilter { policy: FilterPolicy::AllowAll, min_fees: vec![] };
        let chain = ChainConfig {
            kind: ChainKind::Penumbra,
            key_name: Some("stub".into()),
            packet_filter: Some(allow_all),
            clear_interval: Some(100),
            query_packets_chunk_size: Some(50),
            max_block_time: Some(30_000_000_000),
            genesis_restart: Some(GenesisRestart {
                height: 7,
                archive_addr: Some("http://a/".into()),
            }),
            compat_mode: Some("0.37".into()),
            ..bare_chain("p")
        };
        assert_eq!(
            json(&chain),
            r#"{"type":"Penumbra","stub_key_name":"stub","id":"p","grpc_addr":null,"rpc_addr":null,"event_source":null,"rpc_timeout":null,"packet_filter":{"policy":"allowall","min_fees":{}},"clear_interval":100,"query_packets_chunk_size":50,"max_block_time":"30s","genesis_restart":{"restart_height":"7","archive_addr":"http://a/"},"clock_drift":null,"client_refresh_rate":null,"trust_threshold":null,"compat_mode":"0.37"}"#
        );
    }

    #[test]
    fn chains_of_unknown_kinds_have_the_common_fields() {
        let kind = ChainKind::Other("New".into());
        let json = json(&ChainConfig { kind, key_name: Some("key".into()), ..bare_chain("p") });
        assert!(json.starts_with(r#"{"type":"New","id":"p","rpc_addr":null,"#), "{json}");
        assert!(json.contains(r#""stub_key_name":"key""#) && !json.contains("account_prefix"));
    }
}
