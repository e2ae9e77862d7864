//! Converts a chain from the relayer's format into its configuration.

use std::time::Duration;

use relayer_rest_state::{
    AddressType, ChainConfig, ChainId, ChainKind, ChannelFilter, ChannelMinFees, DynamicGasPrice,
    EventSource, ExcludedSequences, ExtensionOption, FilterPolicy, GasPrice, GenesisRestart,
    MinFee, PacketFilter, Ratio,
};

use super::chain::{self as raw, Chain};
use super::value::{DurationText, Finite, RatioText, UrlText};

/// The relayer's defaults for absent keys.
mod default {
    use super::{Duration, Ratio};

    pub(super) const RPC_TIMEOUT: Duration = Duration::from_secs(10);
    pub(super) const CLOCK_DRIFT: Duration = Duration::from_secs(5);
    pub(super) const MAX_BLOCK_TIME: Duration = Duration::from_secs(30);
    pub(super) const BATCH_DELAY: Duration = Duration::from_millis(500);
    pub(super) const PULL_INTERVAL: Duration = Duration::from_secs(1);
    pub(super) const PULL_MAX_RETRIES: u32 = 4;
    pub(super) const TRUST_THRESHOLD: Ratio = Ratio::new(2, 3).unwrap();
    pub(super) const CLIENT_REFRESH_RATE: Ratio = Ratio::new(1, 3).unwrap();
    pub(super) const QUERY_PACKETS_CHUNK_SIZE: u64 = 50;
    pub(super) const MAX_GAS: u64 = 400_000;
    pub(super) const GAS_MULTIPLIER: f64 = 1.1;
    pub(super) const MAX_MSG_NUM: u64 = 30;
    pub(super) const MAX_TX_SIZE: u64 = 2_097_152;
    pub(super) const MAX_GRPC_DECODING_SIZE: u64 = 33_554_432;
    pub(super) const KEY_STORE_TYPE: &str = "Test";
    pub(super) const STORE_PREFIX: &str = "ibc";
    pub(super) const DYNAMIC_MULTIPLIER: f64 = 1.1;
    pub(super) const DYNAMIC_MAX: f64 = 0.6;
}

