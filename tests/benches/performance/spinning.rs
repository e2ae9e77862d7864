//! The latency of the API on a quiet server, and while a hundred clients use an extension
//! that never ends; and how late these clients get 503 for lack of a processor, and one
//! client alone gets 504. For comparison: how late a thread of this program has used as much
//! processor time, and how late timers are beside these clients.

use std::iter;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::registry::FailurePolicy;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::server::{TestServer, engine, extension};
use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};

use crate::cores::{Cores, Runtimes};
use crate::in_process::micros;
use crate::report::{Report, Target};

/// The number of clients of the module that never ends.
const SPINNING: u32 = 100;

/// The time limit of the module.
const LIMIT: Duration = Duration::from_millis(500);

/// The maximum time that a request waits in the queue.
const WAIT: Duration = Duration::from_millis(500);

const LOWEST_PRIORITY: i32 = 19;

/// The length of a measurement.
const TIME: Duration = Duration::from_secs(5);

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let alone = runtimes.serve(serve);
    Cores::Load.run(|| endless(report, alone.address));
    drop(alone);
    for (path, others, what) in [
        // Short enough to run on the threads that accept their requests, and as many as may run
        // at once.
        ("/chain/", (SPINNING, "GET", "/ext/short"), "takes 1.5 ms"),
        // So many that they wait for their turn on these threads.
        ("/chain/", (1_000, "GET", "/ext/shorter"), "takes 0.2 ms"),
        // Guests that end at once, with large responses to process.
        ("/version", (8, "HEAD", "/ext/large"), "responds with 32 MiB"),
        ("/chain/", (8, "HEAD", "/ext/large"), "responds with 32 MiB"),
    ] {
        let server = runtimes.serve(serve);
        Cores::Load.run(|| beside(report, server.address, path, others, what));
    }
}

fn endless(report: &mut Report, address: SocketAddr) {
    let mut alone = spin(address, 1);
    let limit = Target::AtMost(2.0);
    late(report, "how late a 504 comes to one client alone", LIMIT, &mut alone[1], limit);
    let what = "how late a thread has used as much processor time";
    late(report, what, LIMIT, &mut Cores::Server.run(native), Target::None);
    for (what, path) in [("cached", "/version"), ("uncached", "/chain/")] {
        let mut quiet = watch(address, path);
        let spinning = noise(move || spin(address, SPINNING));
        let timers = Cores::Server.spawn(timers);
        thread::sleep(Duration::from_millis(100));
        let mut busy = watch(address, path);
        let quiet = quantile(&mut quiet, 0.99);
        let busy = quantile(&mut busy, 0.99);
        let [mut starved, timed_out] = spinning.join().unwrap();
        let more = (busy.as_secs_f64() - quiet.as_secs_f64()) * 1e3;
        let name = format!(
            "p99 of {path}, {what}, with {SPINNING} clients on a module that spins; ms more than quiet"
        );
        report.add(name, (micros(busy), micros(quiet)), more, Target::AtMost(5.0));
        let counts = format!("{} of them, and {} 504", starved.len(), timed_out.len());
        let name = format!("how late their 503 come ({counts}), {path} {what}");
        late(report, &name, LIMIT + WAIT, &mut starved, limit);
        let what = "how late timers are beside them";
        late(report, what, LIMIT + WAIT, &mut timers.join().unwrap(), Target::None);
    }
}

fn late(report: &mut Report, what: &str, limit: Duration, times: &mut [Duration], target: Target) {
    let late = quantile(times, 0.99).saturating_sub(limit);
    let ticks = late.as_secs_f64() * 1e3;
    let name = format!("{what}; p99, ticks of 1 ms");
    report.add(name, (micros(limit + late), micros(limit)), ticks, target);
}

fn beside(
    report: &mut Report,
    address: SocketAddr,
    path: &'static str,
    (clients, method, extension): (u32, &'static str, &'static str),
    what: &str,
) {
    let mut quiet = watch(address, path);
    let busy = noise(move || send(address, clients, method, extension));
    thread::sleep(Duration::from_millis(100));
    let mut watched = watch(address, path);
    busy.join().unwrap();
    let quiet = quantile(&mut quiet, 0.99);
    let watched = quantile(&mut watched, 0.99);
    let more = (watched.as_secs_f64() - quiet.as_secs_f64()) * 1e3;
    let name = format!(
        "p99 of {path}, {}cached, with {clients} clients on a module that {what}; ms more than quiet",
        if path.ends_with('/') { "un" } else { "" }
    );
    report.add(name, (micros(watched), micros(quiet)), more, Target::AtMost(5.0));
}

