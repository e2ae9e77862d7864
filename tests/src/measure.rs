//! What benchmarks measure with.

use std::time::Duration;

/// The time below which this part of the times is: 0.5 for the median. Sorts
/// the times.
#[must_use]
pub fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let place = ((times.len() - 1) as f64 * part).round() as usize;
    times[place]
}

/// The memory of this process that is in use, in bytes.
#[must_use]
pub fn resident_memory() -> u64 {
    memory("self", "VmRSS:")
}

/// The memory of a process that is in use, in bytes.
#[must_use]
pub fn resident_memory_of(process: i32) -> u64 {
    memory(&process.to_string(), "VmRSS:")
}

/// The most memory that a process has had in use, in bytes.
#[must_use]
pub fn peak_memory_of(process: i32) -> u64 {
    memory(&process.to_string(), "VmHWM:")
}

fn memory(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
