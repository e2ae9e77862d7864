//! The memory and tables of an instance, and their limits. Everything that grows with an
//! instance shares `limits.memory`: its memories, its tables, and the host's data for it.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytesize::ByteSize;
use wasmtime::{ResourceLimiter, Result};

use super::cost::ELEMENT_BYTES;
use super::limits::{Limits, bytes};

/// Counts the memory of an instance, and denies growth beyond the limits.
pub(super) struct Limiter {
    memory: usize,
    table: usize,
    /// The bytes of its memories and tables, and of the host's other data for it.
    present: usize,
    /// The bytes of the host's other data.
    host: usize,
    /// The bytes of the last growth of a memory or a table.
    grown: usize,
    most_memory: usize,
    peaks: Arc<Peaks>,
    /// The last growth that was denied.
    refused: Option<Denied>,
}

/// The maximum sizes of the instances of an engine.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    /// The bytes of all memories and tables of an instance.
    pub(super) memory: AtomicUsize,
    /// The elements of one of its tables.
    pub(super) table: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Denied {
    /// The bytes of memory that the instance would have had.
    Memory(usize),
    /// The elements that the table would have had.
    Table(usize),
}

impl Limiter {
    /// Creates the limiter of an instance for which the host keeps `host` bytes.
    pub(super) fn new(limits: &Limits, host: u64, peaks: &Arc<Peaks>) -> Self {
        let host = usize::try_from(host).unwrap_or(usize::MAX);
        Self::with(bytes(limits.memory), limits.table as usize, host, Arc::clone(peaks))
    }

    /// Creates the limiter of an instance in which nothing runs.
    pub(super) fn unlimited() -> Self {
        Self::with(usize::MAX, usize::MAX, 0, Arc::default())
    }

    fn with(memory: usize, table: usize, host: usize, peaks: Arc<Peaks>) -> Self {
        Self { memory, table, present: host, host, grown: 0, most_memory: 0, peaks, refused: None }
    }

    /// Describes the last growth that was denied.
    pub(super) fn refusal(&self) -> Option<String> {
        let size = |bytes: usize| ByteSize::b(bytes as u64);
        Some(match self.refused? {
            Denied::Memory(wanted) => {
                let wanted = size(wanted);
                let limit = size(self.memory);
                format!("it requested {wanted} of memory, but limits.memory is {limit}")
            }
            Denied::Table(wanted) => {
                let limit = self.table;
                format!("it requested {wanted} elements in a table, but limits.table is {limit}")
            }
        })
    }

    /// Returns the peak size of memories and tables, in bytes.
    pub(super) fn peak_memory(&self) -> usize {
        self.most_memory
    }

    /// Grants this many more bytes, unless that exceeds the limit.
    fn grant(&mut self, grown: usize) -> bool {
        let sum = self.present.saturating_add(grown);
        if sum > self.memory {
            self.refused = Some(Denied::Memory(sum));
            return false;
        }
        (self.present, self.grown) = (sum, grown);
        self.most_memory = self.most_memory.max(sum - self.host);
        raise(&self.peaks.memory, sum - self.host);
        true
    }

    /// Counts bytes that the host keeps for the instance until the end of its request.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<()> {
        let sum = self.present.saturating_add(bytes);
        if sum > self.memory {
            self.refused = Some(Denied::Memory(sum));
            return Err(wasmtime::Error::msg("the host keeps no more data for the instance"));
        }
        self.present = sum;
        self.host += bytes;
        Ok(())
    }

    /// Takes back the last growth: it failed for another reason.
    fn take_back(&mut self) {
        // The engine may report a growth that it refused without asking.
        self.present = self.present.saturating_sub(take(&mut self.grown));
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // A growth beyond the memory's own maximum fails in any case.
        let fits = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(fits && self.grant(desired.saturating_sub(present)))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if desired > self.table {
            self.refused = Some(Denied::Table(desired));
            return Ok(false);
        }
        let grown = desired.saturating_sub(present).saturating_mul(ELEMENT_BYTES);
        let fits = maximum.is_none_or(|maximum| desired <= maximum);
        let is_granted = fits && self.grant(grown);
        if is_granted {
            raise(&self.peaks.table, desired);
        }
        Ok(is_granted)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.take_back();
        Ok(())
    }
}

/// Raises a maximum. Usually it is that high already, and needs no write.
fn raise(peak: &AtomicUsize, value: usize) {
    if peak.load(Relaxed) < value {
        peak.fetch_max(value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, Limits};
    use bytesize::ByteSize;
    use std::sync::Arc;
    use wasmtime::ResourceLimiter;

    #[test]
    fn all_memories_share_the_limit() {
        let limits = Limits { memory: ByteSize::b(100), ..Limits::default() };
        let mut limiter = Limiter::new(&limits, 0, &Arc::default());
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 30, None).unwrap());
        assert!(!limiter.memory_growing(60, 80, None).unwrap());
        assert!(limiter.refusal().unwrap().contains("requested 110 B of memory"));
        assert!(!limiter.memory_growing(60, 70, Some(65)).unwrap());
        assert!(limiter.memory_growing(60, 70, None).unwrap());
        assert_eq!(limiter.peak_memory(), 100);
        limiter.memory_grow_failed(wasmtime::Error::msg("as the test wants it")).unwrap();
        assert!(limiter.memory_growing(30, 40, None).unwrap());
    }

    #[test]
    fn tables_and_the_host_share_the_limit_of_memory() {
        let limits = Limits { memory: ByteSize::b(200), table: 20, ..Limits::default() };
        let mut limiter = Limiter::new(&limits, 100, &Arc::default());
        assert!(limiter.memory_growing(0, 20, None).unwrap());
        assert!(limiter.table_growing(0, 5, None).unwrap());
        assert_eq!(limiter.peak_memory(), 60);
        assert!(!limiter.table_growing(5, 11, None).unwrap());
        assert!(limiter.refusal().unwrap().contains("requested 208 B of memory"));
        assert!(limiter.table_growing(5, 10, None).unwrap());
        limiter.table_grow_failed(wasmtime::Error::msg("as the test wants it")).unwrap();
        assert!(limiter.memory_growing(20, 60, None).unwrap());
        assert!(!limiter.table_growing(5, 6, None).unwrap());
        assert!(!limiter.table_growing(5, 21, None).unwrap());
        assert!(limiter.refusal().unwrap().contains("limits.table is 20"));
    }
}
