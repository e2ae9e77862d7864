//! Replicas of a fleet: the time until the last one has a change, and the bytes that each one
//! gets. Needs `nats-server`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_host::fleet::{FleetAddress, FleetSettings, Publication, Subscription};
use relayer_rest_host::state::{StatePublisher, StateReader};
use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::nats::Nats;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::in_process::{micros, ratio};
use crate::relayers;
use crate::report::{Report, Target};

const REPLICAS: usize = 100;
const WORKERS: u64 = 700;
const CHANGES: usize = 300;
const INTERVAL: Duration = Duration::from_millis(100);
const MAX_TIME: Duration = Duration::from_millis(100);

/// The workers of a relayer of which one changes.
const MANY_WORKERS: u64 = 5_000;
const MAX_BYTES: f64 = 0.05;

const TAKEOVERS: usize = 20;
const MAX_TAKEOVER: Duration = Duration::from_secs(5);

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    if Command::new("nats-server").arg("--version").output().is_err() {
        println!("fleet: skipped, there is no nats-server");
        return;
    }
    latency(report, runtime);
    bytes(report, runtime);
    takeover(report, runtime);
}

async fn publish(address: &FleetAddress) -> (StatePublisher, JoinHandle<()>) {
    let publisher = StatePublisher::new();
    let settings = FleetSettings::default();
    let open = Publication::open(address, &settings, Duration::from_mins(1));
    let publication = tokio::spawn(open.await.unwrap().run(publisher.clone()));
    (publisher, publication)
}

async fn subscribe(address: &FleetAddress) -> StateReader {
    let publisher = StatePublisher::new();
    let settings = FleetSettings::default();
    let open = Subscription::open(address, &settings, Duration::from_mins(1));
    tokio::spawn(open.await.unwrap().run(publisher.clone()));
    publisher.reader()
}

/// Waits until a replica has a worker with this identifier.
async fn has(replica: &StateReader, id: u64) {
    let mut changes = replica.changes();
    loop {
        let snapshot = replica.snapshot();
        let state = snapshot.status().value();
        if state.as_ref().is_ok_and(|state| state.workers.iter().any(|worker| worker.id == id)) {
            return;
        }
        changes.changed().await.unwrap();
    }
}

fn latency(report: &mut Report, runtime: &Runtime) {
    let mut times = runtime.block_on(async {
        let nats = Nats::start().await;
        let address = nats.fleet("");
        let (publisher, _) = publish(&address).await;
        relayers::fill(&publisher, WORKERS);
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(subscribe(&address).await);
        }
        let mut times = Vec::with_capacity(CHANGES);
        for change in 0..=CHANGES {
            let next = Instant::now() + INTERVAL;
            let id = 1_000_000 + change as u64;
            let start = Instant::now();
            publisher.update_state(|state| state.workers[350].id = id);
            for replica in &replicas {
                has(replica, id).await;
            }
            // The first one waits for all connections.
            if change > 0 {
                times.push(start.elapsed());
            }
            tokio::time::sleep_until(next.into()).await;
        }
        times
    });
    let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let what = format!(
        "change of {WORKERS} workers, 10 a second, to the last of {REPLICAS} replicas, p99"
    );
    let shown = format!("{} (p50 {})", micros(p99), micros(p50));
    report.add(what, (shown, micros(MAX_TIME)), ratio(p99, MAX_TIME), Target::AtMost(1.0));
}

/// Counts the bytes that NATS sends to a subscriber of all messages of a fleet.
fn count(nats: &Nats) -> Arc<AtomicU64> {
    let mut stream = TcpStream::connect(nats.address()).unwrap();
    stream.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB relayer.fleet.new.> 1\r\nPING\r\n").unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        let mut buffer = [0; 1 << 13];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            counted.fetch_add(read as u64, Relaxed);
        }
    });
    count
}

fn bytes(report: &mut Report, runtime: &Runtime) {
    let (change, whole) = runtime.block_on(async {
        let nats = Nats::start().await;
        let address = nats.fleet("");
        let count = count(&nats);
        let (publisher, _) = publish(&address).await;
        let replica = subscribe(&address).await;
        // The server sends its description first.
        tokio::time::sleep(INTERVAL).await;
        let before = count.swap(0, Relaxed);
        assert!(before > 0, "it is connected");
        relayers::fill(&publisher, MANY_WORKERS);
        publisher.update_state(|state| state.workers[0].id = 1_000_000);
        has(&replica, 1_000_000).await;
        tokio::time::sleep(INTERVAL).await;
        let whole = count.swap(0, Relaxed);
        publisher.update_state(|state| state.workers[2_500].id = 2_000_000);
        has(&replica, 2_000_000).await;
        tokio::time::sleep(INTERVAL).await;
        (count.swap(0, Relaxed), whole)
    });
    let what = format!("bytes for each replica: one of {MANY_WORKERS} workers, to the whole state");
    #[expect(clippy::cast_precision_loss)]
    let ratio = change as f64 / whole as f64;
    report.add(what, (change, whole), ratio, Target::AtMost(MAX_BYTES));
}

/// Ends writers one after the other, each of them without a word to the others.
fn takeover(report: &mut Report, runtime: &Runtime) {
    let mut times = runtime.block_on(async {
        let nats = Nats::start().await;
        let address = nats.fleet("");
        let replica = subscribe(&address).await;
        let (publisher, mut writing) = publish(&address).await;
        relayers::fill(&publisher, WORKERS);
        publisher.update_state(|state| state.workers[0].id = 1_000_000);
        has(&replica, 1_000_000).await;
        let mut times = Vec::with_capacity(TAKEOVERS);
        for takeover in 1..=TAKEOVERS {
            let (standby, publication) = publish(&address).await;
            relayers::fill(&standby, WORKERS);
            // Signs of life of the writer reach it.
            tokio::time::sleep(Duration::from_secs(2)).await;
            writing.abort();
            let start = Instant::now();
            let id = 1_000_000 + takeover as u64;
            standby.update_state(|state| state.workers[0].id = id);
            has(&replica, id).await;
            times.push(start.elapsed());
            writing = publication;
        }
        times
    });
    let (p50, max) = (quantile(&mut times, 0.5), quantile(&mut times, 1.0));
    let what = format!(
        "end of a writer until a replica has the state of the standby, of {TAKEOVERS}, longest"
    );
    let shown = format!("{:.1} s (p50 {:.1} s)", max.as_secs_f64(), p50.as_secs_f64());
    let target = format!("{} s", MAX_TAKEOVER.as_secs());
    report.add(what, (shown, target), ratio(max, MAX_TAKEOVER), Target::AtMost(1.0));
}
