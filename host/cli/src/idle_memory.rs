//! Returns memory to the system after load.
//!
//! The pool keeps the memory of its slots, which makes the next request faster, but after an attack it
//! is gigabytes that nothing uses. So a thread checks the process's memory from time to
//! time, and returns memory when there is much more than at the start, and it no longer
//! grows. While that has no effect, because the memory is in use, it is repeated in
//! growing intervals: memory that was freed since then is still resident.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::priority;
use relayer_rest_server::registry::Registry;
use tracing::{debug, info, warn};

/// The time between two checks.
const INTERVAL: Duration = Duration::from_secs(10);

/// The minimum growth that is worth the work, in bytes.
const MIN_GROWTH: u64 = 8 << 20;

/// Decides when memory is returned, from the resident bytes at each check.
#[derive(Debug)]
struct Policy {
    /// The resident bytes at the start.
    start: u64,
    /// The resident bytes after the last return.
    left: u64,
    last: u64,
    /// The number of checks after which a return is repeated, and of those since the last
    /// return.
    patience: u32,
    checks: u32,
}

/// The maximum number of checks after which a return is repeated.
const MAX_PATIENCE: u32 = 6;

impl Policy {
    fn new(resident: u64) -> Self {
        Self { start: resident, left: resident, last: resident, patience: 1, checks: 0 }
    }

    /// Returns whether memory must be returned now: there is more than at the start, it
    /// does not grow, and it differs from the amount after the last return or that return
    /// was long ago.
    fn is_due(&mut self, resident: u64) -> bool {
        let grows = resident > self.last.saturating_add(MIN_GROWTH);
        self.last = resident;
        self.checks += 1;
        !grows
            && resident > self.start.saturating_add(MIN_GROWTH)
            && (self.checks >= self.patience || resident.abs_diff(self.left) > MIN_GROWTH)
    }

    /// Records the resident bytes after a return. After one with an effect, more may have
    /// been freed while it ran.
    fn returned(&mut self, resident: u64) {
        let had_effect = self.last.saturating_sub(resident) > MIN_GROWTH;
        self.patience = if had_effect { 1 } else { MAX_PATIENCE.min(2 * self.patience) };
        self.checks = 0;
        self.left = resident;
        self.last = resident;
    }
}

/// Checks the memory of this process until the registry is dropped.
pub(super) fn watch(registry: &Arc<Registry>) {
    let registry = Arc::downgrade(registry);
    let watching = move || {
        priority::lower_thread();
        let mut policy = Policy::new(resident());
        loop {
            thread::sleep(INTERVAL);
            let Some(registry) = registry.upgrade() else { return };
            let before = resident();
            if !policy.is_due(before) {
                continue;
            }
            for mount in registry.mounts().iter() {
                mount.release_idle_memory();
            }
            let after = resident();
            policy.returned(after);
            let returned = before.saturating_sub(after);
            if returned >= MIN_GROWTH {
                let returned = ByteSize::b(returned);
                let left = ByteSize::b(after);
                info!(%returned, %left, "memory returned to the system");
            } else {
                debug!(returned, "no memory to return");
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("idle-memory".to_owned()).spawn(watching) {
        warn!(%error, "cannot return memory after load: no thread can be created");
    }
}

/// Returns the resident bytes of this process, or 0 if the system does not report them.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::{MIN_GROWTH, Policy};

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_returned_when_it_has_grown_and_grows_no_more() {
        let mut policy = Policy::new(20 * MIB);
        assert!(!policy.is_due(20 * MIB));
        assert!(!policy.is_due(20 * MIB + MIN_GROWTH));
        // While memory grows, it is in use.
        assert!(!policy.is_due(500 * MIB));
        assert!(!policy.is_due(900 * MIB));
        assert!(policy.is_due(901 * MIB));
        // Some memory was freed only after it was looked through.
        policy.returned(450 * MIB);
        assert!(policy.is_due(448 * MIB));
        policy.returned(400 * MIB);
        assert!(policy.is_due(400 * MIB));
        // The rest is in use, or cannot be returned.
        policy.returned(400 * MIB);
        assert!(!policy.is_due(400 * MIB));
        assert!(!policy.is_due(450 * MIB));
        assert!(policy.is_due(440 * MIB));
        policy.returned(440 * MIB);
        // Clients have disconnected, and their memory is in the arenas.
        assert!(policy.is_due(60 * MIB));
        policy.returned(30 * MIB);
        assert!(!policy.is_due(25 * MIB));
    }

    #[test]
    fn a_return_without_an_effect_is_repeated_in_growing_intervals() {
        let mut policy = Policy::new(20 * MIB);
        let mut intervals = Vec::new();
        for _ in 0..7 {
            let checks = (1..100).find(|_| policy.is_due(400 * MIB)).unwrap();
            intervals.push(checks);
            policy.returned(400 * MIB);
        }
        assert_eq!(intervals, [2, 2, 4, 6, 6, 6, 6]);
        // Freed memory was found.
        policy.is_due(400 * MIB);
        policy.returned(100 * MIB);
        assert!(policy.is_due(100 * MIB));
    }
}
