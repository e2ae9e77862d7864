//! A chain and its configuration.

use std::borrow::Borrow;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// A chain's identifier, such as `cosmoshub-4`. Any text: what it may look
/// like is the relayer's business.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(Arc<str>);

impl ChainId {
    /// The identifier as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The identifier as text that is shared, not copied.
    #[must_use]
    pub fn as_shared(&self) -> &Arc<str> {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for ChainId {
    fn from(id: T) -> Self {
        Self(id.into())
    }
}

impl Borrow<str> for ChainId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Display for ChainId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The configuration of a chain, with the relayer's defaults filled in.
///
/// The fields are those of `chain-config` in `wit/types.wit`, which says what
/// each means. A field is `None` where the chain does not have it or the
/// source does not tell it. Numbers are finite. Secrets do not belong in it,
/// nor do URLs with passwords: modules see every field.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "documented in wit/types.wit")]
pub struct ChainConfig {
    pub id: ChainId,
    pub kind: ChainKind,
    pub rpc_addr: Option<String>,
    pub grpc_addr: Option<String>,
    pub event_source: Option<EventSource>,
    pub rpc_timeout: Option<Duration>,
    pub trusted_node: Option<bool>,
    pub account_prefix: Option<String>,
    pub key_name: Option<String>,
    pub key_store_type: Option<String>,
    pub key_store_folder: Option<String>,
    pub store_prefix: Option<String>,
    pub default_gas: Option<u64>,
    pub max_gas: Option<u64>,
    pub genesis_restart_height: Option<u64>,
    pub gas_multiplier: Option<f64>,
    pub fee_granter: Option<String>,
    pub max_msg_num: Option<u64>,
    pub max_tx_size: Option<u64>,
    pub max_grpc_decoding_size: Option<u64>,
    pub query_packets_chunk_size: Option<u64>,
    pub clock_drift: Option<Duration>,
    pub max_block_time: Option<Duration>,
    pub trusting_period: Option<Duration>,
    pub client_refresh_rate: Option<Ratio>,
    pub ccv_consumer_chain: Option<bool>,
    pub memo_prefix: Option<String>,
    pub memo_overwrite: Option<String>,
    pub sequential_batch_tx: Option<bool>,
    pub trust_threshold: Option<Ratio>,
    pub gas_price: Option<GasPrice>,
    pub packet_filter: Option<PacketFilter>,
    pub dynamic_gas_price: Option<DynamicGasPrice>,
    pub address_type: Option<AddressType>,
    pub extension_options: Vec<ExtensionOption>,
    pub compat_mode: Option<String>,
    pub clear_interval: Option<u64>,
    pub excluded_sequences: Vec<ExcludedSequences>,
    pub allow_ccq: Option<bool>,
}

impl ChainConfig {
    /// A chain of which nothing else is known.
    #[must_use]
    pub fn new(id: impl Into<ChainId>, kind: ChainKind) -> Self {
        Self {
            id: id.into(),
            kind,
            rpc_addr: None,
            grpc_addr: None,
            event_source: None,
            rpc_timeout: None,
            trusted_node: None,
            account_prefix: None,
            key_name: None,
            key_store_type: None,
            key_store_folder: None,
            store_prefix: None,
            default_gas: None,
            max_gas: None,
            genesis_restart_height: None,
            gas_multiplier: None,
            fee_granter: None,
            max_msg_num: None,
            max_tx_size: None,
            max_grpc_decoding_size: None,
            query_packets_chunk_size: None,
            clock_drift: None,
            max_block_time: None,
            trusting_period: None,
            client_refresh_rate: None,
            ccv_consumer_chain: None,
            memo_prefix: None,
            memo_overwrite: None,
            sequential_batch_tx: None,
            trust_threshold: None,
            gas_price: None,
            packet_filter: None,
            dynamic_gas_price: None,
            address_type: None,
            extension_options: Vec::new(),
            compat_mode: None,
            clear_interval: None,
            excluded_sequences: Vec::new(),
            allow_ccq: None,
        }
    }
}

/// What software a chain runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainKind {
    /// A chain of the Cosmos SDK.
    CosmosSdk,
    /// A Namada chain.
    Namada,
    /// A Penumbra chain.
    Penumbra,
    /// Any other, by the relayer's name for it.
    Other(String),
}

/// How the relayer learns of a chain's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSource {
    /// The node sends them over a websocket.
    Push {
        /// The websocket's URL.
        url: String,
        /// How long events are gathered.
        batch_delay: Duration,
    },
    /// The relayer asks for them.
    Pull {
        /// The time between two questions.
        interval: Duration,
        /// How often one question is tried again.
        max_retries: u32,
    },
}

/// A fraction in lowest terms. The denominator is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// The fraction in lowest terms; `None` where the denominator is 0.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let (mut divisor, mut rest) = (denominator, numerator);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// What is above the line.
    #[must_use]
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// What is below the line.
    #[must_use]
    pub const fn denominator(self) -> u64 {
        self.denominator
    }
}

/// The price of one unit of gas.
#[derive(Debug, Clone, PartialEq)]
pub struct GasPrice {
    /// The price, in `denom`. Finite.
    pub price: f64,
    /// The token.
    pub denom: String,
}

/// A price of gas that follows the chain's own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicGasPrice {
    /// Whether it does.
    pub enabled: bool,
    /// What the chain's price is multiplied by. Finite.
    pub multiplier: f64,
    /// The highest price that is paid. Finite.
    pub max: f64,
}

/// Which packets of a chain are relayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFilter {
    /// The channels.
    pub policy: FilterPolicy,
    /// The least fees, by pattern of the channel.
    pub min_fees: Vec<ChannelMinFees>,
}

/// The channels that a filter lets pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterPolicy {
    /// Every channel.
    AllowAll,
    /// Those that match.
    Allow(Vec<ChannelFilter>),
    /// Those that do not match.
    Deny(Vec<ChannelFilter>),
}

/// A pattern for a channel; `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFilter {
    /// The pattern of the port.
    pub port: String,
    /// The pattern of the channel.
    pub channel: String,
}

/// The least fees for packets on some channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelMinFees {
    /// The pattern of the channel.
    pub channel: String,
    /// The fees for receiving, of which one must be met.
    pub recv: Vec<MinFee>,
}

/// A least fee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinFee {
    /// How many of the token.
    pub amount: u64,
    /// The token; any where there is none.
    pub denom: Option<String>,
}

/// How addresses are made from keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressType {
    /// As the Cosmos SDK does it.
    Cosmos,
    /// As Ethermint does it.
    Ethermint {
        /// The type URL of public keys.
        pk_type: String,
    },
}

/// An option that each transaction carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionOption {
    /// The option's name.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// Packets that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedSequences {
    /// The channel.
    pub channel: String,
    /// The packets' sequence numbers, in ranges, ascending.
    pub ranges: Vec<RangeInclusive<u64>>,
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn ratios_are_reduced() {
        for (numerator, denominator, expected) in [
            (2, 6, (1, 3)),
            (2, 3, (2, 3)),
            (0, 5, (0, 1)),
            (7, 7, (1, 1)),
            (u64::MAX, 1, (u64::MAX, 1)),
        ] {
            let ratio = Ratio::new(numerator, denominator).unwrap();
            assert_eq!((ratio.numerator(), ratio.denominator()), expected);
        }
        assert_eq!(Ratio::new(1, 0), None);
    }
}
