//! Measurements for benchmarks.

use std::time::Duration;

/// Returns the quantile `part` of the times: 0.5 for the median. Sorts the times.
#[must_use]
pub fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = ((times.len() - 1) as f64 * part).round() as usize;
    times[place]
}

/// Returns the resident memory of this process, in bytes.
#[must_use]
pub fn resident_memory() -> u64 {
    memory("self", "VmRSS:")
}

/// Returns the resident memory of a process, in bytes.
#[must_use]
pub fn resident_memory_of(process: i32) -> u64 {
    memory(&process.to_string(), "VmRSS:")
}

/// Returns the peak resident memory of a process, in bytes.
#[must_use]
pub fn peak_memory_of(process: i32) -> u64 {
    memory(&process.to_string(), "VmHWM:")
}

/// Returns the processor time of the threads that a process has.
#[must_use]
pub fn processor_time_of(process: i32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // The thread may have ended.
        let fields = std::fs::read_to_string(thread.unwrap().path().join("schedstat"));
        fields.map_or(0, |fields| fields.split(' ').next().unwrap().parse().unwrap())
    });
    Duration::from_nanos(nanos.sum())
}

fn memory(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
