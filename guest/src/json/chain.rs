//! A chain's configuration: 17 fields in their order, null if a chain does not have the
//! field.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::duration::DurationJson;
use relayer_rest_sdk::contract::{
    ChainConfig, ChannelFilter, EventSource, FilterPolicy, GasPrice, Ratio,
};

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Chain", deny_unknown_fields)]
pub(crate) struct ChainJson<'a> {
    id: &'a str,
    rpc_addr: Option<&'a str>,
    websocket_addr: Option<&'a str>,
    grpc_addr: Option<&'a str>,
    rpc_timeout: Option<DurationJson>,
    account_prefix: Option<&'a str>,
    key_name: Option<&'a str>,
    store_prefix: Option<&'a str>,
    max_gas: Option<u64>,
    gas_multiplier: Option<f64>,
    max_msg_num: Option<u64>,
    max_tx_size: Option<u64>,
    clock_drift: Option<DurationJson>,
    trusting_period: Option<DurationJson>,
    trust_threshold: Option<RatioJson>,
    gas_price: Option<GasPriceJson<'a>>,
    packet_filter: Option<FilterJson<'a>>,
}

/// A fraction whose parts are strings of digits.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ratio")]
struct RatioJson {
    numerator: String,
    denominator: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GasPrice")]
pub(super) struct GasPriceJson<'a> {
    price: f64,
    denom: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Filter")]
#[serde(tag = "policy", content = "list", rename_all = "lowercase")]
pub(super) enum FilterJson<'a> {
    AllowAll,
    Allow(
        #[serde(serialize_with = "pairs")]
        #[schemars(with = "Vec<(String, String)>")]
        &'a [ChannelFilter],
    ),
    Deny(
        #[serde(serialize_with = "pairs")]
        #[schemars(with = "Vec<(String, String)>")]
        &'a [ChannelFilter],
    ),
}

impl<'a> From<&'a ChainConfig> for ChainJson<'a> {
    fn from(chain: &'a ChainConfig) -> Self {
        Self {
            id: &chain.id,
            rpc_addr: chain.rpc_addr.as_deref(),
            websocket_addr: chain.event_source.as_ref().and_then(websocket),
            grpc_addr: chain.grpc_addr.as_deref(),
            rpc_timeout: chain.rpc_timeout.map(DurationJson),
            account_prefix: chain.account_prefix.as_deref(),
            key_name: chain.key_name.as_deref(),
            store_prefix: chain.store_prefix.as_deref(),
            max_gas: chain.max_gas,
            gas_multiplier: chain.gas_multiplier,
            max_msg_num: chain.max_msg_num,
            max_tx_size: chain.max_tx_size,
            clock_drift: chain.clock_drift.map(DurationJson),
            trusting_period: chain.trusting_period.map(DurationJson),
            trust_threshold: chain.trust_threshold.map(RatioJson::from),
            gas_price: chain.gas_price.as_ref().map(GasPriceJson::from),
            packet_filter: chain.packet_filter.as_ref().map(|filter| (&filter.policy).into()),
        }
    }
}

impl<'a> From<&'a GasPrice> for GasPriceJson<'a> {
    fn from(gas: &'a GasPrice) -> Self {
        Self { price: gas.price, denom: &gas.denom }
    }
}

impl<'a> From<&'a FilterPolicy> for FilterJson<'a> {
    fn from(policy: &'a FilterPolicy) -> Self {
        match policy {
            FilterPolicy::AllowAll => Self::AllowAll,
            FilterPolicy::Allow(list) => Self::Allow(list),
            FilterPolicy::Deny(list) => Self::Deny(list),
        }
    }
}

impl From<Ratio> for RatioJson {
    fn from(ratio: Ratio) -> Self {
        Self { numerator: ratio.numerator.to_string(), denominator: ratio.denominator.to_string() }
    }
}

/// Returns the URL of the websocket; a relayer that pulls events has none.
fn websocket(source: &EventSource) -> Option<&str> {
    match source {
        EventSource::Push(push) => Some(&push.url),
        EventSource::Pull(_) => None,
    }
}

