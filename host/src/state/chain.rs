//! A chain and its configuration.

use std::borrow::Borrow;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// A chain's identifier, such as `cosmoshub-4`. Any text: what it may look
/// like is the relayer's business.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
/// The fields are those of `chain-config` in the contract. A field is `None` where the chain does not have it or the
/// source does not tell it. Numbers are finite. Secrets do not belong in it,
/// nor do URLs with passwords: modules see every field.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChainConfig {
    /// The chain's identifier.
    pub id: ChainId,
    /// The kind of chain.
    pub kind: ChainKind,
    /// The URL of the node's RPC endpoint.
    pub rpc_addr: Option<String>,
    /// The URL of the node's gRPC endpoint.
    pub grpc_addr: Option<String>,
    /// How the relayer learns of the chain's events.
    pub event_source: Option<EventSource>,
    /// How long the relayer waits for the node's answer.
    pub rpc_timeout: Option<Duration>,
    /// Whether the relayer takes the node's headers without checking them.
    pub trusted_node: Option<bool>,
    /// The prefix of addresses on the chain.
    pub account_prefix: Option<String>,
    /// The name of the key that signs; never the key itself.
    pub key_name: Option<String>,
    /// The kind of key store, such as `Test`.
    pub key_store_type: Option<String>,
    /// The folder of the key store.
    pub key_store_folder: Option<String>,
    /// The prefix under which the chain stores what relayers prove.
    pub store_prefix: Option<String>,
    /// The gas of a transaction whose need could not be estimated.
    pub default_gas: Option<u64>,
    /// The most gas a transaction may need.
    pub max_gas: Option<u64>,
    /// The height at which the chain started anew from a genesis file.
    pub genesis_restart_height: Option<u64>,
    /// What an estimate of gas is multiplied by. Finite.
    pub gas_multiplier: Option<f64>,
    /// The account that pays the fees, where the signer does not.
    pub fee_granter: Option<String>,
    /// The most messages in one transaction.
    pub max_msg_num: Option<u64>,
    /// The largest transaction, in bytes.
    pub max_tx_size: Option<u64>,
    /// The largest gRPC answer, in bytes.
    pub max_grpc_decoding_size: Option<u64>,
    /// How many packets one query asks for.
    pub query_packets_chunk_size: Option<u64>,
    /// How far the chain's clock may be ahead.
    pub clock_drift: Option<Duration>,
    /// The longest time between two blocks.
    pub max_block_time: Option<Duration>,
    /// How long a set of validators is trusted.
    pub trusting_period: Option<Duration>,
    /// The part of the trusting period after which a client is refreshed.
    pub client_refresh_rate: Option<Ratio>,
    /// Whether the chain is secured by another.
    pub ccv_consumer_chain: Option<bool>,
    /// What the memo of each transaction starts with.
    pub memo_prefix: Option<String>,
    /// What replaces the memo of each transaction.
    pub memo_overwrite: Option<String>,
    /// Whether a batch's transactions are sent one after the other.
    pub sequential_batch_tx: Option<bool>,
    /// The part of the validators whose overlap is trusted.
    pub trust_threshold: Option<Ratio>,
    /// The price of gas.
    pub gas_price: Option<GasPrice>,
    /// Which packets are relayed.
    pub packet_filter: Option<PacketFilter>,
    /// The price of gas where it follows the chain's own.
    pub dynamic_gas_price: Option<DynamicGasPrice>,
    /// How addresses are made.
    pub address_type: Option<AddressType>,
    /// Options that each transaction carries.
    pub extension_options: Vec<ExtensionOption>,
    /// The version of `CometBFT` whose answers are expected, such as `0.37`.
    pub compat_mode: Option<String>,
    /// Every how many blocks pending packets are cleared.
    pub clear_interval: Option<u64>,
    /// Packets that are left out.
    pub excluded_sequences: Vec<ExcludedSequences>,
    /// Whether other chains may query this one through the relayer.
    pub allow_ccq: Option<bool>,
}

impl ChainConfig {
    /// A chain of which nothing else is known.
    #[must_use]
    pub fn new(id: impl Into<ChainId>, kind: ChainKind) -> Self {
        Self { id: id.into(), kind, ..Self::default() }
    }
}

/// What software a chain runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ChainKind {
    /// A chain of the Cosmos SDK.
    #[default]
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
