//! The metrics of mounts: requests, cache, instances and modules.

use std::collections::BTreeMap;

use relayer_rest_common::histogram::Times;
use relayer_rest_sandbox::Failures;

use super::family::{Family, FamilyKind, Samples, define_families};
use crate::registry::{Mount, MountState, MountStatus, Origin};

define_families! {
    REQUESTS = Counter "relayer_rest_requests" ["mount", "module", "route", "method", "status"],
        "Responses to requests, by the module that was active; route is the path that it declares, if any";
    REQUEST_TIME = Histogram "relayer_rest_request_duration_seconds" ["mount", "module", "route", "cache"],
        "Time from the head of a request to its response; cache is hit or miss";
    CACHE_HITS = Counter "relayer_rest_cache_hits" ["mount"],
        "Requests with a cached response";
    CACHE_MISSES = Counter "relayer_rest_cache_misses" ["mount"],
        "Requests without a cached response";
    CACHE_EVICTIONS = Counter "relayer_rest_cache_evictions" ["mount"],
        "Responses that were evicted from the cache to make room for others";
    CACHE_BYTES = Gauge "relayer_rest_cache_bytes" ["mount"],
        "Size of the cached responses";
    JOINED_RUNS = Counter "relayer_rest_joined_runs" ["mount"],
        "Requests that shared the run of another one";
    RUNS = Counter "relayer_rest_runs" ["mount", "module"],
        "Runs of the last modules, each on a fresh instance";
    FAILURES = Counter "relayer_rest_failures" ["mount", "module", "cause"],
        "Failures of the last modules to respond; cause is trapped, timed_out, invalid, overloaded or host";
    TRAPS = Counter "relayer_rest_traps" ["mount", "module", "kind"],
        "Traps of the last modules; kind is panic, unreachable, stack_overflow, out_of_memory, out_of_bounds, arithmetic or other";
    INSTANCES = Gauge "relayer_rest_instances" ["mount"],
        "Instances that run now";
    QUEUE_DEPTH = Gauge "relayer_rest_queue_depth" ["mount"],
        "Requests that wait for an instance, or for a turn on a thread, now";
    QUEUE_WAIT = Histogram "relayer_rest_queue_wait_seconds" ["mount"],
        "Time of each wait of a request for an instance, or for a turn on a thread";
    PEAK_MEMORY = Gauge "relayer_rest_instance_memory_peak_bytes" ["mount"],
        "Peak size of the memories and tables of one instance";
    MODULE = Gauge "relayer_rest_module_info" ["mount", "module", "dialect"],
        "The active module: always 1";
    ACTIVATED = Gauge "relayer_rest_module_activated_timestamp_seconds" ["mount"],
        "Unix time at which the active module was activated";
    SWAPS = Counter "relayer_rest_swaps" ["mount"],
        "Modules that were swapped in";
    REJECTIONS = Counter "relayer_rest_swap_rejections" ["mount"],
        "Candidates that were rejected";
    ROLLBACKS = Counter "relayer_rest_rollbacks" ["mount"],
        "Rollbacks to the previous module, manual and after failures";
    SHADOWED = Counter "relayer_rest_shadowed_requests" ["mount"],
        "Requests on which a candidate ran in a shadow as well";
    SHADOW_DIFFERENCES = Counter "relayer_rest_shadow_differences" ["mount", "expected"],
        "Requests to which the response of a candidate differs in a shadow; expected is true if all differences are expected";
    SHADOW_DROPPED = Counter "relayer_rest_shadow_dropped_requests" ["mount"],
        "Requests that a shadow did not compare, because the candidate was too slow or the shadow ended";
    STATE = Gauge "relayer_rest_mount_state" ["mount", "state"],
        "Whether the mount is in this state: loading, active or disabled";
    CIRCUIT = Gauge "relayer_rest_circuit_open" ["mount"],
        "Whether the circuit of an extension is open, because it fails";
    QUARANTINED = Gauge "relayer_rest_quarantined_modules" ["mount"],
        "Modules that were replaced because they failed";
}

