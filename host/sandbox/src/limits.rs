//! The limits of modules.

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::{LimitError, toml_text};
use serde::Deserialize;

/// The limits of a module for one request, and of concurrent requests. A request that
/// exceeds a limit affects no other request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The memory of an instance, in bytes: its linear memories, its tables, and the
    /// host's data for it. `memory.grow` fails beyond this, and the module usually traps;
    /// a module that needs more from the start is rejected (the bundled ones need less
    /// than 1 MiB). Default: 64 MiB; 1 MiB to 4 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub memory: ByteSize,
    /// The processor time for one request, from creating the instance to the response.
    /// Default: 1 s; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub time: Duration,
    /// The stack of an instance, in bytes, which bounds the depth of calls. A run that
    /// traps takes up to three times as much for its backtrace, until the error is
    /// written. Default: 512 KiB; 64 KiB to 16 MiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub stack: ByteSize,
    /// The maximum number of elements of each table of an instance: the functions that it
    /// can call by number. Default: 20,000; 1 to 10,000,000.
    pub table: u32,
    /// The maximum body of a response, in bytes. Default: 32 MiB; 1 KiB to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub body: ByteSize,
    /// The maximum number of headers of a response. Default: 128; up to 10,000.
    pub headers: u32,
    /// The maximum size of the names and values of all headers of a response, in bytes.
    /// Default: 64 KiB; up to 1 MiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub header_size: ByteSize,
    /// The bytes that a request may write to the log. Default: 16 KiB; up to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub log: ByteSize,
    /// The bytes that all requests together may write to the log in a second. Default: 64
    /// KiB; up to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub log_rate: ByteSize,
    /// The maximum number of concurrent instances. Default: 64; 1 to 1,024.
    pub concurrency: u32,
    /// The maximum number of requests that wait for an instance. Default: 256; up to
    /// 1,000,000.
    pub queue: u32,
    /// The maximum time that a request waits for an instance, and then for a processor.
    /// Default: 1 s; up to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub queue_wait: Duration,
    /// The number of runs for each check that an instance's slot has no data of an
    /// earlier one; 0 disables the checks. Default: 1,024; up to 1,000,000.
    pub verify_reset: u32,
    /// The size of the response cache, in bytes. Responses are cached until any state
    /// they were derived from changes; 0 disables the cache. Default: 32 MiB; up to 64
    /// GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub response_cache: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(64),
            time: Duration::from_secs(1),
            stack: ByteSize::kib(512),
            table: 20_000,
            body: ByteSize::mib(32),
            headers: 128,
            header_size: ByteSize::kib(64),
            log: ByteSize::kib(16),
            log_rate: ByteSize::kib(64),
            concurrency: 64,
            queue: 256,
            queue_wait: Duration::from_secs(1),
            verify_reset: 1024,
            response_cache: ByteSize::mib(32),
        }
    }
}

impl Limits {
    /// Returns an error for a limit that is out of its range, if there is one.
    pub fn check(&self) -> Result<(), LimitError> {
        let times = Duration::from_millis(1)..=Duration::from_hours(1);
        let sizes = [
            ("memory", self.memory, ByteSize::mib(1), ByteSize::gib(4), "1MiB to 4GiB"),
            ("stack", self.stack, ByteSize::kib(64), ByteSize::mib(16), "64KiB to 16MiB"),
            ("body", self.body, ByteSize::kib(1), ByteSize::gib(1), "1KiB to 1GiB"),
            ("header_size", self.header_size, ByteSize::b(0), ByteSize::mib(1), "0B to 1MiB"),
            ("log", self.log, ByteSize::b(0), ByteSize::gib(1), "0B to 1GiB"),
            ("log_rate", self.log_rate, ByteSize::b(0), ByteSize::gib(1), "0B to 1GiB"),
            (
                "response_cache",
                self.response_cache,
                ByteSize::b(0),
                ByteSize::gib(64),
                "0B to 64GiB",
            ),
        ];
        let counts = [
            ("table", self.table, 1, 10_000_000, "1 to 10000000"),
            ("headers", self.headers, 0, 10_000, "0 to 10000"),
            ("concurrency", self.concurrency, 1, 1024, "1 to 1024"),
            ("queue", self.queue, 0, 1_000_000, "0 to 1000000"),
            ("verify_reset", self.verify_reset, 0, 1_000_000, "0 to 1000000"),
        ];
        let spans = [
            ("time", self.time, *times.start(), "1ms to 1h"),
            ("queue_wait", self.queue_wait, Duration::ZERO, "0s to 1h"),
        ];
        let sizes = sizes.into_iter().map(|(key, value, least, most, range)| {
            (key, value.to_string(), (least..=most).contains(&value), range)
        });
        let counts = counts.into_iter().map(|(key, value, least, most, range)| {
            (key, value.to_string(), (least..=most).contains(&value), range)
        });
        let spans = spans.into_iter().map(|(key, value, least, range)| {
            (key, format!("{value:?}"), (least..=*times.end()).contains(&value), range)
        });
        match sizes.chain(counts).chain(spans).find(|(_, _, is_right, _)| !is_right) {
            Some((key, value, _, range)) => Err(LimitError { key, value, range }),
            None => Ok(()),
        }
    }
}

/// Converts a size to the allocator's type.
pub(super) fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}
