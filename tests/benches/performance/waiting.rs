//! Clients that wait for changes: memory for each event stream, the time until the last of
//! 10,000 streams has a change, runs of modules, hits next to 10,000 streams, and the size of
//! patches. Except for the memory, the server and its clients are on different cores.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_host::state::StatePublisher;
use relayer_rest_host::{HttpLimits, LiveLimits};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::load::{Load, Served};
use relayer_rest_tests::measure::{quantile, resident_memory_of};
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::TestServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::cores::Cores;
use crate::in_process::{micros, ratio};
use crate::relayers;
use crate::report::{Report, Target};
use crate::sockets;

/// The streams whose memory is measured, and the memory that they may take. If the system allows
/// fewer open files, it is computed from the memory of each.
const MANY: usize = 50_000;
const MAX_MEMORY: u64 = 700 << 20;

/// The streams that are woken. Client and server are the same process.
const STREAMS: usize = 10_000;

/// The files besides the streams.
const OTHER_FILES: usize = 500;

const CHANGES: usize = 100;
const MAX_TIME: Duration = Duration::from_millis(50);

/// The source addresses: each has too few ports for all streams.
const ADDRESSES: u8 = 8;

const HIT_ROUNDS: usize = 11;
const HIT_TIME: Duration = Duration::from_secs(1);

/// The most events of a stream that its client has not read at once.
const BUFFER: usize = 16 << 10;

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    let files = allowed_files();
    memory(report, runtime, MANY.min(files - OTHER_FILES));
    let streams = STREAMS.min((files - OTHER_FILES) / 2);
    Cores::Load.run(|| {
        latency(report, streams);
        runs(report, streams);
        hits(report, streams);
        patch(report);
    });
}

/// Allows as many open files as are needed or possible, and returns their number.
fn allowed_files() -> usize {
    let wanted = Some((MANY + OTHER_FILES) as u64);
    // Only root may raise the maximum.
    setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted }).ok();
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Event streams of clients that take each event at once.
struct Streams {
    /// The events that all streams have got.
    events: Arc<AtomicUsize>,
    /// Ends the streams when it is dropped.
    _end: oneshot::Sender<()>,
}

