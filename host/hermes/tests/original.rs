//! Are the responses those of the original, byte for byte: of the server inside the relayer,
//! and of a server in front of the original?

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use ibc_relayer::config::ChainConfig;
use ibc_relayer::rest::RestApiError;
use ibc_relayer::rest::request::{Request, VersionInfo};
use ibc_relayer::supervisor::dump_state::SupervisorState;
use relayer_rest_hermes::{Builder, Polling};
use relayer_rest_host::Server;
use relayer_rest_host::module::{Engine, Limits, MODULE_1_13, Module};
use relayer_rest_host::state::{Endpoint, RelayerApi, RequestError, SourceKind, StatePublisher};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(120);

/// The chains of a relayer's configuration, and chains with unusual fields.
const CONFIGS: [&str; 2] = [include_str!("../../../tests/fixtures/hermes-1.13.toml"), UNUSUAL];

const UNUSUAL: &str = r#"
[[chains]]
type = "CosmosSdk"
id = "evmos_9001-2"
rpc_addr = "https://rpc.example:443/path"
grpc_addr = "tcp://127.0.0.1:9090"
event_source = { mode = "pull", interval = "2500ms", max_retries = 7 }
rpc_timeout = "1m 30s"
trusted_node = true
account_prefix = "evmos"
key_name = "a \"key\" \u00fc"
key_store_type = "Memory"
key_store_folder = "/keys"
store_prefix = "ibc"
default_gas = 0
max_gas = 1000000000000000
genesis_restart = { restart_height = "5200791", archive_addr = "http://archive.example/" }
gas_multiplier = 2
fee_granter = "evmos1granter"
max_msg_num = 1
max_tx_size = 2097152
max_grpc_decoding_size = "64 MiB"
query_packets_chunk_size = 10
clock_drift = "336h"
max_block_time = "30s"
trusting_period = "13h 26m 24s"
client_refresh_rate = "1/5"
ccv_consumer_chain = true
memo_prefix = "memo"
memo_overwrite = "over"
sequential_batch_tx = true
trust_threshold = "2/6"
gas_price = { price = 20000, denom = "aevmos" }
dynamic_gas_price = { enabled = true, multiplier = 1.5, max = 0.000001 }
address_type = { derivation = "ethermint", proto_type = { pk_type = "/ethermint.PubKey" } }
extension_options = [{ type = "ethermint_dynamic_fee", value = "1000" }]
compat_mode = "0.37"
clear_interval = 50
excluded_sequences = { "channel-9" = [1, 2, 3, 9] }
allow_ccq = false
[chains.packet_filter]
policy = "deny"
list = [["transfer", "channel-0"], ["ica*", "*"]]
[chains.packet_filter.min_fees."channel-1"]
recv = [{ amount = 10, denom = "aevmos" }, { amount = 0 }]

[[chains]]
type = "CosmosSdk"
id = "bare-1"
rpc_addr = "http://127.0.0.1:26657"
grpc_addr = "http://127.0.0.1:9090"
event_source = { mode = "push", url = "ws://127.0.0.1:26657/websocket" }
account_prefix = "bare"
store_prefix = "ibc"
key_name = "k"
gas_price = { price = 0, denom = "stake" }
packet_filter = { policy = "allow", list = [["transfer", "channel-*"]] }
"#;

/// A relayer, which responds at once.
#[derive(Clone)]
struct Relayer {
    chains: Arc<Vec<ChainConfig>>,
    state: Arc<Mutex<SupervisorState>>,
}

impl Relayer {
    /// Returns the sender of a channel to the relayer.
    fn channel(&self) -> Sender<Request> {
        let (sender, requests): (_, Receiver<Request>) = unbounded();
        let relayer = self.clone();
        thread::spawn(move || requests.into_iter().for_each(|request| relayer.handle(request)));
        sender
    }

    fn handle(&self, request: Request) {
        match request {
            Request::Version { reply_to } => {
                let version = VersionInfo { name: "ibc-relayer".into(), version: "1.10.4".into() };
                reply_to.send(Ok(version)).unwrap();
            }
            Request::GetChains { reply_to } => {
                let ids = self.chains.iter().map(|chain| chain.id().clone()).collect();
                reply_to.send(Ok(ids)).unwrap();
            }
            Request::GetChain { chain_id, reply_to } => {
                let chain = self.chains.iter().find(|chain| *chain.id() == chain_id).cloned();
                reply_to.send(chain.ok_or(RestApiError::ChainConfigNotFound(chain_id))).unwrap();
            }
            Request::State { reply_to } => {
                reply_to.send(Ok(self.state.lock().unwrap().clone())).unwrap();
            }
            Request::ClearPackets { reply_to, .. } => reply_to.send(Ok(())).unwrap(),
        }
    }
}

/// The chains of all files.
fn chains() -> Vec<ChainConfig> {
    let chains = CONFIGS.iter().flat_map(|config| {
        let mut config: toml::Table = toml::from_str(config).unwrap();
        config.remove("chains").unwrap().try_into::<Vec<toml::Value>>().unwrap()
    });
    chains.map(|chain| chain.try_into().unwrap()).collect()
}

