//! What a route can read.

use crate::contract::{ChainConfig, Component, NotReady, RelayerState};

/// A relayer at one moment, as the contract's imports show it.
pub trait Relayer {
    /// The relayer's parts and their versions, `ibc-relayer` first.
    fn components(&self) -> Vec<Component>;
    /// The identifiers of the configured chains.
    fn chain_ids(&self) -> Result<Vec<String>, NotReady>;
    /// The configuration of a chain.
    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady>;
    /// The connected chains and the active workers.
    fn state(&self) -> Result<RelayerState, NotReady>;
}

#[cfg(test)]
pub(crate) mod fake {
    use super::Relayer;
    use crate::contract::{ChainConfig, ChainKind, Component, NotReady, RelayerState};

    /// A relayer made up in a test.
    #[derive(Default)]
    pub(crate) struct FakeRelayer {
        pub(crate) components: Vec<Component>,
        pub(crate) chains: Vec<ChainConfig>,
        pub(crate) chains_not_ready: Option<NotReady>,
        pub(crate) state: Option<Result<RelayerState, NotReady>>,
    }

    impl FakeRelayer {
        fn known(&self) -> Result<(), NotReady> {
            self.chains_not_ready.clone().map_or(Ok(()), Err)
        }
    }

    impl Relayer for FakeRelayer {
        fn components(&self) -> Vec<Component> {
            self.components.clone()
        }

        fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
            self.known()?;
            Ok(self.chains.iter().map(|chain| chain.id.clone()).collect())
        }

        fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
            self.known()?;
            Ok(self.chains.iter().find(|chain| chain.id == id).cloned())
        }

        fn state(&self) -> Result<RelayerState, NotReady> {
            self.state.clone().expect("the test sets a state")
        }
    }

    /// A chain of which nothing but the identifier is known.
    pub(crate) fn bare_chain(id: &str) -> ChainConfig {
        ChainConfig {
            id: id.to_owned(),
            kind: ChainKind::CosmosSdk,
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
