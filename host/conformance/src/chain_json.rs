//! A chain's configuration in the JSON of each dialect: the fields in their order, and
//! their values.

use std::time::Duration;

use relayer_rest_state::{
    AddressType, ChainConfig, ChainKind, ChannelFilter, EventSource, ExtensionOption, FilterPolicy,
    PacketFilter, Ratio,
};
use serde_json::{Map, Value, json};

use super::dialect::Dialect;

/// A field's name, and its value for a chain.
type Field = (&'static str, fn(&ChainConfig) -> Value);

/// A field that is omitted if it is empty.
const EXTENSION_OPTIONS: &str = "extension_options";

/// Returns the fields of a chain and their values, in their order.
pub(super) fn fields(dialect: Dialect, chain: &ChainConfig) -> Vec<(&'static str, Value)> {
    let fields = match (dialect, &chain.kind) {
        (Dialect::Any, _) => &[],
        (Dialect::V0_7, _) => V0_7,
        (Dialect::V1_13, ChainKind::CosmosSdk | ChainKind::Namada) => V1_13,
        (Dialect::V1_13, ChainKind::Penumbra) => V1_13_PENUMBRA,
        (Dialect::V1_13, ChainKind::Other(_)) => V1_13_OTHER,
    };
    let fields = fields.iter().map(|(name, value)| (*name, value(chain)));
    fields
        .filter(|(name, _)| *name != EXTENSION_OPTIONS || !chain.extension_options.is_empty())
        .collect()
}

const V0_7: &[Field] = &[
    ("id", |chain| chain.id.as_str().into()),
    ("rpc_addr", |chain| chain.rpc_addr.clone().into()),
    ("websocket_addr", |chain| match &chain.event_source {
        Some(EventSource::Push { url, .. }) => url.clone().into(),
        Some(EventSource::Pull { .. }) | None => Value::Null,
    }),
    ("grpc_addr", |chain| chain.grpc_addr.clone().into()),
    ("rpc_timeout", |chain| duration(chain.rpc_timeout)),
    ("account_prefix", |chain| chain.account_prefix.clone().into()),
    ("key_name", |chain| chain.key_name.clone().into()),
    ("store_prefix", |chain| chain.store_prefix.clone().into()),
    ("max_gas", |chain| chain.max_gas.into()),
    ("gas_multiplier", |chain| chain.gas_multiplier.into()),
    ("max_msg_num", |chain| chain.max_msg_num.into()),
    ("max_tx_size", |chain| chain.max_tx_size.into()),
    ("clock_drift", |chain| duration(chain.clock_drift)),
    ("trusting_period", |chain| duration(chain.trusting_period)),
    ("trust_threshold", |chain| {
        chain.trust_threshold.map_or(Value::Null, |ratio| {
            let (numerator, denominator) = (ratio.numerator(), ratio.denominator());
            json!({"numerator": numerator.to_string(), "denominator": denominator.to_string()})
        })
    }),
    ("gas_price", gas_price),
    ("packet_filter", |chain| {
        chain.packet_filter.as_ref().map_or(Value::Null, |filter| policy(filter).into())
    }),
];

const V1_13: &[Field] = &[
    ("type", kind),
    ("id", |chain| chain.id.as_str().into()),
    ("rpc_addr", |chain| chain.rpc_addr.clone().into()),
    ("grpc_addr", |chain| chain.grpc_addr.clone().into()),
    ("event_source", event_source),
    ("rpc_timeout", |chain| duration(chain.rpc_timeout)),
    ("trusted_node", |chain| chain.trusted_node.into()),
    ("account_prefix", |chain| chain.account_prefix.clone().into()),
    ("key_name", |chain| chain.key_name.clone().into()),
    ("key_store_type", |chain| chain.key_store_type.clone().into()),
    ("key_store_folder", |chain| chain.key_store_folder.clone().into()),
    ("store_prefix", |chain| chain.store_prefix.clone().into()),
    ("default_gas", |chain| chain.default_gas.into()),
    ("max_gas", |chain| chain.max_gas.into()),
    ("genesis_restart", genesis_restart),
    ("gas_adjustment", |_| Value::Null),
    ("gas_multiplier", |chain| chain.gas_multiplier.into()),
    ("fee_granter", |chain| chain.fee_granter.clone().into()),
    ("max_msg_num", |chain| chain.max_msg_num.into()),
    ("max_tx_size", |chain| chain.max_tx_size.into()),
    ("max_grpc_decoding_size", |chain| chain.max_grpc_decoding_size.into()),
    ("query_packets_chunk_size", |chain| chain.query_packets_chunk_size.into()),
    ("clock_drift", |chain| duration(chain.clock_drift)),
    ("max_block_time", |chain| duration(chain.max_block_time)),
    ("trusting_period", |chain| duration(chain.trusting_period)),
    ("client_refresh_rate", refresh_rate),
    ("ccv_consumer_chain", |chain| chain.ccv_consumer_chain.into()),
    ("memo_prefix", |chain| chain.memo_prefix.clone().into()),
    ("memo_overwrite", |chain| chain.memo_overwrite.clone().into()),
    ("sequential_batch_tx", |chain| chain.sequential_batch_tx.into()),
    ("trust_threshold", trust_threshold),
    ("gas_price", gas_price),
    ("packet_filter", packet_filter),
    ("dynamic_gas_price", |chain| {
        chain.dynamic_gas_price.map_or(
            Value::Null,
            |gas| json!({"enabled": gas.enabled, "multiplier": gas.multiplier, "max": gas.max}),
        )
    }),
    ("address_type", |chain| match &chain.address_type {
        None => Value::Null,
        Some(AddressType::Cosmos) => json!({"derivation": "cosmos"}),
        Some(AddressType::Ethermint { pk_type }) => {
            json!({"derivation": "ethermint", "proto_type": {"pk_type": pk_type}})
        }
    }),
    (EXTENSION_OPTIONS, |chain| {
        let option = |option: &ExtensionOption| json!({"type": option.name, "value": option.value});
        chain.extension_options.iter().map(option).collect()
    }),
    ("compat_mode", |chain| chain.compat_mode.clone().into()),
    ("clear_interval", |chain| chain.clear_interval.into()),
    ("excluded_sequences", |chain| {
        let channel = |excluded: &relayer_rest_state::ExcludedSequences| {
            let ranges = excluded.ranges.iter().map(|range| match (range.start(), range.end()) {
                (first, last) if first == last => Value::from(*first),
                (first, last) => format!("{first}-{last}").into(),
            });
            (excluded.channel.clone(), ranges.collect())
        };
        chain.excluded_sequences.iter().map(channel).collect::<Map<_, _>>().into()
    }),
    ("allow_ccq", |chain| chain.allow_ccq.into()),
];

/// The fields of chains of other kinds.
const V1_13_OTHER: &[Field] = &[
    ("type", kind),
    ("id", |chain| chain.id.as_str().into()),
    ("rpc_addr", |chain| chain.rpc_addr.clone().into()),
    ("grpc_addr", |chain| chain.grpc_addr.clone().into()),
    ("event_source", event_source),
    ("rpc_timeout", |chain| duration(chain.rpc_timeout)),
    ("trusted_node", |chain| chain.trusted_node.into()),
    ("stub_key_name", |chain| chain.key_name.clone().into()),
    ("clock_drift", |chain| duration(chain.clock_drift)),
    ("max_block_time", |chain| duration(chain.max_block_time)),
    ("trusting_period", |chain| duration(chain.trusting_period)),
    ("client_refresh_rate", refresh_rate),
    ("trust_threshold", trust_threshold),
    ("clear_interval", |chain| chain.clear_interval.into()),
];

const V1_13_PENUMBRA: &[Field] = &[
    ("type", kind),
    ("stub_key_name", |chain| chain.key_name.clone().into()),
    ("id", |chain| chain.id.as_str().into()),
    ("grpc_addr", |chain| chain.grpc_addr.clone().into()),
    ("rpc_addr", |chain| chain.rpc_addr.clone().into()),
    ("event_source", event_source),
    ("rpc_timeout", |chain| duration(chain.rpc_timeout)),
    ("packet_filter", packet_filter),
    ("clear_interval", |chain| chain.clear_interval.into()),
    ("query_packets_chunk_size", |chain| chain.query_packets_chunk_size.into()),
    ("max_block_time", |chain| duration(chain.max_block_time)),
    ("genesis_restart", genesis_restart),
    ("clock_drift", |chain| duration(chain.clock_drift)),
    ("client_refresh_rate", refresh_rate),
    ("trust_threshold", trust_threshold),
    ("compat_mode", |chain| chain.compat_mode.clone().into()),
];

fn genesis_restart(chain: &ChainConfig) -> Value {
    let restart = |height| json!({"restart_height": height});
    chain.genesis_restart_height.map_or(Value::Null, restart)
}

fn packet_filter(chain: &ChainConfig) -> Value {
    chain.packet_filter.as_ref().map_or(Value::Null, |filter| {
        let mut json = policy(filter);
        json.insert("min_fees".to_owned(), min_fees(filter));
        json.into()
    })
}

fn kind(chain: &ChainConfig) -> Value {
    match &chain.kind {
        ChainKind::CosmosSdk => "CosmosSdk".into(),
        ChainKind::Namada => "Namada".into(),
        ChainKind::Penumbra => "Penumbra".into(),
        ChainKind::Other(name) => name.as_str().into(),
    }
}

fn duration(duration: Option<Duration>) -> Value {
    duration.map(|duration| humantime::format_duration(duration).to_string()).into()
}

fn refresh_rate(chain: &ChainConfig) -> Value {
    let rate = |rate: Ratio| format!("{}/{}", rate.numerator(), rate.denominator());
    chain.client_refresh_rate.map(rate).into()
}

fn trust_threshold(chain: &ChainConfig) -> Value {
    let fraction =
        |ratio: Ratio| json!({"numerator": ratio.numerator(), "denominator": ratio.denominator()});
    chain.trust_threshold.map_or(Value::Null, fraction)
}

fn event_source(chain: &ChainConfig) -> Value {
    match &chain.event_source {
        None => Value::Null,
        Some(EventSource::Push { url, batch_delay }) => {
            json!({"mode": "push", "url": url, "batch_delay": duration(Some(*batch_delay))})
        }
        Some(EventSource::Pull { interval, max_retries }) => {
            json!({"mode": "pull", "interval": duration(Some(*interval)), "max_retries": max_retries})
        }
    }
}

fn gas_price(chain: &ChainConfig) -> Value {
    let price =
        |gas: &relayer_rest_state::GasPrice| json!({"price": gas.price, "denom": gas.denom});
    chain.gas_price.as_ref().map_or(Value::Null, price)
}

fn policy(filter: &PacketFilter) -> Map<String, Value> {
    let list = |list: &[ChannelFilter]| -> Value {
        list.iter().map(|filter| json!([filter.port, filter.channel])).collect()
    };
    let (policy, list) = match &filter.policy {
        FilterPolicy::AllowAll => ("allowall", None),
        FilterPolicy::Allow(channels) => ("allow", Some(list(channels))),
        FilterPolicy::Deny(channels) => ("deny", Some(list(channels))),
    };
    let list = list.map(|list| ("list".to_owned(), list));
    [("policy".to_owned(), policy.into())].into_iter().chain(list).collect()
}

fn min_fees(filter: &PacketFilter) -> Value {
    let fee = |fee: &relayer_rest_state::MinFee| json!({"amount": fee.amount, "denom": fee.denom});
    let fees = filter.min_fees.iter().map(|fees| {
        let recv: Value = fees.recv.iter().map(fee).collect();
        (fees.channel.clone(), json!({"recv": recv}))
    });
    fees.collect::<Map<_, _>>().into()
}
