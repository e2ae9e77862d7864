//! The limits of modules.

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::limits;

limits! {
    /// The limits of a module for one request, and of concurrent requests. A request that
    /// exceeds a limit affects no other request.
    pub struct Limits {
        /// `memory.grow` fails beyond this, and the module usually traps; a module that
        /// needs more from the start is rejected.
        memory: ByteSize = "\"64MiB\"", "1MiB" to "4GiB", "Memory of an instance, with its tables and the host's data for it; the bundled modules need less than 1 MiB";
        /// From the creation of the instance to the response.
        time: Duration = "\"1s\"", "1ms" to "1h", "Processor time for one request";
        /// Bounds the depth of calls. A run that traps takes up to three times as much for
        /// its backtrace, until the error is written.
        stack: ByteSize = "\"512KiB\"", "64KiB" to "16MiB", "Stack of an instance";
        /// The functions that an instance can call by number.
        table: u32 = "20000", "1" to "10000000", "Elements of each table of an instance";
        body: ByteSize = "\"32MiB\"", "1KiB" to "1GiB", "Body of a response";
        headers: u32 = "128", "0" to "10000", "Number of headers of a response";
        header_size: ByteSize = "\"64KiB\"", "0B" to "1MiB", "Names and values of all headers of a response";
        log: ByteSize = "\"16KiB\"", "0B" to "1GiB", "Log output of one request";
        log_rate: ByteSize = "\"64KiB\"", "0B" to "1GiB", "Log output of all requests in one second";
        concurrency: u32 = "64", "1" to "1024", "Instances that run at once";
        queue: u32 = "256", "0" to "1000000", "Requests that wait for an instance";
        queue_wait: Duration = "\"1s\"", "0s" to "1h", "Time that a request waits for its turn or an instance, and then for a processor";
        verify_reset: u32 = "1024", "0" to "1000000", "Runs for each check that a slot has no data of an earlier request; 0 disables the checks";
        /// Responses are cached until any state they were derived from changes.
        response_cache: ByteSize = "\"32MiB\"", "0B" to "64GiB", "Size of the response cache; 0 disables it";
    }
}

/// Converts a size to the allocator's type.
pub(super) fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}
