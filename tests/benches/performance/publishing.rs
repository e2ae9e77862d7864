//! Publications: the latency of `/chains` on a quiet server, and while a thread publishes
//! 1,000 states of 5,000 workers a second; and the resident memory after 10,000 and after
//! a million publications.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::measure::{quantile, resident_memory};
use relayer_rest_tests::server::TestServer;

use crate::cores::{Cores, Runtimes};
use crate::in_process::{micros, ratio};
use crate::relayers::state;
use crate::report::{Report, Target};

const CLIENTS: usize = 4;
const REQUESTS: usize = 4_000;
const PAUSE: Duration = Duration::from_millis(2);
const PER_SECOND: u32 = 1_000;
const WORKERS: u64 = 5_000;

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let (quiet, busy, rate) = latencies(runtimes);
    let what =
        format!("p99 of /chains while {rate} states of 5,000 workers are published a second");
    let shown = |(p50, p99)| format!("{} (p50 {})", micros(p99), micros(p50));
    report.add(what, (shown(busy), shown(quiet)), ratio(busy.1, quiet.1), Target::AtMost(2.0));

    let (some, million) = memory();
    #[expect(clippy::cast_precision_loss)]
    let growth = million as f64 / some as f64;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let what = "memory after 1,000,000 publications of 50 workers, to after 10,000";
    report.add(what, (mib(million), mib(some)), growth, Target::AtMost(1.05));
}

/// Returns the median and the 99th percentile without and with publications, and the
/// number of publications a second.
fn latencies(runtimes: &Runtimes) -> ((Duration, Duration), (Duration, Duration), u32) {
    let server = runtimes.serve(TestServer::start);
    server.publisher.set_state(state(WORKERS));
    runtimes.load(async || clients(&server).await);
    let quiet = runtimes.load(async || clients(&server).await);
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU32::new(0));
    let writer = {
        let publisher = server.publisher.clone();
        let stop = stop.clone();
        let count = count.clone();
        Cores::Server.spawn(move || publish(&publisher, &stop, &count))
    };
    let start = Instant::now();
    let busy = runtimes.load(async || clients(&server).await);
    let seconds = start.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    writer.join().unwrap();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = (f64::from(count.load(Relaxed)) / seconds) as u32;
    (quiet, busy, rate)
}

/// Publishes changed states at even intervals.
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

/// Returns the median and the 99th percentile of the latency of `/chains` for some
/// clients.
pub(crate) async fn clients(server: &TestServer) -> (Duration, Duration) {
    clients_of(server, |_, _| "/chains".to_owned()).await
}

/// Returns the median and the 99th percentile of the latency for some clients, given the target
/// for the number of a client and of its request.
pub(crate) async fn clients_of(
    server: &TestServer,
    target: impl Fn(usize, usize) -> String,
) -> (Duration, Duration) {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let targets: Vec<_> = (0..REQUESTS).map(|request| target(number, request)).collect();
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            let mut times = Vec::with_capacity(REQUESTS);
            let mut ticks = tokio::time::interval(PAUSE);
            for target in targets {
                ticks.tick().await;
                let start = Instant::now();
                assert_eq!(client.get(&target).await.status, 200);
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

/// Returns the resident memory after 10,000 and after 1,000,000 publications.
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
