//! Serving while publishing: `cargo bench -p relayer-rest-tests`.
//!
//! Prints how long clients wait for `/chains` on a quiet server, and on one
//! where a thread publishes 1,000 states of 5,000 workers a second; and the
//! memory in use after some and after a million publications.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_host::state::{Object, RelayerState, StatePublisher, Worker};
use relayer_rest_tests::measure::{quantile, resident_memory};
use relayer_rest_tests::server::TestServer;

const CLIENTS: usize = 4;
const REQUESTS: usize = 4_000;
const PAUSE: Duration = Duration::from_millis(2);
const PER_SECOND: u32 = 1_000;
const WORKERS: u64 = 5_000;
const TARGET_P99: f64 = 2.0;
const TARGET_MEMORY: f64 = 1.05;

fn state(workers: u64) -> RelayerState {
    let worker = |id: u64| Worker {
        id,
        object: Object::Packet {
            dst_chain_id: format!("chain-{:02}", id % 40).into(),
            src_chain_id: format!("chain-{:02}", id / 40 % 40).into(),
            src_channel_id: format!("channel-{id:05}").into(),
            src_port_id: "transfer".into(),
        },
        data: None,
    };
    RelayerState {
        chains: (0..40).map(|chain| format!("chain-{chain:02}").into()).collect(),
        workers: (0..workers).map(worker).collect(),
    }
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (quiet, busy, rate) = runtime.block_on(latencies());
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!("`/chains` over a socket, {CLIENTS} clients, 1 request each {PAUSE:?}:");
    println!("| | p50 | p99 |");
    println!("|---|---|---|");
    println!("| quiet | {:?} | {:?} |", quiet.0, quiet.1);
    println!("| {rate} publications/s of {WORKERS} workers | {:?} | {:?} |", busy.0, busy.1);
    report("p99 while publishing", ratio(busy.1, quiet.1), TARGET_P99);

    let (some, million) = memory();
    println!(
        "memory after 10,000 publications {} MiB, after 1,000,000 {} MiB",
        some >> 20,
        million >> 20
    );
    #[expect(clippy::cast_precision_loss)]
    report("memory after a million publications", million as f64 / some as f64, TARGET_MEMORY);
}

fn report(what: &str, ratio: f64, target: f64) {
    let holds = if ratio <= target { "holds" } else { "MISSED" };
    println!("{what}: {ratio:.2} times, at most {target}: {holds}\n");
}

/// The median and the 99th percentile without and with publications, and how
/// many of these there were a second.
async fn latencies() -> ((Duration, Duration), (Duration, Duration), u32) {
    let server = TestServer::of_sample().await;
    server.publisher.set_state(state(WORKERS));
    measure(&server).await;
    let quiet = measure(&server).await;
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let writer = {
        let (publisher, stop, count) = (server.publisher.clone(), stop.clone(), count.clone());
        thread::spawn(move || publish(&publisher, &stop, &count))
    };
    let start = Instant::now();
    let busy = measure(&server).await;
    let seconds = start.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    writer.join().unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = (f64::from(count.load(Relaxed)) / seconds) as u32;
    (quiet, busy, rate)
}

/// Publishes states that differ, evenly over time.
fn publish(publisher: &StatePublisher, stop: &AtomicBool, count: &AtomicU32) {
    let mut state = state(WORKERS);
    let start = Instant::now();
    for turn in 1.. {
        if stop.load(Relaxed) {
            return;
        }
        let last = state.workers.last_mut().unwrap();
        last.id = WORKERS + u64::from(turn);
        publisher.set_state(state.clone());
        count.store(turn, Relaxed);
        thread::sleep(
            (start + Duration::from_secs(1) / PER_SECOND * turn)
                .saturating_duration_since(Instant::now()),
        );
    }
}

async fn measure(server: &TestServer) -> (Duration, Duration) {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            let mut times = Vec::with_capacity(REQUESTS);
            let mut ticks = tokio::time::interval(PAUSE);
            for _ in 0..REQUESTS {
                ticks.tick().await;
                let start = Instant::now();
                assert_eq!(client.get("/chains").await.status, 200);
                times.push(start.elapsed());
            }
            times
        }));
    }
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    (quantile(&mut times, 0.5), quantile(&mut times, 0.99))
}

/// The memory after 10,000 publications and after 1,000,000.
fn memory() -> (u64, u64) {
    let publisher = StatePublisher::new();
    let mut state = state(50);
    let mut publish = |count: u64| {
        for turn in 0..count {
            state.workers[0].id = turn;
            publisher.set_state(state.clone());
        }
        resident_memory()
    };
    (publish(10_000), publish(990_000))
}
