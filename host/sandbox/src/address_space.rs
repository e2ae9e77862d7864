//! The address space that an engine reserves for the memories of its instances.
//!
//! Compiled code depends on it: code for one reservation does not run with another.
//! `docs/decisions/004-address-space.md` has the measurements.

use wasmtime::Config;

use super::limits::{Limits, bytes};

/// The range of a 32-bit index. Code for memories with this reservation needs no bounds
/// checks if a guard follows that is larger than the offsets that occur.
const FULL: u64 = 4 << 30;
const FULL_GUARD: u64 = 32 << 20;

/// The guard after a smaller reservation: offsets below it need no check of their own.
const COMPACT_GUARD: u64 = 1 << 20;

/// An engine uses full reservations if they take at most 1/`FULL_SHARE` of the address
/// space: each mount has an engine, and libraries, stacks and files need space as well.
const FULL_SHARE: u64 = 16;

/// The address space that each linear memory reserves, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reservation(u64);

impl Reservation {
    pub(super) fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the reservations to try for each of this many memories: the full one, if
    /// there is plenty of address space, and the smallest, if that fails.
    pub(super) fn choices(limits: &Limits, memories: u32) -> (Option<Self>, Self) {
        let full = Self(FULL);
        let is_plentiful = full.total(memories) <= available() / FULL_SHARE;
        (is_plentiful.then_some(full), Self(bytes(limits.memory) as u64))
    }

    /// Returns the bytes that this many memories reserve, with their guards.
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

/// Returns the size of this process's address space, in bytes: the machine's, derived
/// from the address of a stack, which is at its upper end, or the limit of `ulimit -v` if
/// that is lower.
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
        // No machine has a million times 4 GiB to spare.
        assert_eq!(Reservation::choices(&limits, 1_000_000).0, None);
        assert!(available() > 1 << 32);
    }
}
