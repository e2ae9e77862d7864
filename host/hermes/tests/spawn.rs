//! Does the server take the place of the original, with a relayer at the other end of the
//! channel?

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use ibc_relayer::config::ChainConfig;
use ibc_relayer::rest::RestApiError;
use ibc_relayer::rest::request::{Request, VersionInfo};
use ibc_relayer::supervisor::dump_state::SupervisorState;
use relayer_rest_hermes::{Builder, Dialect, Polling, spawn};
use relayer_rest_host::control::ControlClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(120);

const CHAIN: &str = r#"
    type = "CosmosSdk"
    id = "ibc-0"
    rpc_addr = "http://user:secret@127.0.0.1:26657"
    grpc_addr = "http://127.0.0.1:9090"
    event_source = { mode = "pull", interval = "1s" }
    account_prefix = "cosmos"
    key_name = "testkey"
    store_prefix = "ibc"
    gas_price = { price = 0.025, denom = "stake" }
"#;

/// A relayer that handles one request at each tick.
struct Relayer {
    sender: Sender<Request>,
    requests: Arc<AtomicU32>,
}

impl Relayer {
    fn start() -> Self {
        let (sender, requests): (_, Receiver<Request>) = unbounded();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            for request in requests {
                counted.fetch_add(1, Ordering::Relaxed);
                handle(request);
            }
        });
        Self { sender, requests: count }
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn handle(request: Request) {
    match request {
        Request::Version { reply_to } => {
            let version = VersionInfo { name: "ibc-relayer".into(), version: "1.10.4".into() };
            reply_to.send(Ok(version)).unwrap();
        }
        Request::GetChains { reply_to } => reply_to.send(Ok(vec![chain().id().clone()])).unwrap(),
        Request::GetChain { chain_id, reply_to } => {
            let chain = chain();
            let is_known = *chain.id() == chain_id;
            let reply = if is_known { Ok(chain) } else { Err(unknown(chain_id)) };
            reply_to.send(reply).unwrap();
        }
        Request::State { reply_to } => {
            let state = SupervisorState::new(vec![chain().id().clone()], [].into_iter());
            reply_to.send(Ok(state)).unwrap();
        }
        Request::ClearPackets { .. } => panic!("packets are cleared"),
    }
}

fn unknown(id: ibc_relayer_types::core::ics24_host::identifier::ChainId) -> RestApiError {
    RestApiError::ChainConfigNotFound(id)
}

fn chain() -> ChainConfig {
    toml::from_str(CHAIN).unwrap()
}

/// An address that is free.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn quick() -> Builder {
    Builder::new()
        .without_control()
        .without_code_cache()
        .with_polling(Polling { poll: Duration::from_millis(5), ..Polling::default() })
}

/// Returns the status and the body of the response to a GET, with its head.
async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned(), head.to_owned())
}

