//! What a module may use.

use std::time::Duration;

use bytesize::ByteSize;
use serde::Deserialize;

/// What a module may use for one request, and how many requests run at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The memory of an instance, in bytes. A module that wants more is
    /// refused the memory and usually traps. Default: 64 MiB; at least 1 MiB,
    /// at most 4 GiB.
    pub memory: ByteSize,
    /// The time for one request, from the call to the answer. Default: 1 s;
    /// at least 1 ms.
    #[serde(with = "humantime_serde")]
    pub time: Duration,
    /// How many instances run at once. Default: 64; 1 to 1,024.
    pub concurrency: u32,
    /// How many requests wait for an instance. Default: 256.
    pub queue: u32,
    /// How long a request waits for an instance. Default: 1 s.
    #[serde(with = "humantime_serde")]
    pub queue_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            time: Duration::from_secs(1),
            concurrency: 64,
            queue: 256,
            queue_wait: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Says which limit is out of its range, by its key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let memory = ByteSize::mib(1)..=ByteSize::gib(4);
        if !memory.contains(&self.memory) {
            return Err(format!("memory is {}; it can be 1 MiB to 4 GiB", self.memory));
        }
        if self.time < Duration::from_millis(1) {
            return Err("time is less than 1ms".to_owned());
        }
        if !(1..=1024).contains(&self.concurrency) {
            return Err(format!("concurrency is {}; it can be 1 to 1024", self.concurrency));
        }
        Ok(())
    }

    /// The memory as the allocator wants it.
    pub(super) fn memory_bytes(&self) -> usize {
        usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX)
    }
}
