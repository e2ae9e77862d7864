//! The metrics of the process, from the system, with the names that all programs use.

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use relayer_rest_sandbox::{CONTRACT_VERSION, WASMTIME_VERSION};

use super::family::{Family, FamilyKind, Samples, define_families};

define_families! {
    BUILD = Gauge "relayer_rest_build_info" ["version", "contract", "wasmtime"],
        "The versions of the server, of the contract and of wasmtime: always 1";
    CPU = Counter "process_cpu_seconds" [],
        "Processor time of the process";
    RESIDENT = Gauge "process_resident_memory_bytes" [],
        "Resident memory of the process";
    VIRTUAL = Gauge "process_virtual_memory_bytes" [],
        "Address space of the process";
    OPEN_FILES = Gauge "process_open_fds" [],
        "Open files of the process";
    MAX_FILES = Gauge "process_max_fds" [],
        "Limit of the open files of the process";
    THREADS = Gauge "process_threads" [],
        "Threads of the process";
    START = Gauge "process_start_time_seconds" [],
        "Unix time of the start of the process";
}

/// Adds the samples of this process. Values that the system does not show are left out.
pub(super) fn collect(samples: &mut Samples) {
    samples.add(&BUILD, [env!("CARGO_PKG_VERSION"), CONTRACT_VERSION, WASMTIME_VERSION], 1);
    let Ok(process) = Process::myself() else { return };
    if let Ok(stat) = process.stat() {
        let ticks = procfs::ticks_per_second();
        // Exact up to 2^53.
        #[allow(clippy::cast_precision_loss)]
        samples.add_number(&CPU, [], (stat.utime + stat.stime) as f64 / ticks as f64);
        samples.add(&RESIDENT, [], stat.rss_bytes().get());
        samples.add(&VIRTUAL, [], stat.vsize);
        samples.add(&THREADS, [], stat.num_threads.unsigned_abs());
        if let Ok(time) = procfs::boot_time_secs() {
            // As above.
            #[allow(clippy::cast_precision_loss)]
            samples.add_number(&START, [], time as f64 + stat.starttime as f64 / ticks as f64);
        }
    }
    if let Ok(count) = process.fd_count() {
        samples.add(&OPEN_FILES, [], count as u64);
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(limit) = limits.max_open_files.soft_limit
    {
        samples.add(&MAX_FILES, [], limit);
    }
}
