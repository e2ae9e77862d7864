//! Do the threads that serve connections respond alike?

use std::collections::{HashMap, HashSet};
use std::fs;
use std::future::pending;
use std::iter::repeat_n;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use relayer_rest_host::config::ListenAddress;
use relayer_rest_host::module::Module;
use relayer_rest_host::state::{RelayerState, StatePublisher, sample};
use relayer_rest_host::{
    HttpLimits, Listener, RequestObservation, RequestObserver, Server, ServerSettings,
};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::namespace::{OWN_MOUNTS, has_own_mounts};
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::{TestServer, any_dialect, engine, label, patient};
use relayer_rest_tests::wait::{until, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;

/// The number of connections: several for each thread, on most machines.
const CONNECTIONS: usize = 32;

/// The number of hits after which a thread has certainly copied a response.
const HITS: usize = 100;

#[tokio::test]
async fn hits_on_all_threads_follow_the_state_and_the_module() {
    let server = TestServer::start().await;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(server.connect().await);
    }
    for round in 0..5 {
        let chain = format!("chain-{round}");
        let state = RelayerState { chains: vec![chain.as_str().into()], workers: Vec::new() };
        server.publisher.set_state(state);
        for client in &mut clients {
            for _ in 0..HITS.div_ceil(CONNECTIONS) {
                let response = client.get("/state").await;
                assert!(response.text().contains(&chain), "{chain}: {}", response.text());
            }
            // HEAD and a query have the same entry in the cache.
            let head = client.request("HEAD", "/state?any").await;
            assert_eq!((head.status.as_u16(), head.text()), (200, ""));
        }
    }
    let new = component::of_response(200, &[], b"new");
    assert!(server.swap_as(any_dialect(new.clone())).await.is_accepted());
    for client in &mut clients {
        let response = client.get("/state").await;
        assert_eq!(response.text(), "new");
        assert_eq!(response.header("x-relayer-module"), label(&new));
    }
    server.api().rollback().unwrap();
    for client in &mut clients {
        assert!(client.get("/state").await.text().contains("chain-4"));
    }
}

#[tokio::test]
async fn hits_on_all_threads_get_the_encoding_that_each_client_accepts() {
    let server = TestServer::start().await;
    let chains = (0..200).map(|number| format!("chain-{number}").into()).collect();
    server.publisher.set_state(RelayerState { chains, workers: Vec::new() });
    let mut client = server.connect().await;
    let mut bodies = HashSet::new();
    for _ in 0..HITS {
        for encoding in ["identity", "gzip", "br", "zstd"] {
            let headers = [("accept-encoding", encoding)];
            let response = client.request_with("GET", "/state", &headers).await;
            let used = response
                .headers
                .get("content-encoding")
                .map_or("identity", |encoding| encoding.to_str().unwrap());
            assert_eq!(used, encoding);
            bodies.insert((encoding, response.body.to_vec()));
        }
    }
    assert_eq!(bodies.len(), 4, "each encoding has one body");
}

/// The number of servers until one distributes its connections, on a busy machine.
const ATTEMPTS: usize = 20;

/// Records the thread of each request, by its `user-agent`.
#[derive(Default)]
struct Threads(Mutex<Vec<(String, ThreadId)>>);

impl RequestObserver for Threads {
    fn begin(&self, _: SystemTime, headers: &HeaderMap) -> Option<Box<dyn RequestObservation>> {
        let client = headers["user-agent"].to_str().unwrap().to_owned();
        self.0.lock().unwrap().push((client, thread::current().id()));
        None
    }
}

/// Sends a request without a body in the response, and receives the response.
async fn head(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), client: usize) {
    let request = format!("HEAD /version HTTP/1.1\r\nhost: h\r\nuser-agent: {client}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        assert_ne!(within("a response", stream.read_buf(&mut response)).await.unwrap(), 0);
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// Opens connections to a server with two threads, and sends two requests on each, which one thread
/// handles. Returns whether each thread has several connections: one that the system lets wait gets
/// fewer.
async fn are_distributed<S>(listener: Listener, connect: impl AsyncFn() -> S) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let threads = Arc::new(Threads::default());
    let observer: Arc<dyn RequestObserver> = threads.clone();
    let publisher = StatePublisher::new();
    sample(&publisher);
    let module = Module::embedded(&engine(&patient())).unwrap();
    let server = Server::new(module, publisher.reader())
        .with_settings(ServerSettings { workers: 2, ..ServerSettings::default() })
        .with_limits(HttpLimits { idle: Duration::from_hours(1), ..HttpLimits::default() })
        .with_observers([observer]);
    let serving = tokio::spawn(server.serve(listener, pending()));
    let mut streams = Vec::new();
    for client in 0..8 {
        streams.push(connect().await);
        head(&mut streams[client], client).await;
    }
    for (client, stream) in streams.iter_mut().enumerate() {
        head(stream, client).await;
    }
    serving.abort();
    let requests = threads.0.lock().unwrap();
    assert_eq!(requests.len(), 16);
    let connections: HashSet<_> = requests.iter().collect();
    assert_eq!(connections.len(), 8, "the thread of a connection changed: {requests:?}");
    let mut counts = HashMap::new();
    for (_, thread) in connections {
        *counts.entry(thread).or_insert(0) += 1;
    }
    counts.len() == 2 && counts.values().all(|count| *count >= 2)
}

#[tokio::test]
async fn the_connections_of_a_listener_of_the_program_are_distributed() {
    for _ in 0..ATTEMPTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = async || TcpStream::connect(address).await.unwrap();
        if are_distributed(listener.into(), connect).await {
            return;
        }
    }
    panic!("a thread has hardly any connections");
}

