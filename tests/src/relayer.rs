//! A scripted relayer: it responds like the original, or with a scripted fault.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relayer_rest_host::state::{Polling, Upstream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::wait::DEADLINE;

/// The responses of the relayer, and its faults.
#[derive(Debug, Clone)]
pub struct Script {
    /// The result of `/version`.
    pub version: Value,
    /// Whether the result of `/version` has an envelope.
    pub enveloped_version: bool,
    /// The chains' configurations, in the order of `/chains`.
    pub chains: Vec<Value>,
    /// The result of `/state`.
    pub state: Value,
    /// The time that each response takes, unless [`Relayer::permit`] permits it before. The
    /// relayer handles one request at a time.
    pub tick: Duration,
    /// The current fault.
    pub fault: Option<Fault>,
    /// A chain whose response is garbage.
    pub broken_chain: Option<String>,
    /// A chain whose response is an error other than that the chain is unknown.
    pub refused_chain: Option<String>,
    /// Response bodies by path, which are sent unchanged instead of the scripted ones.
    pub bodies: HashMap<String, Arc<[u8]>>,
}

/// A fault of the relayer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The body is not JSON.
    Garbage,
    /// The body is half of the JSON, with a matching length.
    HalfJson,
    /// The connection is closed in the middle of the response.
    ClosesMidResponse,
    /// The body is padded with this many bytes.
    Oversized(usize),
    /// No response is sent.
    Hangs,
    /// The status is 500.
    Status500,
    /// The body is an error of the relayer's.
    Refuses,
}

/// A relayer, which runs until it is dropped or stopped by [`go`](Self::go).
pub struct Relayer {
    /// The address that it listens on.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    /// Held for the time of one response: the relayer handles one request at a time.
    tick: tokio::sync::Mutex<()>,
    permits: Notify,
    seen: Mutex<Seen>,
}

/// The requests that the relayer received.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The number of requests by path; other methods than GET are in front of the path.
    pub paths: HashMap<String, u32>,
    /// The values of `traceparent`.
    pub traceparents: Vec<String>,
    /// The path of the first request.
    pub first: Option<String>,
    /// The highest number of concurrent requests.
    pub most_at_once: u32,
    now: u32,
}

impl Script {
    /// Returns two chains with two clients each, in the format of version 0.7.
    #[must_use]
    pub fn of_0_7() -> Self {
        let chain = |id: &str| {
            json!({
                "id": id, "rpc_addr": "http://127.0.0.1:26657/",
                "websocket_addr": "ws://127.0.0.1:26657/websocket",
                "grpc_addr": "http://127.0.0.1:9090/", "rpc_timeout": "10s",
                "account_prefix": "cosmos", "key_name": "testkey", "store_prefix": "ibc",
                "max_gas": 3_000_000, "gas_multiplier": 1.1, "max_msg_num": 30,
                "max_tx_size": 2_097_152, "clock_drift": "5s", "trusting_period": "14days",
                "trust_threshold": {"numerator": "1", "denominator": "3"},
                "gas_price": {"price": 0.001, "denom": "stake"},
                "packet_filter": {"policy": "allow", "list": [["transfer", "channel-0"], ["ica*", "*"]]},
            })
        };
        Self {
            version: json!([
                {"name": "ibc-relayer", "version": "0.7.0"},
                {"name": "ibc-relayer-rest", "version": "0.1.0"},
            ]),
            enveloped_version: false,
            chains: ["ibc-0", "ibc-1"].map(chain).to_vec(),
            state: state(&["ibc-0", "ibc-1"], 2, false),
            tick: Duration::ZERO,
            fault: None,
            broken_chain: None,
            refused_chain: None,
            bodies: HashMap::new(),
        }
    }