impl Streams {
    /// Opens a stream for each path, and waits until each has its first event.
    fn open(address: SocketAddr, paths: Vec<String>) -> Self {
        let events = Arc::new(AtomicUsize::new(0));
        let (end, ended) = oneshot::channel();
        let streams = Self { events: Arc::clone(&events), _end: end };
        let count = paths.len();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                for (number, path) in paths.into_iter().enumerate() {
                    let stream = open(address, number, &path).await;
                    tokio::spawn(follow(stream, Arc::clone(&events)));
                }
                ended.await.ok();
            });
        });
        streams.wait(count);
        streams
    }

    /// Waits until the streams have got this many events in total.
    fn wait(&self, events: usize) {
        while self.events.load(Acquire) < events {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

async fn open(address: SocketAddr, number: usize, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let last = 1 + u8::try_from(number % usize::from(ADDRESSES)).unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Counts the events of a stream until the runtime ends.
async fn follow(mut stream: TcpStream, events: Arc<AtomicUsize>) {
    // The head and the first event.
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\n\n\r\n") {
        let count = stream.read_buf(&mut head).await.unwrap();
        assert!(count > 0 && head.starts_with(b"HTTP/1.1 200"), "{}", head.escape_ascii());
    }
    drop(head);
    events.fetch_add(1, Release);
    loop {
        // A buffer for each stream would take more memory than the server.
        stream.readable().await.unwrap();
        let mut buffer = [0; BUFFER];
        match stream.try_read(&mut buffer) {
            // A comment is shorter than any event.
            Ok(count) if buffer[..count].ends_with(b"\n\n\r\n") && count > 64 => {
                events.fetch_add(1, Release);
            }
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn limits() -> (HttpLimits, LiveLimits) {
    let most = 200_000;
    let http =
        HttpLimits { connections: most, connections_per_peer: most, ..HttpLimits::default() };
    let live = LiveLimits {
        waiters: most,
        waiters_per_peer: most,
        waiters_per_mount: most,
        ..LiveLimits::default()
    };
    (http, live)
}

/// Starts a server with a runtime of its own.
fn server() -> (Runtime, TestServer) {
    Cores::Server.run(|| {
        let (http, live) = limits();
        let runtime = Runtime::new().unwrap();
        let server = TestServer::builder().http(http).live(live).without_state();
        let server = runtime.block_on(server.start());
        relayers::fill(&server.publisher, 700);
        (runtime, server)
    })
}

/// Publishes another maximum of gas for the first `count` chains, whose bodies have 1 KB.
fn change(publisher: &StatePublisher, count: usize, turn: u64) {
    let mut chains = relayers::chains();
    for chain in &mut chains[..count] {
        chain.max_gas = Some(turn);
        chain.key_name = Some("key-".repeat(128));
    }
    publisher.set_chains(chains).unwrap();
}

fn memory(report: &mut Report, runtime: &Runtime, count: usize) {
    let folder = Folder::new();
    let settings = folder.write(
        "many.toml",
        // On a slow machine, the clients read comments late.
        "[http]\nconnections = 200000\nconnections-per-peer = 200000\nstalled = '1h'\n\
         [live]\nwaiters = 200000\nwaiters-per-peer = 200000\nwaiters-per-mount = 200000\n",
    );
    let program = Program::server().args(["--config", &settings]);
    let serving = runtime.block_on(program.start());
    let before = resident_memory_of(serving.id());
    let streams = Streams::open(serving.address(), vec!["/chains".to_owned(); count]);
    let after = resident_memory_of(serving.id());
    drop(streams);
    let each = (after - before) / count as u64;
    let all = before + each * MANY as u64;
    #[expect(clippy::cast_precision_loss)]
    let ratio = all as f64 / MAX_MEMORY as f64;
    let what = format!(
        "memory with {MANY} event streams, {each} bytes for each of {count} that were opened"
    );
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    report.add(what, (mib(all), mib(MAX_MEMORY)), ratio, Target::AtMost(1.0));
}

fn latency(report: &mut Report, count: usize) {
    let (runtime, server) = server();
    let path = "/chain/chain-00".to_owned();
    change(&server.publisher, 1, 0);
    let size = runtime.block_on(server.get(&path)).body.len();
    let streams = Streams::open(server.address, vec![path; count]);
    let mut times = Vec::with_capacity(CHANGES);
    for turn in 1..=CHANGES {
        // The next change is later than the minimum interval.
        thread::sleep(LiveLimits::default().min_interval * 2);
        let start = Instant::now();
        Cores::Server.run(|| change(&server.publisher, 1, turn as u64));
        streams.wait(count * (turn + 1));
        times.push(start.elapsed());
    }
    drop(streams);
    let mut bare = bare_writes(count, size);
    let [(p50, p99), (bare_p50, bare_p99)] =
        [&mut times, &mut bare].map(|times| (quantile(times, 0.5), quantile(times, 0.99)));
    let cores = Cores::Server.count();
    let what =
        format!("change of {size} bytes, to the last of {count} streams from {cores} cores, p99");
    let shown = |p99, p50| format!("{} (p50 {})", micros(p99), micros(p50));
    let [measured, bare] = [shown(p99, p50), shown(bare_p99, bare_p50)];
    let values = (measured.clone(), micros(MAX_TIME));
    report.add(what, values, ratio(p99, MAX_TIME), Target::AtMost(1.0));
    let what = format!("the same, to writes to {count} bare sockets from as many cores, p50");
    report.add(what, (measured, bare), ratio(p50, bare_p50), Target::None);
}

/// Measures the time until the same clients have read an event of this size that a thread on each
/// core of the server writes to their sockets.
fn bare_writes(count: usize, size: usize) -> Vec<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let event = format!("{}\n\n\r\n", "x".repeat(size));
    let accepting = thread::spawn({
        let first = format!("HTTP/1.1 200 OK\r\n\r\n{event}");
        move || {
            let accepted = (0..count).map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                // Its end would reset the connection if the request were not read.
                BufReader::new(&stream).lines().find(|line| line.as_ref().unwrap().is_empty());
                stream.write_all(first.as_bytes()).unwrap();
                stream
            });
            accepted.collect::<Vec<_>>()
        }
    });
    let streams = Streams::open(address, vec![String::new(); count]);
    let mut accepted = accepting.join().unwrap();
    let mut times = Vec::with_capacity(CHANGES);
    for turn in 1..=CHANGES {
        thread::sleep(LiveLimits::default().min_interval * 2);
        let start = Instant::now();
        let event = event.as_bytes();
        Cores::Server.run(|| {
            thread::scope(|scope| {
                for part in accepted.chunks_mut(count.div_ceil(Cores::Server.count())) {
                    scope.spawn(move || {
                        for stream in part {
                            stream.write_all(event).unwrap();
                        }
                    });
                }
            });
        });
        streams.wait(count * (turn + 1));
        times.push(start.elapsed());
    }
    times
}

fn runs(report: &mut Report, count: usize) {
    let (_runtime, server) = server();
    let paths = (0..count).map(|number| format!("/chain/chain-0{}", number % 4)).collect();
    let streams = Streams::open(server.address, paths);
    for worker in 1_000_000..1_000_100 {
        server.publisher.update_state(|state| state.workers[0].id = worker);
    }
    thread::sleep(LiveLimits::default().min_interval * 4);
    let unread = server.live.status().runs;
    change(&server.publisher, 4, 1);
    streams.wait(2 * count);
    let runs = server.live.status().runs - unread;
    let what = format!("runs after a change of 4 keys of {count} streams");
    #[expect(clippy::cast_precision_loss)]
    report.add(what, (runs, 4), runs as f64 / 4.0, Target::AtMost(1.0));
    let what = "runs after 100 changes that no stream has read";
    #[expect(clippy::cast_precision_loss)]
    report.add(what, (unread, 0), unread as f64, Target::AtMost(0.0));
}

/// Compares a load next to streams of 40 chains, one of which changes ten times a second, with
/// a load without streams and changes; and next to streams that all get these changes.
fn hits(report: &mut Report, count: usize) {
    let (_quiet_runtime, quiet) = server();
    let load = Load::new("/state", HIT_TIME);
    for (what, chains, target) in [
        ("of 40 keys, one changed 10 times a second", 40, Target::AtLeast(0.9)),
        ("of one key, changed 10 times a second", 1, Target::AtLeast(0.9)),
    ] {
        let (_runtime, server) = server();
        let path = |number| format!("/chain/chain-{:02}", number % chains);
        let streams = Streams::open(server.address, (0..count).map(path).collect());
        let rounds = (0..HIT_ROUNDS).map(|_| {
            let without = load.run(quiet.address);
            let publisher = server.publisher.clone();
            let change = move |turn| change(&publisher, 1, turn);
            (sockets::while_changing(change, || load.run(server.address)), without)
        });
        let rounds: Vec<(Served, Served)> = rounds.collect();
        drop(streams);
        let what = format!("hits next to {count} streams {what}, to without");
        sockets::add(report, &what, rounds, target);
    }
}

fn patch(report: &mut Report) {
    let (runtime, server) = server();
    relayers::fill(&server.publisher, 5_000);
    let (patch, whole) = runtime.block_on(async {
        let mut client = server.connect().await;
        let mut events = Events::open(&mut client, "/state", &[("prefer", "patch")]).await;
        let whole = events.next().await.unwrap().data.len();
        server.publisher.update_state(|state| state.workers[2_500].id = 1_000_000);
        let event = events.next().await.unwrap();
        assert_eq!(event.name, "patch");
        (event.data.len(), whole)
    });
    #[expect(clippy::cast_precision_loss)]
    let ratio = patch as f64 / whole as f64;
    let bytes = |count: usize| format!("{count} bytes");
    let what = "patch of one of 5,000 workers, to the body";
    report.add(what, (bytes(patch), bytes(whole)), ratio, Target::AtMost(0.01));
}
