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
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