#[tokio::test]
async fn the_connections_of_sockets_of_one_address_are_distributed() {
    for _ in 0..ATTEMPTS {
        let address: ListenAddress = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address.into()).await.unwrap();
        let address = listener.address().unwrap().to_string();
        let connect = async || TcpStream::connect(&address).await.unwrap();
        if are_distributed(listener, connect).await {
            return;
        }
    }
    panic!("a thread has hardly any connections");
}

#[tokio::test]
async fn the_connections_of_a_unix_socket_are_distributed() {
    for _ in 0..ATTEMPTS {
        let folder = Folder::new();
        let path = folder.join("api.sock");
        let listener = Listener::from_unix(UnixListener::bind(&path).unwrap()).unwrap();
        if are_distributed(listener, async || UnixStream::connect(&path).await.unwrap()).await {
            return;
        }
    }
    panic!("a thread has hardly any connections");
}

/// Moves a process to the last of its cores.
#[cfg(target_os = "linux")]
const ONE_CORE: &str = "taskset -c -p \"$(taskset -c -p $$ | grep -o '[0-9]*$')\" $$ >&2";

/// Returns the number of threads that serve connections, when at least this many have their names: a
/// thread gets its name after it has started.
#[cfg(target_os = "linux")]
async fn workers(serving: &Serving, least: usize) -> usize {
    let workers = || {
        let threads = fs::read_dir(format!("/proc/{}/task", serving.id())).unwrap();
        let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")));
        names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("worker-"))).count()
    };
    until("all threads have their names", || workers() >= least).await;
    workers()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_number_of_threads_is_a_setting() {
    let folder = Folder::new();
    let settings = folder.write("settings.toml", "[server]\nworkers = 3\n");
    let serving = Program::server().args(["--config", &settings]).start().await;
    assert_eq!(workers(&serving, 3).await, 3);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn there_is_a_thread_for_each_core_that_the_process_may_use() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let serving = Program::server().start().await;
    assert_eq!(workers(&serving, cores).await, cores);
    let serving = Program::server().after(ONE_CORE).start().await;
    assert_eq!(workers(&serving, 1).await, 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_has_a_socket_for_each_core() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let serving = Program::server().start().await;
    assert_eq!(serving.accept_queues().len(), cores.min(16));
}

/// Requests that wait for a turn on their thread have no permits to run, which are fewer.
#[tokio::test]
async fn more_short_misses_than_permits_get_responses() {
    // The runs are shorter at first, and a busy machine can take some of any length for slow ones, which
    // have permits.
    for count in [100_000, 10_000, 1_000, 100].into_iter().chain(repeat_n(10, 40)) {
        if has_responses_to_short_misses(count).await {
            return;
        }
    }
    panic!("requests that wait for a turn were refused");
}

/// Returns whether all of more requests than permits get a response, whose runs count to a number.
async fn has_responses_to_short_misses(count: u32) -> bool {
    let module = component::that_takes_on_slow(count);
    let server = TestServer::builder().component(&module).limits(&patient()).workers(1);
    let server = server.http(HttpLimits { connections_per_peer: 2_000, ..HttpLimits::default() });
    let server = server.start().await;
    let mut clients = Vec::new();
    let permits = patient().concurrency + patient().queue;
    for number in 0..2 * permits {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The last bytes of all come together.
        let head = format!("GET /slow/{number} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        clients.push(stream);
    }
    for client in &mut clients {
        client.write_all(b"\r\n").await.unwrap();
    }
    let mut is_refused = false;
    for client in &mut clients {
        let mut response = String::new();
        within("a response", client.read_to_string(&mut response)).await.unwrap();
        let is_overloaded = response.starts_with("HTTP/1.1 503 ");
        assert!(is_overloaded || response.starts_with("HTTP/1.1 204 "), "{response}");
        is_refused |= is_overloaded;
    }
    !is_refused
}

/// A slow guest moves to a thread of a lower priority, and gets a part of the core there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_slow_guest_completes_while_hits_keep_its_core_busy() {
    let folder = Folder::new();
    let module = folder.write("slow.wasm", component::that_takes_on_slow(100_000_000));
    let settings = folder.write(
        "settings.toml",
        "[module.limits]\ntime = '10min'\nqueue-wait = '10min'\n[swap]\ntime = '1h'\n",
    );
    let args = ["--module", &module, "--dialect", "any", "--config", &settings];
    let serving = Program::server().args(args).after(ONE_CORE).start().await;
    let mut slow = serving.connect().await;
    let hits = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let mut client = serving.connect().await;
        let hits = Arc::clone(&hits);
        clients.spawn(async move {
            loop {
                assert_eq!(client.get("/").await.status, 204);
                hits.fetch_add(1, Relaxed);
            }
        });
    }
    until("the core is busy", || hits.load(Relaxed) > 100).await;
    let before = hits.load(Relaxed);
    assert_eq!(within("the response of the slow guest", slow.get("/slow")).await.status, 204);
    assert!(hits.load(Relaxed) > before);
    clients.shutdown().await;
}

/// A control group with a quota of one processor, as a container has it, is mounted for the server. On
/// a machine with one core, the number is the same without it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_quota_of_the_control_group_limits_the_threads() {
    if !has_own_mounts().await {
        return;
    }
    let folder = Folder::new();
    let membership = folder.write("cgroup", "0::/\n");
    let quota = format!(
        "mount -t tmpfs none /sys/fs/cgroup
        touch /sys/fs/cgroup/cgroup.controllers
        echo 100000 100000 >/sys/fs/cgroup/cpu.max
        mount --bind {membership} /proc/$$/cgroup"
    );
    let serving = Program::server().after(&quota).launched_by(OWN_MOUNTS).start().await;
    assert_eq!(workers(&serving, 1).await, 1);
}