impl<Id: Into<ChainId>> Chain<Id> {
    /// Converts the chain without defaults for its absent keys.
    pub(crate) fn config(self) -> ChainConfig {
        let raw = self;
        let kind = match raw.kind.as_deref() {
            None | Some("CosmosSdk") => ChainKind::CosmosSdk,
            Some("Namada") => ChainKind::Namada,
            Some("Penumbra") => ChainKind::Penumbra,
            Some(other) => ChainKind::Other(other.to_owned()),
        };
        let gas_multiplier = match (raw.gas_multiplier, raw.gas_adjustment) {
            (Some(Finite(multiplier)), _) => Some(multiplier),
            // Rounded to nine decimal places: 1.14, not 1.1400000000000001.
            (None, Some(Finite(adjustment))) => Some(((1.0 + adjustment) * 1e9).round() / 1e9),
            (None, None) => None,
        };
        ChainConfig {
            id: raw.id.into(),
            kind,
            rpc_addr: raw.rpc_addr.map(|url| url.0),
            grpc_addr: raw.grpc_addr.map(|url| url.0),
            event_source: event_source(raw.event_source, raw.websocket_addr),
            rpc_timeout: duration(raw.rpc_timeout),
            trusted_node: raw.trusted_node,
            account_prefix: raw.account_prefix,
            key_name: raw.key_name.or(raw.stub_key_name),
            key_store_type: raw.key_store_type,
            key_store_folder: raw.key_store_folder,
            store_prefix: raw.store_prefix,
            default_gas: raw.default_gas,
            max_gas: raw.max_gas,
            genesis_restart: raw.genesis_restart.map(|restart| GenesisRestart {
                height: restart.restart_height.0.get(),
                archive_addr: restart.archive_addr.map(|url| url.0),
            }),
            gas_multiplier,
            fee_granter: raw.fee_granter,
            max_msg_num: raw.max_msg_num,
            max_tx_size: raw.max_tx_size,
            max_grpc_decoding_size: raw.max_grpc_decoding_size.map(|size| size.as_u64()),
            query_packets_chunk_size: raw.query_packets_chunk_size,
            clock_drift: duration(raw.clock_drift),
            max_block_time: duration(raw.max_block_time),
            trusting_period: duration(raw.trusting_period),
            client_refresh_rate: ratio(raw.client_refresh_rate),
            ccv_consumer_chain: raw.ccv_consumer_chain,
            memo_prefix: raw.memo_prefix,
            memo_overwrite: raw.memo_overwrite,
            sequential_batch_tx: raw.sequential_batch_tx,
            trust_threshold: ratio(raw.trust_threshold),
            gas_price: raw.gas_price.map(|gas| GasPrice { price: gas.price.0, denom: gas.denom }),
            packet_filter: raw.packet_filter.map(packet_filter),
            dynamic_gas_price: raw.dynamic_gas_price.map(|gas| DynamicGasPrice {
                enabled: gas.enabled,
                multiplier: gas.multiplier.map_or(default::DYNAMIC_MULTIPLIER, |number| number.0),
                max: gas.max.map_or(default::DYNAMIC_MAX, |number| number.0),
            }),
            address_type: raw.address_type.map(address_type),
            extension_options: raw.extension_options.into_iter().map(extension_option).collect(),
            compat_mode: raw.compat_mode,
            clear_interval: raw.clear_interval,
            excluded_sequences: raw
                .excluded_sequences
                .into_iter()
                .map(|(channel, sequences)| {
                    let mut ranges: Vec<_> = sequences.into_iter().map(|range| range.0).collect();
                    ranges.sort_unstable_by_key(|range| (*range.start(), *range.end()));
                    ExcludedSequences { channel, ranges }
                })
                .collect(),
            allow_ccq: raw.allow_ccq,
        }
    }

    /// Converts the chain with the relayer's defaults for its absent keys.
    pub(crate) fn config_with_defaults(self) -> ChainConfig {
        let chain = with_defaults(self.config());
        match chain.kind {
            ChainKind::CosmosSdk | ChainKind::Namada => with_cosmos_defaults(chain),
            ChainKind::Penumbra => with_penumbra_defaults(chain),
            ChainKind::Other(_) => chain,
        }
    }
}

/// Applies the defaults for chains of all kinds.
fn with_defaults(chain: ChainConfig) -> ChainConfig {
    ChainConfig {
        rpc_timeout: chain.rpc_timeout.or(Some(default::RPC_TIMEOUT)),
        query_packets_chunk_size: chain
            .query_packets_chunk_size
            .or(Some(default::QUERY_PACKETS_CHUNK_SIZE)),
        clock_drift: chain.clock_drift.or(Some(default::CLOCK_DRIFT)),
        max_block_time: chain.max_block_time.or(Some(default::MAX_BLOCK_TIME)),
        client_refresh_rate: chain.client_refresh_rate.or(Some(default::CLIENT_REFRESH_RATE)),
        trust_threshold: chain.trust_threshold.or(Some(default::TRUST_THRESHOLD)),
        ..chain
    }
}

/// The packet filter of a chain whose file has none.
const ALLOW_ALL: PacketFilter =
    PacketFilter { policy: FilterPolicy::AllowAll, min_fees: Vec::new() };

/// Applies the additional defaults for Penumbra chains.
fn with_penumbra_defaults(chain: ChainConfig) -> ChainConfig {
    ChainConfig { packet_filter: chain.packet_filter.or(Some(ALLOW_ALL)), ..chain }
}