/// A state with workers of all kinds, in the order of the relayer.
fn state(clients: u64) -> SupervisorState {
    let client = |id: u64| {
        json!({
            "id": id,
            "object": {
                "type": "Client", "dst_chain_id": "ibc-1",
                "dst_client_id": format!("07-tendermint-{id:03}"), "src_chain_id": "ibc-0",
            },
            "data": {"type": "Client", "misbehaviour": true, "refresh": id.is_multiple_of(2)},
        })
    };
    let path = |kind: &str, id: u64| {
        json!({"id": id, "data": null, "object": {
            "type": kind, "dst_chain_id": "ibc-1", "src_chain_id": "ibc-0",
            "src_channel_id": "channel-0", "src_port_id": "transfer",
        }})
    };
    let other = |id: u64, object: Value| json!({"id": id, "object": object, "data": null});
    let state = json!({"chains": ["ibc-0", "ibc-1"], "workers": {
        "Client": (0..clients).map(client).collect::<Vec<_>>(),
        "Channel": [path("Channel", 1001)],
        "Connection": [other(1002, json!({
            "type": "Connection", "dst_chain_id": "ibc-1", "src_chain_id": "ibc-0",
            "src_connection_id": "connection-0",
        }))],
        "Packet": [path("Packet", 1003)],
        "Wallet": [other(1004, json!({"type": "Wallet", "chain_id": "ibc-0"}))],
        "CrossChainQuery": [other(1005, json!({
            "type": "CrossChainQuery", "src_chain_id": "ibc-0", "dst_chain_id": "ibc-1",
            "query_id": "query-1", "connection_id": "connection-0",
        }))],
    }});
    serde_json::from_value(state).unwrap()
}

/// An address that is free.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns the status, the header `allow` and the body of a response.
async fn request(address: SocketAddr, method: &str, target: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let allow = head.lines().find_map(|line| line.strip_prefix("allow: ")).unwrap_or_default();
    (head[9..12].to_owned(), allow.to_owned(), body.to_owned())
}

/// Waits until a server responds as the original does.
async fn equals(original: SocketAddr, server: SocketAddr, method: &str, target: &str) {
    let mut last = None;
    let equal = async {
        loop {
            let mut expected = request(original, method, target).await;
            let mut found = request(server, method, target).await;
            for (_, _, body) in [&mut expected, &mut found] {
                // Only the version of the REST server itself differs.
                if let Some((versions, _)) = body.split_once(r#""ibc-relayer-rest","version":""#) {
                    *body = versions.to_owned();
                }
            }
            if found == expected {
                return;
            }
            last = Some((found, expected));
            sleep(Duration::from_millis(10)).await;
        }
    };
    let is_equal = timeout(DEADLINE, equal).await.is_ok();
    assert!(is_equal, "{method} {target}: {last:#?}");
}

/// A relayer whose original server is asked, as with `--upstream`.
struct OverHttp(SocketAddr);

impl RelayerApi for OverHttp {
    fn source(&self) -> (SourceKind, String) {
        (SourceKind::Upstream, format!("http://{}/", self.0))
    }

    async fn get(&self, endpoint: &Endpoint) -> Result<Vec<u8>, RequestError> {
        let target: String = endpoint.segments().flat_map(|segment| ["/", segment]).collect();
        Ok(request(self.0, "GET", &target).await.2.into_bytes())
    }
}

/// A server inside the relayer, and one in front of the original.
async fn servers(relayer: &Relayer, original: SocketAddr) -> [SocketAddr; 2] {
    let inside = free();
    let polling = Polling { poll: Duration::from_millis(5), ..Polling::default() };
    let server =
        Builder::new().without_control().without_code_cache().with_polling(polling.clone());
    drop(server.spawn(inside, relayer.channel()).unwrap());
    let publisher = StatePublisher::new();
    tokio::spawn(polling.run(OverHttp(original), publisher.clone()));
    let engine = Engine::new(&Limits::default()).unwrap();
    let module = Module::from_bytes(&engine, "1.13", MODULE_1_13).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let server = Server::new(module, publisher.reader());
    tokio::spawn(server.serve(listener, std::future::pending()));
    [inside, front]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_equals_the_original() {
    let relayer = Relayer { chains: Arc::new(chains()), state: Arc::new(Mutex::new(state(3))) };
    let original = free();
    let _original = original::spawn(original, relayer.channel()).unwrap();
    let servers = servers(&relayer, original).await;
    let mut requests = vec![
        ("GET", "/version".to_owned()),
        ("GET", "/chains".to_owned()),
        ("GET", "/state".to_owned()),
        ("GET", "/chain/nope".to_owned()),
        ("GET", "/nope".to_owned()),
        ("GET", "/chains/".to_owned()),
        ("GET", "/chains?a=b".to_owned()),
        ("HEAD", "/state".to_owned()),
        ("POST", "/chains".to_owned()),
        ("DELETE", "/state".to_owned()),
    ];
    assert_eq!(relayer.chains.len(), 4);
    for chain in relayer.chains.iter() {
        requests.push(("GET", format!("/chain/{}", chain.id())));
    }
    for server in servers {
        for (method, target) in &requests {
            equals(original, server, method, target).await;
        }
    }
    // Workers appear and disappear.
    for clients in [200, 1, 2] {
        *relayer.state.lock().unwrap() = state(clients);
        for server in servers {
            equals(original, server, "GET", "/state").await;
        }
    }
    *relayer.state.lock().unwrap() =
        serde_json::from_value(json!({"chains": [], "workers": {}})).unwrap();
    for server in servers {
        equals(original, server, "GET", "/state").await;
    }
}