    /// Returns the chains and clients of [`of_0_7`](Self::of_0_7), in the format of
    /// version 1.13.
    #[must_use]
    pub fn of_1_13() -> Self {
        let chain = |id: &str| {
            json!({
                "type": "CosmosSdk", "id": id, "rpc_addr": "http://127.0.0.1:26657/",
                "grpc_addr": "http://127.0.0.1:9090/",
                "event_source": {
                    "mode": "push", "url": "ws://127.0.0.1:26657/websocket", "batch_delay": "500ms"
                },
                "rpc_timeout": "10s", "trusted_node": false, "account_prefix": "cosmos",
                "key_name": "testkey", "key_store_type": "Test", "key_store_folder": null,
                "store_prefix": "ibc", "default_gas": 100_000, "max_gas": 3_000_000,
                "genesis_restart": null, "gas_adjustment": null, "gas_multiplier": 1.1,
                "fee_granter": null, "max_msg_num": 30, "max_tx_size": 2_097_152,
                "max_grpc_decoding_size": 33_554_432, "query_packets_chunk_size": 50,
                "clock_drift": "5s", "max_block_time": "30s", "trusting_period": "14days",
                "client_refresh_rate": "1/3", "ccv_consumer_chain": false, "memo_prefix": "",
                "memo_overwrite": null, "sequential_batch_tx": false,
                "trust_threshold": {"numerator": 1, "denominator": 3},
                "gas_price": {"price": 0.001, "denom": "stake"},
                "packet_filter": {
                    "policy": "allow", "list": [["transfer", "channel-0"], ["ica*", "*"]], "min_fees": {}
                },
                "dynamic_gas_price": {"enabled": false, "multiplier": 1.1, "max": 0.6},
                "address_type": {"derivation": "cosmos"}, "compat_mode": null,
                "clear_interval": null, "excluded_sequences": {}, "allow_ccq": true,
            })
        };
        Self {
            version: json!([
                {"name": "ibc-relayer", "version": "1.13.1+f44aa39"},
                {"name": "ibc-relayer-rest", "version": "0.29.2"},
            ]),
            enveloped_version: true,
            chains: ["ibc-0", "ibc-1"].map(chain).to_vec(),
            state: state(&["ibc-0", "ibc-1"], 2, true),
            ..Self::of_0_7()
        }
    }
}

/// Returns the result of `/state` for these chains. Each chain has this number of clients
/// of the next one, with or without the `data` field that workers have today.
#[must_use]
pub fn state(chains: &[&str], clients: usize, with_data: bool) -> Value {
    let mut workers = Vec::new();
    for (place, src) in chains.iter().enumerate() {
        let dst = chains[(place + 1) % chains.len()];
        for client in 0..clients {
            let mut worker = json!({"id": workers.len() + 1, "object": {
                "type": "Client", "dst_chain_id": dst,
                "dst_client_id": format!("07-tendermint-{client:02}"), "src_chain_id": src,
            }});
            if with_data {
                worker["data"] = json!({"type": "Client", "misbehaviour": true, "refresh": true});
            }
            workers.push(worker);
        }
    }
    json!({"chains": chains, "workers": {"Client": workers}})
}

impl Relayer {
    /// Starts a relayer that follows this script.
    #[must_use]
    pub fn start(script: Script) -> Self {
        let shared = Shared {
            script: Mutex::new(script),
            tick: tokio::sync::Mutex::new(()),
            permits: Notify::new(),
            seen: Mutex::default(),
        };
        let socket = reusable(([127, 0, 0, 1], 0).into());
        Self::listen(socket.listen(64).unwrap(), Arc::new(shared))
    }

    fn listen(listener: TcpListener, shared: Arc<Shared>) -> Self {
        let address = listener.local_addr().unwrap();
        let listening = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                // Connections end with the listener: a stopped relayer does not respond
                // any more.
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { shared.connection(stream).await });
                }
            }
        });
        Self { address, shared, listening }
    }

    /// Changes the script.
    pub fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.shared.script.lock().unwrap());
    }

    /// Permits the response to the current request, or to the next one if there is none,
    /// before the script's `tick` is over.
    pub fn permit(&self) {
        self.shared.permits.notify_one();
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Returns the URL of its API.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns an upstream with a short poll interval.
    #[must_use]
    pub fn upstream(&self) -> Upstream {
        self.upstream_with(|_| {})
    }

    /// Returns an upstream with other settings for polling.
    #[must_use]
    pub fn upstream_with(&self, change: impl FnOnce(&mut Polling)) -> Upstream {
        // A busy machine is not a fault of the relayer.
        let mut polling =
            Polling { poll: Duration::from_millis(5), timeout: DEADLINE, ..Polling::default() };
        change(&mut polling);
        Upstream { body_limit: 1 << 20, polling, ..Upstream::new(&self.url()).unwrap() }
    }

    /// Stops: closes all connections and refuses new ones.
    pub async fn go(self) -> GoneRelayer {
        // While the listener has the address, so that nothing else can take it.
        let place = reusable(self.address);
        self.listening.abort();
        self.listening.await.unwrap_err();
        GoneRelayer { place, shared: self.shared }
    }
}

