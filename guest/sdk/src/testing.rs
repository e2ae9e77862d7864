//! A fake host, to run a handler natively, without WebAssembly, in tests.
//!
//! ```
//! use relayer_rest_sdk::testing::FakeHost;
//! use relayer_rest_sdk::{Host, Object, Request, Response, State};
//!
//! fn handle<H: Host>(host: &H, request: &Request) -> Result<Response, Response> {
//!     let state = host.state()?;
//!     let kinds = State::new(&state).workers().map(|worker| worker.object.kind());
//!     let limit = request.query_as("limit")?.unwrap_or(10);
//!     Ok(Response::json(200, &kinds.take(limit).collect::<Vec<_>>()))
//! }
//!
//! let host = FakeHost::new().with_worker(&Object::Wallet { chain_id: "ibc-0" });
//! assert_eq!(handle(&host, &Request::get("/")).unwrap().text_body(), r#"["Wallet"]"#);
//! assert_eq!(handle(&host, &Request::get("/?limit=0")).unwrap().text_body(), "[]");
//!
//! let host = FakeHost::not_ready("not yet");
//! assert_eq!(handle(&host, &Request::get("/")).unwrap_err().status, 503);
//! ```

use std::cell::RefCell;
use std::path::Path;
use std::{env, fs};

#[cfg(not(target_family = "wasm"))]
pub use crate::capsule::{Capsule, RecordedHost, RecordedResponse};
use crate::contract::{
    self, ChainConfig, ChainKind, ChannelObject, ClientObject, Component, ConnectionObject,
    CrossChainQueryObject, Label, MetricFamily, MetricKind, NotReady, OtherObject, RelayerState,
    Sample, Source, WalletObject,
};
use crate::host::{Host, Level};
use crate::openapi::OpenApi;
use crate::state::{Names, Object};

/// The environment variable with which [`check_openapi`] writes the file.
const UPDATE: &str = "UPDATE_OPENAPI";

/// Compares a document with a file of the package, which [`crate::openapi`] puts into the
/// module. If the environment variable `UPDATE_OPENAPI` is set, it writes the file.
///
/// # Panics
/// Panics if the file has another document, or cannot be read or written.
#[track_caller]
pub fn check_openapi(document: OpenApi, file: impl AsRef<Path>) {
    let file = file.as_ref();
    let mut document = document.into_json();
    let known = if env::var_os(UPDATE).is_some() {
        document.sort_all_objects();
        fs::write(file, format!("{document:#}\n")).map(|()| document.clone())
    } else {
        fs::read(file).and_then(|known| Ok(serde_json::from_slice(&known)?))
    };
    match known {
        Err(error) => panic!("{}: {error}; {UPDATE}=1 writes it", file.display()),
        Ok(known) => assert!(
            known == document,
            "{} is not the document of the routes; {UPDATE}=1 writes it",
            file.display()
        ),
    }
}

/// A host whose data is set by the test.
#[derive(Debug, Clone)]
pub struct FakeHost {
    /// The relayer's parts. Default: `ibc-relayer`, version `1.2.3`.
    pub components: Vec<Component>,
    /// The configured chains, or why they are not known. Default: no chains.
    pub chains: Result<Vec<ChainConfig>, NotReady>,
    /// The state, or why it is not known. Default: no connected chains and no workers.
    pub state: Result<RelayerState, NotReady>,
    /// The time of the last change, in nanoseconds since 1970-01-01T00:00:00Z. Default:
    /// 2026-01-01T00:00:00Z.
    pub changed: u64,
    /// The time since which the state is not confirmed, in nanoseconds since
    /// 1970-01-01T00:00:00Z. Default: `None`, it is confirmed.
    pub unconfirmed_since: Option<u64>,
    /// The sources of the data. Default: no sources.
    pub sources: Vec<Source>,
    /// The telemetry, or why it is not known. Default: it is not read.
    pub telemetry: Result<Vec<MetricFamily>, NotReady>,
    /// The time at which the telemetry was read, in nanoseconds since
    /// 1970-01-01T00:00:00Z. Default: 2026-01-01T00:00:00Z.
    pub scraped: u64,
    /// The path at which the module is mounted. Default: `/`.
    pub mount: String,
    log: RefCell<Vec<(Level, String)>>,
    cleared: RefCell<Vec<Option<String>>>,
}

