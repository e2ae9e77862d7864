//! What an instance has of memory and tables, and may have.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytesize::ByteSize;
use wasmtime::{ResourceLimiter, Result};

use super::limits::{Limits, bytes};

/// Counts what an instance takes, and refuses what is too much.
pub(super) struct Limiter {
    memory: usize,
    table: usize,
    /// The bytes of its memories, of which there may be some.
    present: usize,
    /// The bytes by which one of them grew last.
    grown: usize,
    most_memory: usize,
    peaks: Arc<Peaks>,
    /// What was refused last.
    refused: Option<Refused>,
}

/// The most that instances of a module have had at a time.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    /// The bytes of all memories of an instance.
    pub(super) memory: AtomicUsize,
    /// The elements of one of its tables.
    pub(super) table: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Refused {
    /// So many bytes of memory.
    Memory(usize),
    /// So many elements of a table.
    Table(usize),
}

impl Limiter {
    pub(super) fn new(limits: &Limits, peaks: &Arc<Peaks>) -> Self {
        Self::with(bytes(limits.memory), limits.table as usize, Arc::clone(peaks))
    }

    /// Returns one for an instance in which nothing runs.
    pub(super) fn unlimited() -> Self {
        Self::with(usize::MAX, usize::MAX, Arc::default())
    }

    fn with(memory: usize, table: usize, peaks: Arc<Peaks>) -> Self {
        Self { memory, table, peaks, present: 0, grown: 0, most_memory: 0, refused: None }
    }

    /// What the instance wanted and was not given, in words.
    pub(super) fn refusal(&self) -> Option<String> {
        let size = |bytes: usize| ByteSize::b(bytes as u64);
        Some(match self.refused? {
            Refused::Memory(wanted) => {
                let (wanted, most) = (size(wanted), size(self.memory));
                format!("it wanted {wanted} of memory, where limits.memory is {most}")
            }
            Refused::Table(wanted) => {
                let most = self.table;
                format!("it wanted {wanted} elements in a table, where limits.table is {most}")
            }
        })
    }

    /// The most memory that there was, in bytes.
    pub(super) fn most_memory(&self) -> usize {
        self.most_memory
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let grown = desired.saturating_sub(present);
        let sum = self.present.saturating_add(grown);
        if sum > self.memory {
            self.refused = Some(Refused::Memory(sum));
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        (self.present, self.grown) = (sum, grown);
        self.most_memory = self.most_memory.max(sum);
        raise(&self.peaks.memory, sum);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        // It may be said of what was refused before it was asked for.
        self.present = self.present.saturating_sub(take(&mut self.grown));
        Ok(())
    }

    fn table_growing(
        &mut self,
        _present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let is_granted = desired <= self.table;
        if !is_granted {
            self.refused = Some(Refused::Table(desired));
        }
        let is_granted = is_granted && maximum.is_none_or(|maximum| desired <= maximum);
        if is_granted {
            raise(&self.peaks.table, desired);
        }
        Ok(is_granted)
    }
}

/// Raises a maximum; most times it is that high already, which needs no write.
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
        let mut limiter = Limiter::new(&limits, &Arc::default());
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 30, None).unwrap());
        assert!(!limiter.memory_growing(60, 80, None).unwrap());
        assert!(limiter.refusal().unwrap().contains("wanted 110 B of memory"));
        assert!(!limiter.memory_growing(60, 70, Some(65)).unwrap());
        assert!(limiter.memory_growing(60, 70, None).unwrap());
        assert_eq!(limiter.most_memory(), 100);
        limiter.memory_grow_failed(wasmtime::Error::msg("as the test wants it")).unwrap();
        assert!(limiter.memory_growing(30, 40, None).unwrap());
    }
}