/// Returns a socket with this address, which another one of this process may have.
fn reusable(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

/// A stopped relayer.
pub struct GoneRelayer {
    /// Reserves the address without listening on it.
    place: TcpSocket,
    shared: Arc<Shared>,
}

impl GoneRelayer {
    /// Starts again, on the same address.
    #[must_use]
    pub fn come_back(self) -> Relayer {
        Relayer::listen(self.place.listen(64).unwrap(), self.shared)
    }
}

impl Shared {
    async fn connection(&self, stream: TcpStream) {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let (method, rest) = line.split_once(' ').unwrap();
            let path = rest.split(' ').next().unwrap().to_owned();
            let request = if method == "GET" { path.clone() } else { format!("{method} {path}") };
            while let Ok(Some(line)) = lines.next_line().await
                && !line.is_empty()
            {
                if let Some(value) = line.strip_prefix("traceparent: ") {
                    self.seen.lock().unwrap().traceparents.push(value.to_owned());
                }
            }
            self.begin(&request);
            let response = self.response(&path).await;
            self.seen.lock().unwrap().now -= 1;
            if writer.write_all(&response.bytes).await.is_err() || response.closes {
                return;
            }
        }
    }

    fn begin(&self, request: &str) {
        let mut seen = self.seen.lock().unwrap();
        *seen.paths.entry(request.to_owned()).or_default() += 1;
        seen.first.get_or_insert_with(|| request.to_owned());
        seen.now += 1;
        seen.most_at_once = seen.most_at_once.max(seen.now);
    }

    async fn response(&self, path: &str) -> RawResponse {
        if self.script.lock().unwrap().fault == Some(Fault::Hangs) {
            return std::future::pending().await;
        }
        let _one_at_a_time = self.tick.lock().await;
        let script = self.script.lock().unwrap().clone();
        if !script.tick.is_zero() {
            // Either the time is over or the response is permitted.
            timeout(script.tick, self.permits.notified()).await.ok();
        }
        if let Some(body) = script.bodies.get(path) {
            return RawResponse::of_bytes(200, body);
        }
        let success = |result: &Value| json!({"status": "success", "result": result}).to_string();
        let good = match path {
            "/version" if script.enveloped_version => success(&script.version),
            "/version" => script.version.to_string(),
            "/chains" => success(&script.chains.iter().map(|chain| chain["id"].clone()).collect()),
            "/state" => success(&script.state),
            _ => {
                let id = path.strip_prefix("/chain/").unwrap_or(path);
                if script.broken_chain.as_deref() == Some(id) {
                    return RawResponse::whole(200, "]garbage[");
                }
                if script.refused_chain.as_deref() == Some(id) {
                    let result = json!({"name": "Busy", "msg": "try again"});
                    let body = json!({"status": "error", "result": result});
                    return RawResponse::whole(200, &body.to_string());
                }
                match script.chains.iter().find(|chain| chain["id"] == id) {
                    Some(chain) => success(chain),
                    None => refusal(id),
                }
            }
        };
        match script.fault {
            None | Some(Fault::Hangs) => RawResponse::whole(200, &good),
            Some(Fault::Garbage) => RawResponse::whole(200, "<html>not what you want</html>"),
            Some(Fault::HalfJson) => RawResponse::whole(200, &good[..good.len() / 2]),
            Some(Fault::ClosesMidResponse) => {
                let whole = RawResponse::whole(200, &good);
                let half = whole.bytes.len() - good.len() / 2;
                RawResponse { bytes: whole.bytes[..half].to_vec(), closes: true }
            }
            Some(Fault::Oversized(size)) => RawResponse::whole(200, &(good + &" ".repeat(size))),
            Some(Fault::Status500) => RawResponse::whole(500, &good),
            Some(Fault::Refuses) => RawResponse::whole(200, &refusal("any")),
        }
    }
}

fn refusal(id: &str) -> String {
    let msg = format!("could not find configuration for chain: {id}");
    json!({"status": "error", "result": {"name": "ChainConfigNotFound", "msg": msg}}).to_string()
}

struct RawResponse {
    bytes: Vec<u8>,
    closes: bool,
}

impl RawResponse {
    fn whole(status: u16, body: &str) -> Self {
        Self::of_bytes(status, body.as_bytes())
    }

    fn of_bytes(status: u16, body: &[u8]) -> Self {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        Self { bytes: [head.as_bytes(), body].concat(), closes: false }
    }
}
