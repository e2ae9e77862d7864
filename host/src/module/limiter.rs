//! What an instance has of memory and tables, and may have.

use bytesize::ByteSize;
use wasmtime::{ResourceLimiter, Result};

use super::limits::Limits;

/// Counts what an instance takes, and refuses what is too much.
pub(super) struct Limiter {
    memory: usize,
    most_memory: usize,
    /// The last memory that was refused.
    refused: Option<usize>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory_bytes(), most_memory: 0, refused: None }
    }

    /// What the instance wanted and was not given, in words.
    pub(super) fn refusal(&self) -> Option<String> {
        let (wanted, most) = (ByteSize::b(self.refused? as u64), ByteSize::b(self.memory as u64));
        Some(format!("it wanted {wanted} of memory, where limits.memory is {most}"))
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
        let most = maximum.map_or(self.memory, |maximum| maximum.min(self.memory));
        let is_granted = desired <= most;
        if is_granted {
            self.most_memory = self.most_memory.max(desired);
        } else {
            self.refused = Some(desired);
        }
        Ok(is_granted)
    }

    fn table_growing(
        &mut self,
        _present: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // The pool has no larger ones than it says.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}
