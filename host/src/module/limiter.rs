//! What an instance has of memory and tables, and may have.

use bytesize::ByteSize;
use wasmtime::{ResourceLimiter, Result};

use super::limits::{Limits, bytes};

/// Counts what an instance takes, and refuses what is too much.
pub(super) struct Limiter {
    memory: usize,
    table: usize,
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
        _present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let is_granted = desired <= self.memory;
        if is_granted {
            self.most_memory = self.most_memory.max(desired);
        } else {
            self.refused = Some(Refused::Memory(desired));
        }
        Ok(is_granted && maximum.is_none_or(|maximum| desired <= maximum))
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
