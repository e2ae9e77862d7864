//! Hits and misses over sockets, against servers that do less.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::config::{CertificateConfig, ListenAddress, ListenConfig};
use relayer_rest_host::control::{ControlServer, ControlSocket};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_tests::bare_hyper;
use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::collector::Collector;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::load::{Load, Served};
use relayer_rest_tests::measure::processor_time_of;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::{TestServer, engine};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::sleep;
use tokio_rustls::rustls::ClientConfig;

use crate::cores::{Cores, Runtimes};
use crate::in_process::{micros, ratio};
use crate::relayers::{self, PATHS};
use crate::report::{Report, Target};
use crate::servers;

/// The number of rounds. In each, the servers that are compared take turns.
const ROUNDS: usize = 7;
/// The number of rounds for a difference that is smaller than the one between two rounds.
const METRICS_ROUNDS: usize = 41;
const TLS_ROUNDS: usize = 11;
/// The number of processes of each kind, and of the rounds of each.
const CAPSULE_STARTS: usize = 6;
const CAPSULE_ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_millis(800);

const SIZES: [u64; 3] = [10, 700, 5_000];

/// Measures hits and misses, with the load on other cores than the servers, as all parts here.
pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let start = |response_cache, workers| {
        let limits = Limits { response_cache, ..Limits::default() };
        let server = runtimes.serve(async || {
            let module = Module::embedded(&engine(&limits)).unwrap();
            TestServer::builder().module(module).without_state().start().await
        });
        relayers::fill(&server.publisher, workers);
        server
    };
    for workers in SIZES {
        let server = start(Limits::default().response_cache, workers);
        for path in PATHS {
            if workers != 700 && path != "/state" {
                continue;
            }
            hits(report, runtimes, server.address, path, workers);
        }
        if workers == 700 {
            compressed(report, runtimes, server.address);
            changing(report, &server);
        }
    }
    let server = start(ByteSize::b(0), 700);
    for path in ["/chains", "/state"] {
        let axum = runtimes.serve(async || servers::axum(server.address).await);
        let load = Load::new(path, ROUND);
        let what = format!("miss on {path} with 700 workers over a socket, to axum");
        compare(report, &what, &load, (server.address, axum), Target::None);
    }
}

fn hits(report: &mut Report, runtimes: &Runtimes, ours: SocketAddr, path: &str, workers: u64) {
    let load = Load::new(path, ROUND);
    let bare = runtimes.serve(async || bare_hyper::start(ours, path).await);
    let what = format!("hit on {path} with {workers} workers, to bare hyper");
    compare(report, &what, &load, (ours, bare), Target::AtLeast(0.95));
    let target = match (path, workers) {
        ("/chains", 700) => Target::AtLeast(1.3),
        ("/state", 700) => Target::AtLeast(8.0),
        _ => Target::None,
    };
    let axum = runtimes.serve(async || servers::axum(ours).await);
    let what = format!("hit on {path} with {workers} workers, to axum");
    compare(report, &what, &load, (ours, axum), target);
    if workers == 700 {
        // The upper bound for any server that sends the same bytes with hyper.
        let what = format!("bare hyper on {path} with {workers} workers, to axum");
        compare(report, &what, &load, (bare, axum), Target::None);
    }
}

/// Compares a server that counts requests, and whose metrics are read each second, with one
/// that does not count them.
pub(crate) fn measure_metrics(report: &mut Report, runtimes: &Runtimes) {
    let (plain, metered) = runtimes.serve(async || {
        let module = Module::embedded(&engine(&Limits::default())).unwrap();
        let builder = || TestServer::builder().module(module.clone());
        (builder().start().await, builder().metered().start().await)
    });
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("control.sock");
    let state = metered.publisher.reader();
    let control = ControlServer::new(Arc::clone(&metered.registry), state);
    let socket = runtimes.serve(async || ControlSocket::bind(&path).unwrap());
    runtimes.spawn(control.with_socket(socket).serve());
    let reads = runtimes.load(async || tokio::spawn(read_metrics(path.clone())));
    let load = Load::new("/chains", ROUND);
    let what = "hit on /chains with metrics, to without";
    let round = |_| (load.run(metered.address), load.run(plain.address));
    let rounds = || (0..METRICS_ROUNDS).map(round).collect();
    add(report, what, Cores::Load.run(rounds), Target::AtLeast(0.98));
    assert!(!reads.is_finished(), "the metrics could not be read");
    reads.abort();
}