impl Default for FakeHost {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeHost {
    /// Creates a host of a relayer without chains and workers.
    #[must_use]
    pub fn new() -> Self {
        let names = contract::Names { text: String::new(), ends: Vec::new() };
        Self {
            components: vec![Component { name: "ibc-relayer".into(), version: "1.2.3".into() }],
            chains: Ok(Vec::new()),
            state: Ok(RelayerState { chains: Vec::new(), names, workers: Vec::new() }),
            changed: 1_767_225_600_000_000_000,
            unconfirmed_since: None,
            sources: Vec::new(),
            telemetry: Err(NotReady {
                message: "the relayer's telemetry is not read".to_owned(),
                retry_after: 60_000_000_000,
            }),
            scraped: 1_767_225_600_000_000_000,
            mount: "/".to_owned(),
            log: RefCell::default(),
            cleared: RefCell::default(),
        }
    }

    /// Creates a host that knows neither the chains nor the state, with a retry time of
    /// 1 s.
    #[must_use]
    pub fn not_ready(message: &str) -> Self {
        let reason = NotReady { message: message.to_owned(), retry_after: 1_000_000_000 };
        Self { chains: Err(reason.clone()), state: Err(reason), ..Self::new() }
    }

    /// Adds a connected chain with the configuration [`chain()`].
    #[must_use]
    pub fn with_chain(self, id: &str) -> Self {
        let mut made_up = self.with_chain_config(chain(id));
        if let Ok(state) = &mut made_up.state {
            state.chains.push(id.to_owned());
            state.chains.sort();
        }
        made_up
    }

    /// Adds the configuration of a chain, which is not connected by this.
    #[must_use]
    pub fn with_chain_config(mut self, chain: ChainConfig) -> Self {
        if let Ok(chains) = &mut self.chains {
            chains.push(chain);
        }
        self
    }

    /// Adds a worker. Workers are numbered from 1, in the order in which they are added.
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

    /// Adds a sample of a gauge to the telemetry, which is then known. Its value has been
    /// the same since the telemetry was last read.
    #[must_use]
    pub fn with_metric(mut self, name: &str, labels: &[(&str, &str)], value: f64) -> Self {
        let label = |(name, value): &(&str, &str)| Label {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        let sample = Sample {
            name: name.to_owned(),
            labels: labels.iter().map(label).collect(),
            value,
            since: self.scraped,
        };
        let mut families = self.telemetry.unwrap_or_default();
        match families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => families.push(MetricFamily {
                name: name.to_owned(),
                kind: MetricKind::Gauge,
                help: String::new(),
                samples: vec![sample],
            }),
        }
        families.sort_by(|a, b| a.name.cmp(&b.name));
        self.telemetry = Ok(families);
        self
    }

    /// Sets the path at which the module is mounted.
    #[must_use]
    pub fn mounted_at(self, path: &str) -> Self {
        Self { mount: path.to_owned(), ..self }
    }

    /// Returns the chains of the commands to clear packets; `None` for all chains.
    #[must_use]
    pub fn cleared(&self) -> Vec<Option<String>> {
        self.cleared.borrow().clone()
    }

    /// Returns the lines that were written to the log.
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

    fn sources(&self) -> Vec<Source> {
        self.sources.clone()
    }

    fn metric_families(&self) -> Result<Vec<String>, NotReady> {
        let names = |families: &Vec<MetricFamily>| {
            families.iter().map(|family| family.name.clone()).collect()
        };
        self.telemetry.as_ref().map(names).map_err(Clone::clone)
    }

    fn metric_family(&self, name: &str) -> Result<Option<MetricFamily>, NotReady> {
        let families = self.telemetry.as_ref().map_err(Clone::clone)?;
        Ok(families.iter().find(|family| family.name == name).cloned())
    }

    fn scraped(&self) -> Result<u64, NotReady> {
        self.telemetry.as_ref().map(|_| self.scraped).map_err(Clone::clone)
    }

    fn clear_packets(&self, chain: Option<&str>) {
        self.cleared.borrow_mut().push(chain.map(str::to_owned));
    }

    fn mount(&self) -> String {
        self.mount.clone()
    }

    fn log(&self, level: Level, message: &str) {
        self.log.borrow_mut().push((level, message.to_owned()));
    }
}

/// Returns the position of an object's kind in the order of the contract.
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

/// Returns the index of a text, which is added if it is missing.
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

/// Returns the configuration of a Cosmos SDK chain of which only the identifier is known.
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
        genesis_restart: None,
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