/// Applies the additional defaults for chains of the Cosmos SDK and Namada.
fn with_cosmos_defaults(chain: ChainConfig) -> ChainConfig {
    ChainConfig {
        trusted_node: chain.trusted_node.or(Some(false)),
        key_store_type: chain.key_store_type.or_else(|| Some(default::KEY_STORE_TYPE.to_owned())),
        store_prefix: chain.store_prefix.or_else(|| Some(default::STORE_PREFIX.to_owned())),
        max_gas: chain.max_gas.or(Some(default::MAX_GAS)),
        gas_multiplier: chain.gas_multiplier.or(Some(default::GAS_MULTIPLIER)),
        max_msg_num: chain.max_msg_num.or(Some(default::MAX_MSG_NUM)),
        max_tx_size: chain.max_tx_size.or(Some(default::MAX_TX_SIZE)),
        max_grpc_decoding_size: chain
            .max_grpc_decoding_size
            .or(Some(default::MAX_GRPC_DECODING_SIZE)),
        ccv_consumer_chain: chain.ccv_consumer_chain.or(Some(false)),
        memo_prefix: chain.memo_prefix.or_else(|| Some(String::new())),
        sequential_batch_tx: chain.sequential_batch_tx.or(Some(false)),
        packet_filter: chain.packet_filter.or(Some(ALLOW_ALL)),
        dynamic_gas_price: chain.dynamic_gas_price.or(Some(DynamicGasPrice {
            enabled: false,
            multiplier: default::DYNAMIC_MULTIPLIER,
            max: default::DYNAMIC_MAX,
        })),
        address_type: chain.address_type.or(Some(AddressType::Cosmos)),
        allow_ccq: chain.allow_ccq.or(Some(true)),
        ..chain
    }
}

fn duration(raw: Option<DurationText>) -> Option<Duration> {
    raw.map(|text| text.0)
}

fn ratio(raw: Option<RatioText>) -> Option<Ratio> {
    raw.map(|text| text.0)
}

/// Returns the event source. Versions before 1.6 have only the address of a websocket.
fn event_source(
    source: Option<raw::EventSource>,
    websocket: Option<UrlText>,
) -> Option<EventSource> {
    let push = |url: UrlText, batch_delay| EventSource::Push {
        url: url.0,
        batch_delay: duration(batch_delay).unwrap_or(default::BATCH_DELAY),
    };
    let Some(source) = source else { return websocket.map(|url| push(url, None)) };
    match source.mode {
        raw::EventMode::Push => source.url.or(websocket).map(|url| push(url, source.batch_delay)),
        raw::EventMode::Pull => Some(EventSource::Pull {
            interval: duration(source.interval).unwrap_or(default::PULL_INTERVAL),
            max_retries: source.max_retries.unwrap_or(default::PULL_MAX_RETRIES),
        }),
    }
}

fn packet_filter(raw: raw::PacketFilter) -> PacketFilter {
    let list =
        raw.list.into_iter().map(|(port, channel)| ChannelFilter { port, channel }).collect();
    PacketFilter {
        policy: match raw.policy {
            None | Some(raw::Policy::AllowAll) => FilterPolicy::AllowAll,
            Some(raw::Policy::Allow) => FilterPolicy::Allow(list),
            Some(raw::Policy::Deny) => FilterPolicy::Deny(list),
        },
        min_fees: raw
            .min_fees
            .into_iter()
            .map(|(channel, fees)| ChannelMinFees {
                channel,
                recv: fees
                    .recv
                    .into_iter()
                    .map(|fee| MinFee { amount: fee.amount, denom: fee.denom })
                    .collect(),
            })
            .collect(),
    }
}

fn address_type(raw: raw::AddressType) -> AddressType {
    match raw.derivation {
        raw::Derivation::Cosmos => AddressType::Cosmos,
        raw::Derivation::Ethermint => AddressType::Ethermint {
            pk_type: raw.proto_type.map(|proto| proto.pk_type).unwrap_or_default(),
        },
    }
}

fn extension_option(raw: raw::ExtensionOption) -> ExtensionOption {
    let value = match raw.value {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    ExtensionOption { name: raw.name, value }
}
