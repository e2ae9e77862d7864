//! What an instance has of memory and tables, and may have.

use std::mem::take;

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
    /// What was refused last.
    refused: Option<Refused>,
}

#[derive(Clone, Copy)]
enum Refused {
    /// So many bytes of memory.
    Memory(usize),
    /// So many elements of a table.
    Table(usize),
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            memory: bytes(limits.memory),
            table: limits.table as usize,
            present: 0,
            grown: 0,
            most_memory: 0,
            refused: None,
        }
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
        Ok(is_granted && maximum.is_none_or(|maximum| desired <= maximum))
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, Limits};
    use bytesize::ByteSize;
    use wasmtime::ResourceLimiter;

    #[test]
    fn all_memories_share_the_limit() {
        let limits = Limits { memory: ByteSize::b(100), ..Limits::default() };
        let mut limiter = Limiter::new(&limits);
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
