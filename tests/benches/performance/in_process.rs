//! The costs of a run, a hit and a publication, without a socket.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relayer_rest_host::cache::{RequestRef, ResponseCache};
use relayer_rest_host::module::{GuestRequest, Limits, Module, ReusedInstance, RunPermit};
use relayer_rest_host::state::{Snapshot, StatePublisher};
use relayer_rest_tests::server::{engine, request};
use tokio::runtime::Runtime;

use crate::native::NativeResponse;
use crate::relayers::{self, PATHS};
use crate::report::{Report, Target};

const SIZES: [u64; 4] = [10, 700, 5_000, 50_000];

/// The number of rounds. In each, the two that are compared take turns.
const ROUNDS: usize = 9;

/// The number of calls of a reused instance. The module frees no memory; this many calls
/// take less than the memory that stays resident between calls.
const CALLS: u32 = 200;

/// The number of requests for each endpoint, with 100 random paths in
/// between.
const FLOOD_ROUNDS: usize = 10_000;

/// The approximate length of a round for each of the two.
const ROUND: Duration = Duration::from_millis(40);

pub(crate) fn measure(report: &mut Report, runtime: &Runtime, module: &Module) {
    let mut per_worker = Vec::new();
    for workers in SIZES {
        let publisher = StatePublisher::new();
        relayers::fill(&publisher, workers);
        let snapshot = publisher.reader().snapshot();
        for path in PATHS {
            let miss = misses(report, runtime, module, &snapshot, path, workers);
            if path == "/state" {
                per_worker
                    .push((workers, miss.div_f64(f64::from(u32::try_from(workers).unwrap()))));
            }
        }
        hits(report, runtime, module, &publisher, workers);
        publications(report, &publisher, workers);
    }
    flood(report, runtime, module);
    let small = per_worker[1].1;
    let large = per_worker[3].1;
    report.add(
        "growth: a worker's part of a miss on /state, of 50,000 to of 700",
        (micros(large), micros(small)),
        ratio(large, small),
        Target::AtMost(1.2),
    );
}

/// Compares a fresh instance with `serde_json`, and for one case with a reused instance.
fn misses(
    report: &mut Report,
    runtime: &Runtime,
    module: &Module,
    snapshot: &Arc<Snapshot>,
    path: &str,
    workers: u64,
) -> Duration {
    let guest_request = request("GET", path, &[]);
    let miss = || {
        let run = async {
            RunPermit::acquire(module).await?.execute(guest_request.clone(), snapshot.clone()).await
        };
        black_box(runtime.block_on(run).unwrap());
    };
    let response = runtime
        .block_on(async {
            RunPermit::acquire(module).await?.execute(guest_request.clone(), snapshot.clone()).await
        })
        .unwrap();
    let native = NativeResponse::new(path, response.response.body());
    let (fresh, rendered, times) = compare(miss, || drop(black_box(native.render())));
    let target = match (path, workers) {
        ("/state", 700 | 5_000) => Target::AtMost(3.0),
        _ => Target::None,
    };
    let what = format!("miss on {path} with {workers} workers, to native serde_json");
    report.add(what, (micros(fresh), micros(rendered)), times, target);
    if path == "/chains" && workers == 700 {
        let guest_request: &'static GuestRequest = Box::leak(Box::new((*guest_request).clone()));
        // With an engine of its own, so that the memory that it touches is not reset for
        // the fresh instances.
        let module = Module::embedded(&engine(&Limits::default())).unwrap();
        let new = || {
            runtime.block_on(ReusedInstance::new(&module, guest_request, snapshot.clone())).unwrap()
        };
        let mut reused = new();
        let mut calls = 0;
        let reuse = || {
            calls += 1;
            if calls % CALLS == 0 {
                reused = new();
            }
            black_box(runtime.block_on(reused.handle()).unwrap());
        };
        let (fresh, reused, times) = compare(miss, reuse);
        let what = "miss on /chains, to a call of an instance that exists";
        report.add(what, (micros(fresh), micros(reused)), times, Target::AtMost(1.8));
    }
    fresh
}

