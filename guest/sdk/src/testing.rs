//! A host made up in a test: a handler is run against it without WebAssembly.
//!
//! ```
//! use relayer_rest_sdk::testing::FakeHost;
//! use relayer_rest_sdk::{Host, Level, Object, Request, Response, State};
//!
//! fn handle<H: Host>(host: &H, _: &Request) -> Response {
//!     match host.state() {
//!         Ok(state) => {
//!             let kinds: Vec<_> = State::new(&state).workers().map(|w| w.object.kind()).collect();
//!             Response::json(200, &kinds)
//!         }
//!         Err(reason) => {
//!             host.log(Level::Warn, &reason.message);
//!             Response::not_ready(&reason)
//!         }
//!     }
//! }
//!
//! let host = FakeHost::new().with_worker(&Object::Wallet { chain_id: "ibc-0" });
//! assert_eq!(handle(&host, &Request::get("/")).text_body(), r#"["Wallet"]"#);
//!
//! let host = FakeHost::not_ready("not yet");
//! assert_eq!(handle(&host, &Request::get("/")).status, 503);
//! assert_eq!(host.logged(), [(Level::Warn, "not yet".to_owned())]);
//! ```

use std::cell::RefCell;

use crate::contract::{
    self, ChainConfig, ChainKind, ChannelObject, ClientObject, Component, ConnectionObject,
    CrossChainQueryObject, NotReady, OtherObject, RelayerState, WalletObject,
};
use crate::host::{Host, Level};
use crate::state::{Names, Object};

/// What the host shows, as the test wants it.
#[derive(Debug, Clone)]
pub struct FakeHost {
    /// The relayer's parts. At first `ibc-relayer` in a made-up version.
    pub components: Vec<Component>,
    /// The chains, or why they are not known. At first none.
    pub chains: Result<Vec<ChainConfig>, NotReady>,
    /// The state, or why it is not known. At first one without chains or
    /// workers.
    pub state: Result<RelayerState, NotReady>,
    /// When something last changed. At first 2026-01-01T00:00:00Z.
    pub changed: u64,
    /// Since when nothing is confirmed. At first it is.
    pub unconfirmed_since: Option<u64>,
    /// The request's headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The request's query. At first none.
    pub query: Option<String>,
    /// Where the module is mounted. At first `/`.
    pub mount: String,
    log: RefCell<Vec<(Level, String)>>,
}

impl Default for FakeHost {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeHost {
    /// A relayer that has nothing and does nothing.
    #[must_use]
    pub fn new() -> Self {
        let names = contract::Names { text: String::new(), ends: Vec::new() };
        Self {
            components: vec![Component { name: "ibc-relayer".into(), version: "1.2.3".into() }],
            chains: Ok(Vec::new()),
            state: Ok(RelayerState { chains: Vec::new(), names, workers: Vec::new() }),
            changed: 1_767_225_600_000_000_000,
            unconfirmed_since: None,
            headers: Vec::new(),
            query: None,
            mount: "/".to_owned(),
            log: RefCell::default(),
        }
    }

    /// A relayer of which neither the chains nor the state are known.
    #[must_use]
    pub fn not_ready(message: &str) -> Self {
        let reason = NotReady { message: message.to_owned(), retry_after: 1_000_000_000 };
        Self { chains: Err(reason.clone()), state: Err(reason), ..Self::new() }
    }

    /// With a chain more, which is connected, and of which nothing but this is
    /// known.
    #[must_use]
    pub fn with_chain(self, id: &str) -> Self {
        let mut made_up = self.with_chain_config(chain(id));
        if let Ok(state) = &mut made_up.state {
            state.chains.push(id.to_owned());
            state.chains.sort();
        }
        made_up
    }

    /// With the configuration of a chain more.
    #[must_use]
    pub fn with_chain_config(mut self, chain: ChainConfig) -> Self {
        if let Ok(chains) = &mut self.chains {
            chains.push(chain);
        }
        self
    }

    /// With a worker more. Its number is the next one from 1 on.
    #[must_use]
    pub fn with_worker(mut self, object: &Object<'_>) -> Self {
        if let Ok(state) = &mut self.state {
            let object = in_contract(object, &mut state.names);
            let id = state.workers.len() as u64 + 1;
            state.workers.push(contract::Worker { id, object, data: None });
            state.workers.sort_by_key(|worker| rank(&worker.object));
        }
        self
    }

