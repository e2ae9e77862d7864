//! What a module may use.

use std::time::Duration;

use bytesize::ByteSize;
use serde::Deserialize;

use crate::toml_text;

/// What a module may use for one request, and how many requests run at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The memory of an instance, in bytes. A module that wants more is
    /// refused the memory and usually traps; one that wants more from the
    /// start is refused (the one that comes with this crate wants less than 1 MiB).
    /// Default: 64 MiB; 1 MiB to 4 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub memory: ByteSize,
    /// The time for one request, from the call to the answer. Default: 1 s;
    /// 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub time: Duration,
    /// How many instances run at once. Default: 64; 1 to 1,024.
    pub concurrency: u32,
    /// How many requests wait for an instance. Default: 256; up to 1,000,000.
    pub queue: u32,
    /// How long a request waits for an instance. Default: 1 s; up to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub queue_wait: Duration,
    /// How many bytes of answers are remembered, so that whoever asks the same
    /// while nothing has changed is answered at once; 0 remembers none.
    /// Default: 32 MiB; up to 64 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub response_cache: ByteSize,
}

/// A limit is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; it can be {range}")]
pub struct LimitError {
    /// The limit's key.
    pub key: &'static str,
    /// What it is.
    pub value: String,
    /// What it can be.
    pub range: &'static str,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            time: Duration::from_secs(1),
            concurrency: 64,
            queue: 256,
            queue_wait: Duration::from_secs(1),
            response_cache: ByteSize::mib(32),
        }
    }
}

impl Limits {
    /// Says which limit is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        let error = |key, value: String, range| Err(LimitError { key, value, range });
        let times = Duration::from_millis(1)..=Duration::from_hours(1);
        if !(ByteSize::mib(1)..=ByteSize::gib(4)).contains(&self.memory) {
            return error("memory", self.memory.to_string(), "1MiB to 4GiB");
        }
        if !times.contains(&self.time) {
            return error("time", format!("{:?}", self.time), "1ms to 1h");
        }
        if !(1..=1024).contains(&self.concurrency) {
            return error("concurrency", self.concurrency.to_string(), "1 to 1024");
        }
        if self.queue > 1_000_000 {
            return error("queue", self.queue.to_string(), "0 to 1000000");
        }
        if self.queue_wait > *times.end() {
            return error("queue_wait", format!("{:?}", self.queue_wait), "0s to 1h");
        }
        if self.response_cache > ByteSize::gib(64) {
            return error("response_cache", self.response_cache.to_string(), "0B to 64GiB");
        }
        Ok(())
    }

    /// The memory as the allocator wants it.
    pub(super) fn memory_bytes(&self) -> usize {
        usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX)
    }
}
