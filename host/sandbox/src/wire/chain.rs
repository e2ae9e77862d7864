//! A chain's configuration.

use std::ops::RangeInclusive;
use std::time::Duration;

use relayer_rest_state as state;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lower};

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Ratio {
    numerator: u64,
    denominator: u64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum ChainKind {
    #[component(name = "cosmos-sdk")]
    CosmosSdk,
    #[component(name = "namada")]
    Namada,
    #[component(name = "penumbra")]
    Penumbra,
    #[component(name = "other")]
    Other(String),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum EventSource {
    #[component(name = "push")]
    Push(PushSource),
    #[component(name = "pull")]
    Pull(PullSource),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct PushSource {
    url: String,
    #[component(name = "batch-delay")]
    batch_delay: u64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct PullSource {
    interval: u64,
    #[component(name = "max-retries")]
    max_retries: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct GasPrice {
    price: f64,
    denom: String,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct GenesisRestart {
    height: u64,
    #[component(name = "archive-addr")]
    archive_addr: Option<String>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct DynamicGasPrice {
    enabled: bool,
    multiplier: f64,
    max: f64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct PacketFilter {
    policy: FilterPolicy,
    #[component(name = "min-fees")]
    min_fees: Vec<ChannelMinFees>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum FilterPolicy {
    #[component(name = "allow-all")]
    AllowAll,
    #[component(name = "allow")]
    Allow(Vec<ChannelFilter>),
    #[component(name = "deny")]
    Deny(Vec<ChannelFilter>),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ChannelFilter {
    port: String,
    channel: String,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ChannelMinFees {
    channel: String,
    recv: Vec<MinFee>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct MinFee {
    amount: u64,
    denom: Option<String>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum AddressType {
    #[component(name = "cosmos")]
    Cosmos,
    #[component(name = "ethermint")]
    Ethermint(String),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ExtensionOption {
    name: String,
    value: String,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ExcludedSequences {
    channel: String,
    ranges: Vec<SequenceRange>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct SequenceRange {
    first: u64,
    last: u64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ChainConfig {
    id: String,
    kind: ChainKind,
    #[component(name = "rpc-addr")]
    rpc_addr: Option<String>,
    #[component(name = "grpc-addr")]
    grpc_addr: Option<String>,
    #[component(name = "event-source")]
    event_source: Option<EventSource>,
    #[component(name = "rpc-timeout")]
    rpc_timeout: Option<u64>,
    #[component(name = "trusted-node")]
    trusted_node: Option<bool>,
    #[component(name = "account-prefix")]
    account_prefix: Option<String>,
    #[component(name = "key-name")]
    key_name: Option<String>,
    #[component(name = "key-store-type")]
    key_store_type: Option<String>,
    #[component(name = "key-store-folder")]
    key_store_folder: Option<String>,
    #[component(name = "store-prefix")]
    store_prefix: Option<String>,
    #[component(name = "default-gas")]
    default_gas: Option<u64>,
    #[component(name = "max-gas")]
    max_gas: Option<u64>,
    #[component(name = "genesis-restart")]
    genesis_restart: Option<GenesisRestart>,
    #[component(name = "gas-multiplier")]
    gas_multiplier: Option<f64>,
    #[component(name = "fee-granter")]
    fee_granter: Option<String>,
    #[component(name = "max-msg-num")]
    max_msg_num: Option<u64>,
    #[component(name = "max-tx-size")]
    max_tx_size: Option<u64>,
    #[component(name = "max-grpc-decoding-size")]
    max_grpc_decoding_size: Option<u64>,
    #[component(name = "query-packets-chunk-size")]
    query_packets_chunk_size: Option<u64>,
    #[component(name = "clock-drift")]
    clock_drift: Option<u64>,
    #[component(name = "max-block-time")]
    max_block_time: Option<u64>,
    #[component(name = "trusting-period")]
    trusting_period: Option<u64>,
    #[component(name = "client-refresh-rate")]
    client_refresh_rate: Option<Ratio>,
    #[component(name = "ccv-consumer-chain")]
    ccv_consumer_chain: Option<bool>,
    #[component(name = "memo-prefix")]
    memo_prefix: Option<String>,
    #[component(name = "memo-overwrite")]
    memo_overwrite: Option<String>,
    #[component(name = "sequential-batch-tx")]
    sequential_batch_tx: Option<bool>,
    #[component(name = "trust-threshold")]
    trust_threshold: Option<Ratio>,
    #[component(name = "gas-price")]
    gas_price: Option<GasPrice>,
    #[component(name = "packet-filter")]
    packet_filter: Option<PacketFilter>,
    #[component(name = "dynamic-gas-price")]
    dynamic_gas_price: Option<DynamicGasPrice>,
    #[component(name = "address-type")]
    address_type: Option<AddressType>,
    #[component(name = "extension-options")]
    extension_options: Vec<ExtensionOption>,
    #[component(name = "compat-mode")]
    compat_mode: Option<String>,
    #[component(name = "clear-interval")]
    clear_interval: Option<u64>,
    #[component(name = "excluded-sequences")]
    excluded_sequences: Vec<ExcludedSequences>,
    #[component(name = "allow-ccq")]
    allow_ccq: Option<bool>,
}

impl From<&state::ChainConfig> for ChainConfig {
    fn from(chain: &state::ChainConfig) -> Self {
        Self {
            id: chain.id.to_string(),
            kind: (&chain.kind).into(),
            rpc_addr: chain.rpc_addr.clone(),
            grpc_addr: chain.grpc_addr.clone(),
            event_source: chain.event_source.as_ref().map(EventSource::from),
            rpc_timeout: chain.rpc_timeout.map(nanoseconds),
            trusted_node: chain.trusted_node,
            account_prefix: chain.account_prefix.clone(),
            key_name: chain.key_name.clone(),
            key_store_type: chain.key_store_type.clone(),
            key_store_folder: chain.key_store_folder.clone(),
            store_prefix: chain.store_prefix.clone(),
            default_gas: chain.default_gas,
            max_gas: chain.max_gas,
            genesis_restart: chain.genesis_restart.clone().map(GenesisRestart::from),
            gas_multiplier: chain.gas_multiplier,
            fee_granter: chain.fee_granter.clone(),
            max_msg_num: chain.max_msg_num,
            max_tx_size: chain.max_tx_size,
            max_grpc_decoding_size: chain.max_grpc_decoding_size,
            query_packets_chunk_size: chain.query_packets_chunk_size,
            clock_drift: chain.clock_drift.map(nanoseconds),
            max_block_time: chain.max_block_time.map(nanoseconds),
            trusting_period: chain.trusting_period.map(nanoseconds),
            client_refresh_rate: chain.client_refresh_rate.map(Ratio::from),
            ccv_consumer_chain: chain.ccv_consumer_chain,
            memo_prefix: chain.memo_prefix.clone(),
            memo_overwrite: chain.memo_overwrite.clone(),
            sequential_batch_tx: chain.sequential_batch_tx,
            trust_threshold: chain.trust_threshold.map(Ratio::from),
            gas_price: chain.gas_price.as_ref().map(GasPrice::from),
            packet_filter: chain.packet_filter.as_ref().map(PacketFilter::from),
            dynamic_gas_price: chain.dynamic_gas_price.map(DynamicGasPrice::from),
            address_type: chain.address_type.as_ref().map(AddressType::from),
            extension_options: each(&chain.extension_options),
            compat_mode: chain.compat_mode.clone(),
            clear_interval: chain.clear_interval,
            excluded_sequences: each(&chain.excluded_sequences),
            allow_ccq: chain.allow_ccq,
        }
    }
}

impl From<&state::ChainKind> for ChainKind {
    fn from(kind: &state::ChainKind) -> Self {
        match kind {
            state::ChainKind::CosmosSdk => Self::CosmosSdk,
            state::ChainKind::Namada => Self::Namada,
            state::ChainKind::Penumbra => Self::Penumbra,
            state::ChainKind::Other(name) => Self::Other(name.clone()),
        }
    }
}

impl From<&state::EventSource> for EventSource {
    fn from(source: &state::EventSource) -> Self {
        match source {
            state::EventSource::Push { url, batch_delay } => {
                Self::Push(PushSource { url: url.clone(), batch_delay: nanoseconds(*batch_delay) })
            }
            state::EventSource::Pull { interval, max_retries } => Self::Pull(PullSource {
                interval: nanoseconds(*interval),
                max_retries: *max_retries,
            }),
        }
    }
}

impl From<state::Ratio> for Ratio {
    fn from(ratio: state::Ratio) -> Self {
        Self { numerator: ratio.numerator(), denominator: ratio.denominator() }
    }
}

impl From<&state::GasPrice> for GasPrice {
    fn from(gas: &state::GasPrice) -> Self {
        Self { price: gas.price, denom: gas.denom.clone() }
    }
}

impl From<state::GenesisRestart> for GenesisRestart {
    fn from(restart: state::GenesisRestart) -> Self {
        Self { height: restart.height, archive_addr: restart.archive_addr }
    }
}

impl From<state::DynamicGasPrice> for DynamicGasPrice {
    fn from(gas: state::DynamicGasPrice) -> Self {
        Self { enabled: gas.enabled, multiplier: gas.multiplier, max: gas.max }
    }
}

impl From<&state::PacketFilter> for PacketFilter {
    fn from(filter: &state::PacketFilter) -> Self {
        Self {
            policy: match &filter.policy {
                state::FilterPolicy::AllowAll => FilterPolicy::AllowAll,
                state::FilterPolicy::Allow(list) => FilterPolicy::Allow(each(list)),
                state::FilterPolicy::Deny(list) => FilterPolicy::Deny(each(list)),
            },
            min_fees: each(&filter.min_fees),
        }
    }
}

impl From<&state::ChannelFilter> for ChannelFilter {
    fn from(filter: &state::ChannelFilter) -> Self {
        Self { port: filter.port.clone(), channel: filter.channel.clone() }
    }
}

impl From<&state::ChannelMinFees> for ChannelMinFees {
    fn from(fees: &state::ChannelMinFees) -> Self {
        Self { channel: fees.channel.clone(), recv: each(&fees.recv) }
    }
}

impl From<&state::MinFee> for MinFee {
    fn from(fee: &state::MinFee) -> Self {
        Self { amount: fee.amount, denom: fee.denom.clone() }
    }
}

impl From<&state::AddressType> for AddressType {
    fn from(address: &state::AddressType) -> Self {
        match address {
            state::AddressType::Cosmos => Self::Cosmos,
            state::AddressType::Ethermint { pk_type } => Self::Ethermint(pk_type.clone()),
        }
    }
}

impl From<&state::ExtensionOption> for ExtensionOption {
    fn from(option: &state::ExtensionOption) -> Self {
        Self { name: option.name.clone(), value: option.value.clone() }
    }
}

impl From<&state::ExcludedSequences> for ExcludedSequences {
    fn from(excluded: &state::ExcludedSequences) -> Self {
        Self { channel: excluded.channel.clone(), ranges: each(&excluded.ranges) }
    }
}

impl From<&RangeInclusive<u64>> for SequenceRange {
    fn from(range: &RangeInclusive<u64>) -> Self {
        Self { first: *range.start(), last: *range.end() }
    }
}

fn each<'a, T, U: From<&'a T>>(list: &'a [T]) -> Vec<U> {
    list.iter().map(U::from).collect()
}

/// Returns a duration in nanoseconds, limited to 584 years.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
