//! Waiting for conditions. No test waits for a fixed time instead of a condition.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

/// The deadline of all waits: far more than any awaited event takes, even if other
/// programs keep all processors busy. A module of 12 MB, compiled by an unoptimised build at a
/// lower priority, has taken more than 5 minutes then.
pub const DEADLINE: Duration = Duration::from_mins(20);

/// The interval at which a condition is checked at first, and after a second: a check can be a
/// request, and a module of 12 MB would be compiled beside a thousand of them a second.
const INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// Waits for a future.
///
/// # Panics
///
/// Panics if it does not complete before the [`DEADLINE`]. `awaited` says what it was.
pub async fn within<T>(awaited: &str, future: impl Future<Output = T>) -> T {
    let ended = timeout(DEADLINE, future).await;
    ended.unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {awaited}"))
}

/// Waits until a condition holds.
///
/// # Panics
///
/// Panics if it does not hold before the [`DEADLINE`]. `awaited` describes it.
pub async fn until(awaited: &str, mut condition: impl FnMut() -> bool) {
    until_async(awaited, async || condition()).await;
}

/// Waits until an asynchronous condition holds.
///
/// # Panics
///
/// Panics if it does not hold before the [`DEADLINE`]. `awaited` describes it.
pub async fn until_async(awaited: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    let [first, last] = INTERVALS;
    let holds = async {
        while !condition().await {
            sleep((start.elapsed() / 100).clamp(first, last)).await;
        }
    };
    within(awaited, holds).await;
}
