//! The address space that an engine reserves for the memories of its instances.
//!
//! Compiled code depends on it: what is compiled for one reservation runs with no
//! other. `docs/decisions/004-address-space.md` has what was measured.

use wasmtime::Config;

use super::limits::{Limits, bytes};

/// What a 32-bit index can reach. Code for memories with this much needs no bounds
/// checks, if a guard follows that is larger than the offsets which occur.
const FULL: u64 = 4 << 30;
const FULL_GUARD: u64 = 32 << 20;

/// The guard after a memory with less: offsets below it need no check of their own.
const COMPACT_GUARD: u64 = 1 << 20;

/// An engine reserves at most this part of the address space for full reservations:
/// each mount has an engine, and there are libraries, stacks and files besides.
const FULL_SHARE: u64 = 16;

/// The address space that each linear memory has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reservation(u64);

impl Reservation {
    pub(super) fn of_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(self) -> u64 {
        self.0
    }

    /// Returns what to reserve for each of so many memories: the full reservation, if
    /// there is plenty of address space, and the least, for when that fails.
    pub(super) fn choices(limits: &Limits, memories: u32) -> (Option<Self>, Self) {
        let full = Self(FULL);
        let is_plentiful = full.total(memories) <= available() / FULL_SHARE;
        (is_plentiful.then_some(full), Self(bytes(limits.memory) as u64))
    }

    /// Returns what so many memories reserve, in bytes.
    pub(super) fn total(self, memories: u32) -> u64 {
        (self.0 + self.guard()).saturating_mul(memories.into())
    }

    fn guard(self) -> u64 {
        if self.0 < FULL { COMPACT_GUARD } else { FULL_GUARD }
    }

    pub(super) fn configure(self, config: &mut Config) {
        config.memory_reservation(self.0).memory_guard_size(self.guard()).memory_may_move(false);
    }
}

/// Returns how much address space this process has, in bytes: that of the machine, of
/// which stacks are at the upper end, or what `ulimit -v` leaves of it.
fn available() -> u64 {
    let local = 0_u8;
    let machine = (std::ptr::from_ref(&local).addr() as u64).next_power_of_two();
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    limit.map_or(machine, |limit| limit.min(machine))
}

#[cfg(test)]
mod tests {
    use super::{Limits, Reservation, available};

    #[test]
    fn reservations_follow_from_the_limits() {
        let limits = Limits::default();
        let (_, compact) = Reservation::choices(&limits, 195);
        assert_eq!(compact.bytes(), limits.memory.as_u64());
        assert_eq!(compact.total(195), 195 * (65 << 20));
        // A million times 4 GiB are more than any machine has to spare.
        assert_eq!(Reservation::choices(&limits, 1_000_000).0, None);
        assert!(available() > 1 << 32);
    }
}
