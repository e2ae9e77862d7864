//! `/version` of the API while a hundred clients ask an extension that does not
//! come to an end, and on a quiet server; and how late those clients learn that
//! their time is over.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use relayer_rest_host::module::{Limits, Module};
use relayer_rest_host::registry::{FaultBudget, Mount, Registry};
use relayer_rest_host::state::sample;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::server::{TestServer, engine};
use tokio::runtime::Runtime;

use crate::in_process::micros;
use crate::report::{Report, Target};

/// The clients of the module that spins.
const SPINNING: u32 = 100;

/// The time that the module has.
const LIMIT: Duration = Duration::from_millis(500);

/// How long is measured.
const TIME: Duration = Duration::from_secs(5);

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    let server = runtime.block_on(serve());
    for (what, path) in [("remembered", "/version"), ("not remembered", "/version?")] {
        let mut quiet = watch(server.address, path);
        let spinning = thread::spawn(move || spin(server.address));
        thread::sleep(Duration::from_millis(100));
        let mut busy = watch(server.address, path);
        let (quiet, busy) = (quantile(&mut quiet, 0.99), quantile(&mut busy, 0.99));
        let mut late = spinning.join().unwrap();
        let more = (busy.as_secs_f64() - quiet.as_secs_f64()) * 1e3;
        let name = format!(
            "p99 of /version, {what}, with {SPINNING} clients on a module that spins; ms more than quiet"
        );
        report.add(name, (micros(busy), micros(quiet)), more, Target::AtMost(5.0));
        let late = quantile(&mut late, 0.99);
        let ticks = late.as_secs_f64() * 1e3;
        let name = format!("how late their 504 come (p99; ticks of 1 ms), /version {what}");
        report.add(name, (micros(LIMIT + late), micros(LIMIT)), ticks, Target::AtMost(2.0));
    }
}

/// Guests that are done within two ticks: short enough to run where their
/// requests come in, and as many as may run at once.
pub(crate) fn measure_short(report: &mut Report, runtime: &Runtime) {
    let others = (SPINNING, "GET", "/ext/short");
    beside(report, runtime, "/version?", others, "a module that takes 1.5 ms");
}

/// Guests that are done at once, and leave much to be done with their answers.
pub(crate) fn measure_large(report: &mut Report, runtime: &Runtime) {
    for path in ["/version", "/version?"] {
        let others = (8, "HEAD", "/ext/large");
        beside(report, runtime, path, others, "a module that answers 32 MiB");
    }
}

fn beside(
    report: &mut Report,
    runtime: &Runtime,
    path: &'static str,
    (clients, method, extension): (u32, &'static str, &'static str),
    what: &str,
) {
    let server = runtime.block_on(serve());
    let mut quiet = watch(server.address, path);
    let address = server.address;
    let busy = thread::spawn(move || busy(address, clients, method, extension));
    thread::sleep(Duration::from_millis(100));
    let mut watched = watch(server.address, path);
    busy.join().unwrap();
    let (quiet, watched) = (quantile(&mut quiet, 0.99), quantile(&mut watched, 0.99));
    let more = (watched.as_secs_f64() - quiet.as_secs_f64()) * 1e3;
    let name = format!(
        "p99 of /version, {}remembered, with {clients} clients on {what}; ms more than quiet",
        if path.ends_with('?') { "not " } else { "" }
    );
    report.add(name, (micros(watched), micros(quiet)), more, Target::AtMost(5.0));
}

fn busy(address: SocketAddr, clients: u32, method: &'static str, extension: &'static str) {
    on_a_thread(async move {
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                tokio::spawn(async move {
                    let mut client = Client::http1(address).await;
                    let (start, mut count) = (Instant::now(), 0);
                    while start.elapsed() < TIME {
                        count += 1;
                        let path = format!("{extension}/{number}/{count}");
                        client.ask_with(method, &path, &[]).await;
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
    let limits = Limits { time: LIMIT, concurrency: 256, ..Limits::default() };
    let spins = component::of_handler("(loop br 0) unreachable");
    let spins = Module::from_bytes(&engine(&limits), "spins", &spins).unwrap().named("spins");
    let mount = Mount::extension("/ext/spins".parse().unwrap(), spins);
    // It is to go on failing.
    let patience = FaultBudget { faults: 1_000, ..FaultBudget::default() };
    let mount = mount.with_budget(patience);
    let short = component::that_takes(3_000_000);
    let short = Module::from_bytes(&engine(&Limits::default()), "short", &short).unwrap();
    let short = Mount::extension("/ext/short".parse().unwrap(), short.named("short"));
    let large = component::of_handler(
        "(drop (memory.grow (i32.const 512)))
        (i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 12) (i32.const 131072))
        (i32.store (i32.const 16) (i32.const 33554432))
        i32.const 0",
    );
    let large = Module::from_bytes(&engine(&Limits::default()), "large", &large).unwrap();
    let large = Mount::extension("/ext/large".parse().unwrap(), large.named("large"));
    let mounts = [mount, short, large];
    let api = Registry::new(Mount::api(api));
    let registry = mounts.into_iter().fold(api, |all, mount| all.with(mount).unwrap());
    let server = TestServer::of_registry(registry).await;
    sample(&server.publisher);
    server
}

/// The times of requests, one a millisecond. Behind a path that ends with `?`
/// comes a number.
fn watch(address: SocketAddr, path: &'static str) -> Vec<Duration> {
    on_a_thread(async move {
        let mut client = Client::http1(address).await;
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < TIME {
            let path = if path.ends_with('?') {
                format!("{path}{}", times.len())
            } else {
                path.to_owned()
            };
            let asked = Instant::now();
            assert_eq!(client.get(&path).await.status, 200);
            times.push(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times
    })
}

/// How much later than their time the clients of the module get their answers.
fn spin(address: SocketAddr) -> Vec<Duration> {
    on_a_thread(async move {
        let clients: Vec<_> = (0..SPINNING)
            .map(|number| {
                tokio::spawn(async move {
                    // Not all of them at once.
                    tokio::time::sleep(LIMIT * number / SPINNING).await;
                    let mut client = Client::http1(address).await;
                    let (start, mut late) = (Instant::now(), Vec::new());
                    while start.elapsed() < TIME {
                        let path = format!("/ext/spins/{number}/{}", late.len());
                        let asked = Instant::now();
                        assert_eq!(client.get(&path).await.status, 504);
                        late.push(asked.elapsed().saturating_sub(LIMIT));
                    }
                    late
                })
            })
            .collect();
        let mut late = Vec::new();
        for client in clients {
            late.extend(client.await.unwrap());
        }
        late
    })
}

fn on_a_thread<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    })
    .join()
    .unwrap()
}