/// Compares a cached response with `serde_json`.
fn hits(
    report: &mut Report,
    runtime: &Runtime,
    module: &Module,
    publisher: &StatePublisher,
    workers: u64,
) {
    let cache = ResponseCache::new(module.limits().response_cache);
    let state = publisher.reader();
    let guest_request = request("GET", "/state", &[]);
    let response =
        runtime.block_on(cache.get_or_run(module, guest_request.clone(), &state)).unwrap();
    let native = NativeResponse::new("/state", &response.plain().body);
    let snapshot = state.snapshot();
    let hit = || {
        let request_ref = RequestRef::from(&*guest_request);
        let response = cache.find(module, request_ref, &snapshot).expect("it is cached");
        black_box(response.plain().body.clone());
    };
    let (hit, rendered, times) = compare(hit, || drop(black_box(native.render())));
    let what = format!("hit on /state with {workers} workers, to native serde_json");
    report.add(what, (micros(hit), micros(rendered)), times, Target::None);
}

/// Measures the API's hit rate while a client requests a million random paths, relative
/// to the hit rate without that client.
fn flood(report: &mut Report, runtime: &Runtime, module: &Module) {
    let publisher = StatePublisher::new();
    relayers::fill(&publisher, 700);
    let state = publisher.reader();
    let hit_rate = |strangers: u32| {
        let cache = ResponseCache::new(module.limits().response_cache);
        let is_hit = |path: &str| {
            let guest_request = request("GET", path, &[]);
            let snapshot = state.snapshot();
            let hit = cache.find(module, RequestRef::from(&*guest_request), &snapshot).ok();
            if hit.is_none() {
                runtime.block_on(cache.get_or_run(module, guest_request, &state)).unwrap();
            }
            hit.is_some()
        };
        for path in PATHS {
            is_hit(path);
        }
        let mut hits = 0;
        for _ in 0..FLOOD_ROUNDS {
            hits += PATHS.iter().filter(|path| is_hit(path)).count();
            for _ in 0..strangers {
                is_hit(&format!("/{:032x}", fastrand::u128(..)));
            }
        }
        #[expect(clippy::cast_precision_loss)]
        let rate = hits as f64 / (FLOOD_ROUNDS * PATHS.len()) as f64;
        rate
    };
    let flooded = hit_rate(100);
    let quiet = hit_rate(0);
    let shown = |rate: f64| format!("{:.2}%", rate * 100.0);
    report.add(
        "hits of the four endpoints among 1,000,000 random paths, to without them",
        (shown(flooded), shown(quiet)),
        flooded / quiet,
        Target::AtLeast(1.0),
    );
}

/// Compares the publication of a changed state with cloning and comparing it, which are
/// unavoidable.
fn publications(report: &mut Report, publisher: &StatePublisher, workers: u64) {
    let state = relayers::state(workers);
    let mut turn = workers;
    let publish = || {
        let mut next = state.clone();
        turn += 1;
        next.workers.last_mut().unwrap().id = turn;
        publisher.set_state(next);
    };
    let clone = || assert_eq!(black_box(state.clone()), state);
    let (new, same, times) = compare(publish, clone);
    let what = format!("publication of {workers} workers, to cloning and comparing them");
    report.add(what, (micros(new), micros(same)), times, Target::None);
}

/// Returns the times of both functions, and the ratio of the first to the second, of the
/// round with the median ratio.
fn compare(mut one: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration, f64) {
    let ones = turns(&mut one);
    let others = turns(&mut other);
    let mut rounds: Vec<_> =
        (0..ROUNDS).map(|_| (time(&mut one, ones), time(&mut other, others))).collect();
    rounds.sort_by(|a, b| ratio(a.0, a.1).total_cmp(&ratio(b.0, b.1)));
    let (one, other) = rounds[ROUNDS / 2];
    (one, other, ratio(one, other))
}

/// Returns the number of calls that fit into a round.
fn turns(what: &mut impl FnMut()) -> u32 {
    // Twice, because caches are cold the first time.
    time(what, 3);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let turns = ratio(ROUND, time(what, 3)) as u32;
    turns.max(1)
}

fn time(what: &mut impl FnMut(), turns: u32) -> Duration {
    let start = Instant::now();
    (0..turns).for_each(|_| what());
    start.elapsed() / turns
}

pub(crate) fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

pub(crate) fn micros(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}