    /// With a header of the request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    /// With a query of the request, without the `?`.
    #[must_use]
    pub fn with_query(self, query: &str) -> Self {
        Self { query: Some(query.to_owned()), ..self }
    }

    /// Mounted elsewhere.
    #[must_use]
    pub fn mounted_at(self, path: &str) -> Self {
        Self { mount: path.to_owned(), ..self }
    }

    /// What was written to the log.
    #[must_use]
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.log.borrow().clone()
    }
}

impl Host for FakeHost {
    fn components(&self) -> Vec<Component> {
        self.components.clone()
    }

    fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
        let ids = |chains: &Vec<ChainConfig>| chains.iter().map(|chain| chain.id.clone()).collect();
        self.chains.as_ref().map(ids).map_err(Clone::clone)
    }

    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
        let chains = self.chains.as_ref().map_err(Clone::clone)?;
        Ok(chains.iter().find(|chain| chain.id == id).cloned())
    }

    fn state(&self) -> Result<RelayerState, NotReady> {
        self.state.clone()
    }

    fn changed(&self) -> u64 {
        self.changed
    }

    fn unconfirmed_since(&self) -> Option<u64> {
        self.unconfirmed_since
    }

    fn header(&self, name: &str) -> Vec<Vec<u8>> {
        let same = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.clone()).collect()
    }

    fn query(&self) -> Option<String> {
        self.query.clone()
    }

    fn mount(&self) -> String {
        self.mount.clone()
    }

    fn log(&self, level: Level, message: &str) {
        self.log.borrow_mut().push((level, message.to_owned()));
    }
}

/// The contract's order of kinds.
fn rank(object: &contract::Object) -> u8 {
    match object {
        contract::Object::Client(_) => 0,
        contract::Object::Channel(_) => 1,
        contract::Object::Connection(_) => 2,
        contract::Object::Packet(_) => 3,
        contract::Object::Wallet(_) => 4,
        contract::Object::CrossChainQuery(_) => 5,
        contract::Object::Other(_) => 6,
    }
}

/// The number of a text, which is added where it is not there.
fn name(text: &str, names: &mut contract::Names) -> contract::Name {
    let known = (0..)
        .zip(&names.ends)
        .find_map(|(number, _)| (Names::new(names).text(number) == text).then_some(number));
    known.unwrap_or_else(|| {
        names.text.push_str(text);
        names.ends.push(u32::try_from(names.text.len()).expect("a test has few names"));
        u32::try_from(names.ends.len() - 1).expect("a test has few names")
    })
}

fn in_contract(object: &Object<'_>, names: &mut contract::Names) -> contract::Object {
    let mut name = |text: &str| name(text, names);
    match *object {
        Object::Client { dst_chain_id, dst_client_id, src_chain_id } => {
            contract::Object::Client(ClientObject {
                dst_chain_id: name(dst_chain_id),
                dst_client_id: name(dst_client_id),
                src_chain_id: name(src_chain_id),
            })
        }
        Object::Channel { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => {
            contract::Object::Channel(ChannelObject {
                dst_chain_id: name(dst_chain_id),
                src_chain_id: name(src_chain_id),
                src_channel_id: name(src_channel_id),
                src_port_id: name(src_port_id),
            })
        }
        Object::Connection { dst_chain_id, src_chain_id, src_connection_id } => {
            contract::Object::Connection(ConnectionObject {
                dst_chain_id: name(dst_chain_id),
                src_chain_id: name(src_chain_id),
                src_connection_id: name(src_connection_id),
            })
        }
        Object::Packet { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => {
            contract::Object::Packet(ChannelObject {
                dst_chain_id: name(dst_chain_id),
                src_chain_id: name(src_chain_id),
                src_channel_id: name(src_channel_id),
                src_port_id: name(src_port_id),
            })
        }
        Object::Wallet { chain_id } => {
            contract::Object::Wallet(WalletObject { chain_id: name(chain_id) })
        }
        Object::CrossChainQuery { src_chain_id, dst_chain_id, query_id, connection_id } => {
            contract::Object::CrossChainQuery(CrossChainQueryObject {
                src_chain_id: name(src_chain_id),
                dst_chain_id: name(dst_chain_id),
                query_id: name(query_id),
                connection_id: name(connection_id),
            })
        }
        Object::Other { kind, fields } => {
            contract::Object::Other(OtherObject { kind: name(kind), fields: fields.to_vec() })
        }
    }
}

/// A chain of which nothing but the identifier is known.
#[must_use]
pub fn chain(id: &str) -> ChainConfig {
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