fn send(address: SocketAddr, clients: u32, method: &'static str, extension: &'static str) {
    on_a_thread(async move {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                tokio::spawn(async move {
                    let mut client = Client::http1(address).await;
                    let start = Instant::now();
                    let mut count = 0;
                    while start.elapsed() < TIME {
                        count += 1;
                        let path = format!("{extension}/{number}/{count}");
                        client.request_with(method, &path, &[]).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

async fn serve() -> TestServer {
    let api = Module::embedded(&engine(&Limits::default())).unwrap();
    let limits = Limits { time: LIMIT, queue_wait: WAIT, concurrency: 256, ..Limits::default() };
    let spins = component::of_handler("(loop br 0) unreachable");
    let mount = extension("/ext/spins", &engine(&limits), &spins);
    // The circuit breaker must stay closed.
    let patience = FailurePolicy { failures: 1_000, ..FailurePolicy::default() };
    let mount = mount.with_failure_policy(patience);
    let short = component::that_takes(3_000_000);
    let short = extension("/ext/short", &engine(&Limits::default()), &short);
    let shorter = component::that_takes(400_000);
    let shorter = extension("/ext/shorter", &engine(&Limits::default()), &shorter);
    let large = component::of_handler(
        "(drop (memory.grow (i32.const 512)))
        (i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 12) (i32.const 131072))
        (i32.store (i32.const 16) (i32.const 33554432))
        i32.const 0",
    );
    let large = extension("/ext/large", &engine(&Limits::default()), &large);
    let server = TestServer::builder().module(api).extension(mount).extension(short);
    server.extension(shorter).extension(large).start().await
}

/// Returns the latencies of requests, one a millisecond. A number is appended to a path
/// that ends with `/`, and no chain has such an identifier.
pub(crate) fn watch(address: SocketAddr, path: &'static str) -> Vec<Duration> {
    on_a_thread(async move {
        let mut client = Client::http1(address).await;
        let start = Instant::now();
        let mut times = Vec::new();
        while start.elapsed() < TIME {
            let (path, status) = if path.ends_with('/') {
                (format!("{path}{}", times.len()), 404)
            } else {
                (path.to_owned(), 200)
            };
            let sent = Instant::now();
            assert_eq!(client.get(&path).await.status, status);
            times.push(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times
    })
}

/// Returns the times until the clients of the module get 503, and those until they get
/// 504.
fn spin(address: SocketAddr, clients: u32) -> [Vec<Duration>; 2] {
    on_a_thread(async move {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                tokio::spawn(async move {
                    // Spreads the start of the clients over one time limit.
                    tokio::time::sleep(LIMIT * number / clients).await;
                    let mut client = Client::http1(address).await;
                    let start = Instant::now();
                    let mut count = 0;
                    let mut times = [Vec::new(), Vec::new()];
                    while start.elapsed() < TIME {
                        count += 1;
                        let path = format!("/ext/spins/{number}/{count}");
                        let sent = Instant::now();
                        let status = client.get(&path).await.status;
                        assert!(status == 503 || status == 504, "{status}");
                        times[usize::from(status == 504)].push(sent.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut all = [Vec::new(), Vec::new()];
        for client in clients {
            let times = client.await.unwrap();
            for (all, times) in all.iter_mut().zip(times) {
                all.extend(times);
            }
        }
        all
    })
}

/// Returns the times until a thread has used [`LIMIT`] of its processor.
fn native() -> Vec<Duration> {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let measure = || {
        let (start, end) = (Instant::now(), used() + LIMIT);
        while used() < end {}
        start.elapsed()
    };
    let start = Instant::now();
    iter::from_fn(|| (start.elapsed() < TIME).then(measure)).collect()
}

/// Returns the times until timers of [`LIMIT`] and [`WAIT`] have fired, as many as there are
/// spinning clients.
fn timers() -> Vec<Duration> {
    on_a_thread(async {
        let timers: Vec<_> = (0..SPINNING)
            .map(|number| {
                tokio::spawn(async move {
                    tokio::time::sleep(LIMIT * number / SPINNING).await;
                    let start = Instant::now();
                    let mut times = Vec::new();
                    while start.elapsed() < TIME {
                        let set = Instant::now();
                        tokio::time::sleep(LIMIT + WAIT).await;
                        times.push(set.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut all = Vec::new();
        for timer in timers {
            all.extend(timer.await.unwrap());
        }
        all
    })
}

/// Starts a load beside the requests that are measured. These may share its core, and must not
/// wait for it.
pub(crate) fn noise<T: Send + 'static>(load: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(|| {
        // Of this thread, and the threads that it starts.
        setpriority_process(None, LOWEST_PRIORITY).unwrap();
        load()
    })
}

pub(crate) fn on_a_thread<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    })
    .join()
    .unwrap()
}
