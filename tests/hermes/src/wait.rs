//! Waiting for conditions. No test waits for a fixed time instead of a condition.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// The deadline of all waits: far more than any awaited event takes.
const DEADLINE: Duration = Duration::from_mins(20);
/// The interval at which a condition is checked. Hermes itself responds twice a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Waits until two values, both made anew at each check, are equal.
pub fn until_equal<T: PartialEq + std::fmt::Debug>(
    awaited: &str,
    mut values: impl FnMut() -> (T, T),
) {
    let start = Instant::now();
    loop {
        let (left, right) = values();
        if left == right {
            return;
        }
        let is_late = start.elapsed() > DEADLINE;
        assert!(!is_late, "not within {DEADLINE:?}: {awaited}\n left: {left:?}\nright: {right:?}");
        sleep(INTERVAL);
    }
}

/// Waits until a condition holds.
pub fn until(awaited: &str, mut condition: impl FnMut() -> bool) {
    until_equal(awaited, || (condition(), true));
}