fn pairs<S: Serializer>(list: &&[ChannelFilter], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|filter| (&filter.port, &filter.channel)))
}

#[cfg(test)]
mod tests {
    use super::ChainJson;
    use relayer_rest_sdk::contract::{
        ChainConfig, ChannelFilter, EventSource, FilterPolicy, GasPrice, PacketFilter, PullSource,
        PushSource, Ratio,
    };
    use relayer_rest_sdk::testing::chain as bare_chain;

    fn json(chain: &ChainConfig) -> String {
        serde_json::to_string(&ChainJson::from(chain)).unwrap()
    }

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
            account_prefix: Some("cosmos".into()),
            key_name: Some("testkey".into()),
            store_prefix: Some("ibc".into()),
            max_gas: Some(1_000_000_000_000_000),
            gas_multiplier: Some(2.0),
            max_msg_num: Some(30),
            max_tx_size: Some(2_097_152),
            clock_drift: Some(5_000_000_000),
            trusting_period: Some(1_209_600_000_000_000),
            trust_threshold: Some(Ratio { numerator: 1, denominator: 3 }),
            gas_price: Some(GasPrice { price: 0.000_001, denom: "stake".into() }),
            packet_filter: Some(PacketFilter {
                policy: FilterPolicy::AllowAll,
                min_fees: Vec::new(),
            }),
            ..bare_chain("ibc-0")
        };
        assert_eq!(
            json(&chain),
            r#"{"id":"ibc-0","rpc_addr":"http://127.0.0.1:26657/","websocket_addr":"ws://127.0.0.1:26657/websocket","grpc_addr":"http://127.0.0.1:9090/","rpc_timeout":"10s","account_prefix":"cosmos","key_name":"testkey","store_prefix":"ibc","max_gas":1000000000000000,"gas_multiplier":2.0,"max_msg_num":30,"max_tx_size":2097152,"clock_drift":"5s","trusting_period":"14days","trust_threshold":{"numerator":"1","denominator":"3"},"gas_price":{"price":1e-6,"denom":"stake"},"packet_filter":{"policy":"allowall"}}"#
        );
    }

    #[test]
    fn missing_fields_are_null() {
        let pulled = ChainConfig {
            event_source: Some(EventSource::Pull(PullSource {
                interval: 1_000_000_000,
                max_retries: 4,
            })),
            ..bare_chain("p")
        };
        let expected = r#"{"id":"p","rpc_addr":null,"websocket_addr":null,"grpc_addr":null,"rpc_timeout":null,"account_prefix":null,"key_name":null,"store_prefix":null,"max_gas":null,"gas_multiplier":null,"max_msg_num":null,"max_tx_size":null,"clock_drift":null,"trusting_period":null,"trust_threshold":null,"gas_price":null,"packet_filter":null}"#;
        assert_eq!(json(&pulled), expected);
        assert_eq!(json(&bare_chain("p")), expected);
    }

    #[test]
    fn filters_list_their_channels_in_order() {
        let list = || {
            [("transfer", "channel-0"), ("ica*", "*")]
                .map(|(port, channel)| ChannelFilter { port: port.into(), channel: channel.into() })
                .to_vec()
        };
        for (policy, expected) in [
            (
                FilterPolicy::Allow(list()),
                r#""packet_filter":{"policy":"allow","list":[["transfer","channel-0"],["ica*","*"]]}}"#,
            ),
            (
                FilterPolicy::Deny(list()),
                r#""packet_filter":{"policy":"deny","list":[["transfer","channel-0"],["ica*","*"]]}}"#,
            ),
            (FilterPolicy::Allow(Vec::new()), r#""packet_filter":{"policy":"allow","list":[]}}"#),
        ] {
            let packet_filter = Some(PacketFilter { policy, min_fees: Vec::new() });
            let json = json(&ChainConfig { packet_filter, ..bare_chain("c") });
            assert!(json.ends_with(expected), "{json}");
        }
    }
}