/// Returns the body as soon as the status is 200.
async fn known(address: SocketAddr, path: &str) -> String {
    let known = async {
        loop {
            let (status, body, _) = get(address, path).await;
            if status == 200 {
                return body;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, known).await.unwrap()
}

#[tokio::test]
async fn the_api_of_the_relayer_is_served() {
    let relayer = Relayer::start();
    let address = free();
    let _server = quick().spawn(address, relayer.sender.clone()).unwrap();
    assert_eq!(
        known(address, "/state").await,
        r#"{"status":"success","result":{"chains":["ibc-0"],"workers":{}}}"#
    );
    assert_eq!(known(address, "/chains").await, r#"{"status":"success","result":["ibc-0"]}"#);
    let chain = known(address, "/chain/ibc-0").await;
    let expected = serde_json::to_string(&self::chain()).unwrap().replace("user:secret@", "");
    assert_eq!(chain, format!(r#"{{"status":"success","result":{expected}}}"#));
    let version = known(address, "/version").await;
    assert!(
        version.starts_with(
            r#"{"status":"success","result":[{"name":"ibc-relayer","version":"1.10.4"}"#
        )
    );
    assert_eq!(
        get(address, "/chain/x").await.1,
        r#"{"status":"error","result":{"name":"ChainConfigNotFound","msg":"could not find configuration for chain: x"}}"#
    );
    let head = get(address, "/state").await.2;
    assert!(head.contains("x-relayer-source: relayer\r\n"), "{head}");
}

/// Without the builder, and at the default pace.
#[tokio::test]
async fn no_request_of_a_client_reaches_the_relayer() {
    let relayer = Relayer::start();
    let address = free();
    let started = std::time::Instant::now();
    let _server = spawn(address, relayer.sender.clone()).unwrap();
    known(address, "/state").await;
    for _ in 0..500 {
        assert_eq!(get(address, "/state").await.0, 200);
    }
    // The version, the list and a chain, and the state twice a second: this relayer responds
    // at once, and not at its next tick.
    let most = 5.0 + 2.0 * started.elapsed().as_secs_f64();
    assert!(f64::from(relayer.requests()) <= most, "{} of {most}", relayer.requests());
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = spawn(address, Relayer::start().sender).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
    assert!(error.ends_with("choose another `port` in [rest]"), "{error}");
    let error = spawn("no address", Relayer::start().sender).unwrap_err().to_string();
    assert!(error.starts_with("cannot resolve the address of the REST API: "), "{error}");
}

#[tokio::test]
async fn settings_add_extensions_and_a_control_socket() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("relayer-rest.toml");
    fs::write(&settings, "[[extension]]\nname = 'dashboard'\n").unwrap();
    let socket = folder.path().join("control.sock");
    let address = free();
    let relayer = Relayer::start();
    let server = quick()
        .with_settings(&settings)
        .with_dialect(Dialect::V0_7)
        .with_control(&socket)
        .spawn(address, relayer.sender.clone())
        .unwrap();
    assert!(known(address, "/ext/dashboard/").await.contains("<!doctype html>"));
    assert!(known(address, "/version").await.starts_with('['));
    let control = ControlClient::new(&socket);
    let status = control.status().await.unwrap();
    assert_eq!(status.mounts.len(), 2);
    assert_eq!(status.sources[0].kind, "relayer");
    fs::write(&settings, "").unwrap();
    assert_eq!(control.reload().await.unwrap().removed, ["/ext/dashboard"]);
    fs::write(&settings, "[module]\nnonsense = 1\n").unwrap();
    control.reload().await.unwrap_err();
    server.abort();
    let closed = async {
        while socket.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, closed).await.unwrap();
    // Invalid settings are an error at the start.
    let error = quick().with_settings(&settings).spawn(free(), relayer.sender).unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}

#[cfg(not(feature = "fleet"))]
#[tokio::test]
async fn a_fleet_takes_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("relayer-rest.toml");
    fs::write(&settings, "[fleet]\npublish-to = 'nats://127.0.0.1:1/f'\n").unwrap();
    let relayer = Relayer::start();
    let error = quick().with_settings(&settings).spawn(free(), relayer.sender).unwrap_err();
    assert!(error.to_string().contains("enable the feature `fleet`"), "{error}");
}

#[cfg(feature = "fleet")]
#[tokio::test]
#[ignore = "needs nats-server"]
async fn the_state_is_published_to_a_fleet() {
    use relayer_rest_host::fleet::{FleetSettings, Subscription};
    use relayer_rest_host::state::StatePublisher;

    let folder = tempfile::tempdir().unwrap();
    let port = free().port();
    let mut nats = std::process::Command::new("nats-server")
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(folder.path())
        .spawn()
        .unwrap();
    let fleet = format!("nats://127.0.0.1:{port}/hermes");
    let settings = folder.path().join("relayer-rest.toml");
    fs::write(&settings, format!("[fleet]\npublish-to = '{fleet}'\n")).unwrap();
    let address = free();
    let relayer = Relayer::start();
    let _server = quick().with_settings(&settings).spawn(address, relayer.sender.clone()).unwrap();
    let replica = StatePublisher::new();
    let settings = FleetSettings::default();
    let max_stale = Duration::from_secs(3600);
    let subscription =
        Subscription::open(&fleet.parse().unwrap(), &settings, max_stale).await.unwrap();
    tokio::spawn(subscription.run(replica.clone()));
    let published = async {
        let state = replica.reader();
        while state.snapshot().fleet_generation().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
        state.snapshot()
    };
    let snapshot = timeout(DEADLINE, published).await.unwrap();
    assert_eq!(snapshot.chain_ids().value().as_ref().unwrap().len(), 1);
    nats.kill().unwrap();
    nats.wait().unwrap();
}

#[tokio::test]
async fn compiled_modules_are_kept_in_the_code_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let relayer = Relayer::start();
    let address = free();
    let server = || quick().with_code_cache(&cache).spawn(address, relayer.sender.clone()).unwrap();
    let entries = || {
        let entries = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        entries.map(|entry| (entry.len(), entry.created().unwrap())).collect::<Vec<_>>()
    };
    let first = server();
    known(address, "/state").await;
    let stored = entries();
    assert_eq!(stored.len(), 1);
    first.abort();
    timeout(DEADLINE, async { while is_listening(address).await {} }).await.unwrap();

    // The second start replaces nothing.
    let _second = server();
    known(address, "/state").await;
    assert_eq!(entries(), stored);

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = quick().with_code_cache(&file).spawn(free(), relayer.sender.clone()).unwrap_err();
    assert!(error.to_string().contains("RELAYER_REST_CODE_CACHE"), "{error}");
}

async fn is_listening(address: SocketAddr) -> bool {
    sleep(Duration::from_millis(10)).await;
    TcpStream::connect(address).await.is_ok()
}

#[tokio::test]
async fn the_task_ends_after_a_shutdown() {
    let (stop, stopped) = oneshot::channel::<()>();
    let address = free();
    let server = quick()
        .with_shutdown(async { drop(stopped.await) })
        .spawn(address, Relayer::start().sender)
        .unwrap();
    known(address, "/state").await;
    stop.send(()).unwrap();
    timeout(DEADLINE, server).await.unwrap().unwrap();
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn the_state_of_a_relayer_that_has_ended_is_stale() {
    let (sender, requests): (_, Receiver<Request>) = unbounded();
    let relayer = thread::spawn(move || {
        for request in requests.iter().take(5) {
            handle(request);
        }
    });
    let address = free();
    let _server = quick().spawn(address, sender).unwrap();
    known(address, "/state").await;
    relayer.join().unwrap();
    let stale = async {
        while !get(address, "/state").await.2.contains("warning: 110") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, stale).await.unwrap();
}