/// Compares servers that send traces and metrics to a collector with one that does not.
pub(crate) fn measure_otlp(report: &mut Report, runtimes: &Runtimes) {
    let collector = runtimes.load(Collector::start);
    let plain = runtimes.serve(async || Program::server().start().await);
    for (sampled, sampler, ratio) in [
        ("all requests sampled", "parentbased_always_on", ""),
        ("one of 100 requests sampled", "parentbased_traceidratio", "0.01"),
    ] {
        let program = Program::server()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
            .env("OTEL_METRIC_EXPORT_INTERVAL", "1000")
            .env("OTEL_TRACES_SAMPLER", sampler)
            .env("OTEL_TRACES_SAMPLER_ARG", ratio);
        let exporting = runtimes.serve(async || program.start().await);
        let load = Load::new("/chains", ROUND);
        let what = format!("hit on /chains with OpenTelemetry, {sampled}, to without");
        compare(report, &what, &load, (exporting.address(), plain.address()), Target::None);
        runtimes.serve(async || exporting.stop().await);
    }
    let received = collector.received();
    assert!(!received.spans.is_empty() && !received.metrics.is_empty(), "nothing was exported");
    runtimes.serve(async || plain.stop().await);
}

/// Compares servers that keep capsules with servers that do not, for hits, and for misses: without
/// a cache. Two servers without capsules are compared as well, which shows the differences without
/// a cause. These are mostly those of two processes, so each kind is started several times.
pub(crate) fn measure_capsules(report: &mut Report, runtimes: &Runtimes) {
    let files = Folder::new();
    let without_cache = files.write("miss.toml", "[module.limits]\nresponse-cache = '0B'");
    let with_cache = files.write("hit.toml", "");
    let folder = files.path("capsules");
    for (what, settings) in [("hit", &with_cache), ("miss", &without_cache)] {
        let start = || {
            let program = || Program::server().args(["--config", settings]);
            let keeping = program().args(["--capsules", &folder]);
            [keeping, program(), program()]
                .map(|program| runtimes.serve(async || program.start().await))
        };
        let load = Load::new("/chains", ROUND);
        let mut rounds = Vec::new();
        for _ in 0..CAPSULE_STARTS {
            let servers = start();
            Cores::Load.run(|| measure_each(&servers, &load, &mut rounds));
            for server in servers {
                runtimes.serve(async || server.stop().await);
            }
        }
        for (server, of, to, [rate, time]) in [
            (0, "with", "without", [Target::AtLeast(0.97), Target::AtMost(1.03)]),
            (2, "without", "another server without", [Target::None; 2]),
        ] {
            let rates = |server: usize| rounds.iter().map(move |round| round[server].0);
            let name = format!("{what} on /chains {of} capsules, to {to}");
            add(report, &name, rates(server).zip(rates(1)).collect(), rate);
            let used = |server: usize| {
                let time: Duration = rounds.iter().map(|round| round[server].1).sum();
                time / rates(server).map(|served| served.responses).sum::<u32>()
            };
            let [ours, other] = [server, 1].map(used);
            let name = format!("processor time of a {what} {of} capsules, to {to}");
            report.add(name, (micros(ours), micros(other)), ratio(ours, other), time);
        }
    }
}

/// Adds rounds with the load's measurements of each server, and the processor time that it used.
/// Each server is the first one in every third round.
fn measure_each(servers: &[Serving; 3], load: &Load, rounds: &mut Vec<[(Served, Duration); 3]>) {
    for first in 0..CAPSULE_ROUNDS {
        let mut round = [0, 1, 2].map(|place| {
            let number = (first + place) % servers.len();
            let process = servers[number].id();
            let before = processor_time_of(process);
            let served = load.run(servers[number].address());
            (number, (served, processor_time_of(process).saturating_sub(before)))
        });
        round.sort_by_key(|(number, _)| *number);
        rounds.push(round.map(|(_, measured)| measured));
    }
}

