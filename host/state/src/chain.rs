//! A chain and its configuration.

use std::borrow::Borrow;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::url_secrets::without_secrets;
use serde::{Deserialize, Serialize};

/// A chain's identifier, such as `cosmoshub-4`. Any text is allowed: the relayer defines
/// the syntax.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize, Serialize)]
pub struct ChainId(Arc<str>);

impl ChainId {
    /// Returns the identifier as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the identifier as shared text, without a copy.
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
/// The fields are those of `chain-config` in the contract. A field is `None` if the chain
/// does not have it or the source does not report it. Numbers are finite. It must not
/// contain secrets, because modules see every field; the publisher removes the passwords
/// and tokens of URLs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
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
    /// The time that the relayer waits for the node's response.
    pub rpc_timeout: Option<Duration>,
    /// Whether the relayer accepts the node's headers without verifying them.
    pub trusted_node: Option<bool>,
    /// The prefix of addresses on the chain.
    pub account_prefix: Option<String>,
    /// The name of the signing key, never the key itself.
    pub key_name: Option<String>,
    /// The kind of key store, such as `Test`.
    pub key_store_type: Option<String>,
    /// The folder of the key store.
    pub key_store_folder: Option<String>,
    /// The prefix of the chain's store for the values that relayers prove.
    pub store_prefix: Option<String>,
    /// The gas of a transaction whose gas could not be estimated.
    pub default_gas: Option<u64>,
    /// The maximum gas of a transaction.
    pub max_gas: Option<u64>,
    /// The restart of the chain from a genesis file.
    pub genesis_restart: Option<GenesisRestart>,
    /// The factor applied to an estimate of gas. Finite.
    pub gas_multiplier: Option<f64>,
    /// The account that pays the fees, if it is not the signer.
    pub fee_granter: Option<String>,
    /// The maximum number of messages in one transaction.
    pub max_msg_num: Option<u64>,
    /// The maximum size of a transaction, in bytes.
    pub max_tx_size: Option<u64>,
    /// The maximum size of a gRPC response, in bytes.
    pub max_grpc_decoding_size: Option<u64>,
    /// The number of packets that one query requests.
    pub query_packets_chunk_size: Option<u64>,
    /// The maximum time by which the chain's clock may be ahead.
    pub clock_drift: Option<Duration>,
    /// The maximum time between two blocks.
    pub max_block_time: Option<Duration>,
    /// The time for which a validator set is trusted.
    pub trusting_period: Option<Duration>,
    /// The fraction of the trusting period after which a client is refreshed.
    pub client_refresh_rate: Option<Ratio>,
    /// Whether another chain secures this one.
    pub ccv_consumer_chain: Option<bool>,
    /// The text that the memo of each transaction starts with.
    pub memo_prefix: Option<String>,
    /// The text that replaces the memo of each transaction.
    pub memo_overwrite: Option<String>,
    /// Whether the transactions of a batch are sent one after the other.
    pub sequential_batch_tx: Option<bool>,
    /// The fraction of the trusted validators that must also have signed a new header.
    pub trust_threshold: Option<Ratio>,
    /// The price of gas.
    pub gas_price: Option<GasPrice>,
    /// The filter of the packets that are relayed.
    pub packet_filter: Option<PacketFilter>,
    /// The price of gas, if it follows the chain's own price.
    pub dynamic_gas_price: Option<DynamicGasPrice>,
    /// The derivation of addresses.
    pub address_type: Option<AddressType>,
    /// Options that each transaction carries.
    pub extension_options: Vec<ExtensionOption>,
    /// The version of `CometBFT` whose responses are expected, such as `0.37`.
    pub compat_mode: Option<String>,
    /// The number of blocks between two clearings of pending packets.
    pub clear_interval: Option<u64>,
    /// The packets that are not relayed.
    pub excluded_sequences: Vec<ExcludedSequences>,
    /// Whether other chains may query this one through the relayer.
    pub allow_ccq: Option<bool>,
}

impl ChainConfig {
    /// Creates a chain without any further configuration.
    #[must_use]
    pub fn new(id: impl Into<ChainId>, kind: ChainKind) -> Self {
        Self { id: id.into(), kind, ..Self::default() }
    }