/// Adds the samples of a mount.
pub(super) fn collect(mount: &Mount, samples: &mut Samples) {
    let status = mount.status();
    let path = status.mount.as_str();
    requests(path, mount, samples);
    samples.add(&CACHE_EVICTIONS, [path], mount.cache().evictions());
    samples.add(&CACHE_BYTES, [path], status.cache_bytes);
    samples.add(&JOINED_RUNS, [path], mount.cache().joined_runs());
    let load = mount.engine().load();
    samples.add(&INSTANCES, [path], load.running as u64);
    samples.add(&QUEUE_DEPTH, [path], load.waiting as u64);
    samples.add_times(&QUEUE_WAIT, [path], load.waited);
    samples.add(&PEAK_MEMORY, [path], load.peak_memory as u64);
    modules(path, mount, &status, samples);
    samples.add(&SWAPS, [path], status.deployments.swaps);
    samples.add(&REJECTIONS, [path], status.deployments.rejections);
    samples.add(&ROLLBACKS, [path], status.deployments.rollbacks);
    let shadows = status.deployments.shadows;
    samples.add(&SHADOWED, [path], shadows.requests);
    samples.add(&SHADOW_DIFFERENCES, [path, "false"], shadows.unexpected);
    samples.add(&SHADOW_DIFFERENCES, [path, "true"], shadows.expected);
    samples.add(&SHADOW_DROPPED, [path], shadows.dropped);
    for name in MountState::NAMES {
        samples.add(&STATE, [path, name], (status.state.name() == name).into());
    }
    samples.add(&CIRCUIT, [path], status.circuit().is_some().into());
    samples.add(&QUARANTINED, [path], status.quarantined.len() as u64);
}

fn requests(path: &str, mount: &Mount, samples: &mut Samples) {
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    let mut times: BTreeMap<_, Times> = BTreeMap::new();
    let [mut hits, mut misses] = [0; 2];
    for series in mount.request_series() {
        let status = series.status.map_or("other".to_owned(), |code| code.as_str().to_owned());
        let count = series.times.count();
        match series.origin {
            Origin::Cache => hits += count,
            Origin::Run => misses += count,
        }
        let cache = series.origin.cache_result();
        let route = series.route.map_or(String::new(), |route| mount.path().join(&route));
        let module = series.module;
        *counts.entry((module.clone(), route.clone(), series.method, status)).or_default() += count;
        *times.entry((module, route, cache)).or_default() += &series.times;
    }
    for ((module, route, method, status), count) in counts {
        samples.add(&REQUESTS, [path, &module, &route, method, &status], count);
    }
    for ((module, route, cache), times) in times {
        samples.add_times(&REQUEST_TIME, [path, &module, &route, cache], times);
    }
    samples.add(&CACHE_HITS, [path], hits);
    samples.add(&CACHE_MISSES, [path], misses);
}

fn modules(path: &str, mount: &Mount, status: &MountStatus, samples: &mut Samples) {
    for (label, stats) in mount.module_stats() {
        let label = label.to_str().unwrap_or_default();
        let Failures { trapped, timed_out, invalid, overloaded, host } = stats.failures();
        samples.add(&RUNS, [path, label], stats.runs());
        for (cause, count) in [
            ("trapped", trapped),
            ("timed_out", timed_out),
            ("invalid", invalid),
            ("overloaded", overloaded),
            ("host", host),
        ] {
            samples.add(&FAILURES, [path, label, cause], count);
        }
        for (kind, count) in stats.traps() {
            samples.add(&TRAPS, [path, label, kind.name()], count);
        }
    }
    if let (Some(module), Some(active)) = (mount.module(), status.module()) {
        let label = module.label().to_str().unwrap_or_default();
        samples.add(&MODULE, [path, label, &status.dialect.to_string()], 1);
        samples.add(&ACTIVATED, [path], active.since);
    }
}