/// Compares hits over TLS with those of bare hyper behind rustls.
pub(crate) fn measure_tls(report: &mut Report, runtimes: &Runtimes) {
    let authority = Authority::new();
    let issued = authority.issue("localhost");
    let files = Folder::new();
    issued.write(&files, "own");
    let mut listen = ListenConfig::from("127.0.0.1:0".parse::<ListenAddress>().unwrap());
    let [certificate, key] = ["own.pem", "own.key"].map(|name| files.join(name));
    listen.tls = vec![CertificateConfig { certificate, key }];
    let client = ClientConfig::builder().with_root_certificates(authority.roots());
    let client = Arc::new(client.with_no_client_auth());
    let (plain, ours) = runtimes.serve(async || {
        let builder = || TestServer::builder().without_state();
        (builder().start().await, builder().listen(listen).start().await)
    });
    for server in [&plain, &ours] {
        relayers::fill(&server.publisher, 700);
    }
    for path in ["/version", "/chains", "/state"] {
        let bare =
            runtimes.serve(async || bare_hyper::start_tls(plain.address, path, &issued).await);
        let load = Load { tls: Some(Arc::clone(&client)), ..Load::new(path, ROUND) };
        let what = format!("hit on {path} with 700 workers over TLS, to bare hyper with rustls");
        let ours = ours.address;
        let rounds = || (0..TLS_ROUNDS).map(|_| (load.run(ours), load.run(bare))).collect();
        add(report, &what, Cores::Load.run(rounds), Target::AtLeast(0.95));
    }
}

/// Reads the metrics each second.
async fn read_metrics(path: PathBuf) {
    loop {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).await.unwrap();
        assert!(metrics.contains("relayer_rest_build_info"), "{metrics}");
        sleep(Duration::from_secs(1)).await;
    }
}

/// Measures a client that accepts compressed responses, as browsers do.
fn compressed(report: &mut Report, runtimes: &Runtimes, ours: SocketAddr) {
    let mut load = Load::new("/state", ROUND);
    let axum = runtimes.serve(async || servers::axum(ours).await);
    load.headers = "accept-encoding: zstd\r\n";
    let what = "hit on /state with 700 workers, compressed, to axum, which does not";
    compare(report, what, &load, (ours, axum), Target::None);
}

/// Compares a load on all endpoints while the state changes with the same load on a
/// constant state.
fn changing(report: &mut Report, server: &TestServer) {
    let load = Load { paths: PATHS.map(str::to_owned).to_vec(), ..Load::new("", ROUND) };
    let run = || Cores::Load.run(|| load.run(server.address));
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let quiet = run();
            let publisher = server.publisher.clone();
            let change = move |turn| publisher.update_state(|state| state.workers[0].id = turn);
            (while_changing(change, run), quiet)
        })
        .collect();
    let what = "load on all endpoints while the state changes 10 times a second, to while not";
    add(report, what, rounds, Target::AtLeast(0.9));
}

/// Runs a load while a thread with the cores of servers makes a numbered change ten times a second.
pub(crate) fn while_changing(
    change: impl Fn(u64) + Send + 'static,
    run: impl FnOnce() -> Served,
) -> Served {
    let stop = Arc::new(AtomicBool::new(false));
    let changing = Cores::Server.spawn({
        let stop = Arc::clone(&stop);
        move || {
            for turn in 1_000_000.. {
                if stop.load(Relaxed) {
                    return;
                }
                change(turn);
                thread::sleep(Duration::from_millis(100));
            }
        }
    });
    let served = run();
    stop.store(true, Relaxed);
    changing.join().unwrap();
    served
}

/// Compares two servers under the same load.
fn compare(
    report: &mut Report,
    what: &str,
    load: &Load,
    (ours, other): (SocketAddr, SocketAddr),
    target: Target,
) {
    let rounds = || (0..ROUNDS).map(|_| (load.run(ours), load.run(other))).collect();
    add(report, what, Cores::Load.run(rounds), target);
}

/// Adds the round with the median ratio to the report.
pub(crate) fn add(
    report: &mut Report,
    what: &str,
    mut rounds: Vec<(Served, Served)>,
    target: Target,
) {
    let ratio = |(ours, other): &(Served, Served)| ours.per_second / other.per_second;
    rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let median = &rounds[rounds.len() / 2];
    report.add(what, (shown(&median.0), shown(&median.1)), ratio(median), target);
}

fn shown(served: &Served) -> String {
    let Served { per_second, p50, p99, .. } = served;
    format!("{per_second:.0}/s, p50 {} µs, p99 {} µs", p50.as_micros(), p99.as_micros())
}