    /// Removes the passwords and tokens of the URLs, and URLs that may have others.
    pub(super) fn remove_secrets(&mut self) {
        self.rpc_addr = self.rpc_addr.take().and_then(without_secrets);
        self.grpc_addr = self.grpc_addr.take().and_then(without_secrets);
        if let Some(restart) = &mut self.genesis_restart {
            restart.archive_addr = restart.archive_addr.take().and_then(without_secrets);
        }
        if let Some(EventSource::Push { url, .. }) = &mut self.event_source {
            match without_secrets(std::mem::take(url)) {
                Some(text) => *url = text,
                None => self.event_source = None,
            }
        }
    }
}

/// A restart of a chain from a genesis file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct GenesisRestart {
    /// The height at which the chain was restarted.
    pub height: u64,
    /// The URL of a node that has the blocks before the restart.
    pub archive_addr: Option<String>,
}

/// The software that a chain runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum ChainKind {
    /// A Cosmos SDK chain.
    #[default]
    CosmosSdk,
    /// A Namada chain.
    Namada,
    /// A Penumbra chain.
    Penumbra,
    /// Another kind, by the relayer's name for it.
    Other(String),
}

/// The source from which the relayer learns of a chain's events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub enum EventSource {
    /// The node pushes events over a websocket.
    Push {
        /// The websocket's URL.
        url: String,
        /// The time for which events are collected.
        batch_delay: Duration,
    },
    /// The relayer polls for events.
    Pull {
        /// The time between two polls.
        interval: Duration,
        /// The maximum number of retries of one poll.
        max_retries: u32,
    },
}

/// A fraction in lowest terms. The denominator is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// Returns the fraction in lowest terms; `None` if the denominator is 0.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let mut divisor = denominator;
        let mut rest = numerator;
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// Returns the numerator in lowest terms.
    #[must_use]
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Returns the denominator in lowest terms.
    #[must_use]
    pub const fn denominator(self) -> u64 {
        self.denominator
    }
}

/// The price of one unit of gas.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct GasPrice {
    /// The price, in `denom`. Finite.
    pub price: f64,
    /// The token.
    pub denom: String,
}

/// A price of gas that follows the chain's own price.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub struct DynamicGasPrice {
    /// Whether the price follows the chain's own price.
    pub enabled: bool,
    /// The factor applied to the chain's price. Finite.
    pub multiplier: f64,
    /// The maximum price that is paid. Finite.
    pub max: f64,
}

/// A filter of the packets that are relayed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PacketFilter {
    /// The policy on channels.
    pub policy: FilterPolicy,
    /// The minimum fees, by pattern of the channel.
    pub min_fees: Vec<ChannelMinFees>,
}

/// The channels that a filter lets pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub enum FilterPolicy {
    /// Every channel.
    AllowAll,
    /// The channels that match.
    Allow(Vec<ChannelFilter>),
    /// The channels that do not match.
    Deny(Vec<ChannelFilter>),
}

/// A pattern for a channel; `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChannelFilter {
    /// The pattern of the port.
    pub port: String,
    /// The pattern of the channel.
    pub channel: String,
}

/// The minimum fees for packets on some channels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChannelMinFees {
    /// The pattern of the channel.
    pub channel: String,
    /// The fees for receiving, one of which must be met.
    pub recv: Vec<MinFee>,
}

/// A minimum fee.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct MinFee {
    /// The amount of the token.
    pub amount: u64,
    /// The token; any token if `None`.
    pub denom: Option<String>,
}

/// The derivation of addresses from keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub enum AddressType {
    /// The derivation of the Cosmos SDK.
    Cosmos,
    /// The derivation of Ethermint.
    Ethermint {
        /// The type URL of public keys.
        pk_type: String,
    },
}

/// An option that each transaction carries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExtensionOption {
    /// The option's name.
    pub name: String,
    /// The value as text.
    pub value: String,
}

/// Packets that are not relayed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExcludedSequences {
    /// The channel.
    pub channel: String,
    /// The packets' sequence numbers, in ascending ranges.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl TryFrom<(u64, u64)> for Ratio {
    type Error = &'static str;

    fn try_from((numerator, denominator): (u64, u64)) -> Result<Self, Self::Error> {
        Self::new(numerator, denominator).ok_or("the denominator of a ratio is zero")
    }
}

impl From<Ratio> for (u64, u64) {
    fn from(ratio: Ratio) -> Self {
        (ratio.numerator, ratio.denominator)
    }
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
