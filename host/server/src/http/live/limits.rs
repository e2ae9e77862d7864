//! The limits of live responses.

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::limits;

limits! {
    /// The limits of clients that wait for the next version of a response. A client that
    /// exceeds one gets 503.
    pub struct LiveLimits {
        /// It is shortened by up to a sixteenth, so that clients do not return all at once.
        max_wait: Duration = "\"5min\"", "1s" to "1h", "Time for which a request with `prefer: wait` waits at most";
        /// The newest state is used, so that several changes in this time are one.
        min_interval: Duration = "\"50ms\"", "1ms" to "1min", "Time between two runs for the same response";
        runs_per_second: u32 = "200", "1" to "1000000", "Runs of modules for waiting clients, in total, except the first one of each request";
        waiters: u32 = "20000", "0" to "1000000", "Waiting clients; 0 disables waiting";
        waiters_per_peer: u32 = "1024", "1" to "1000000", "Waiting clients of one address (IPv6: of a /64)";
        waiters_per_mount: u32 = "20000", "1" to "1000000", "Waiting clients of one mount";
        entries: u32 = "4096", "1" to "1000000", "Different responses that clients wait for";
        memory: ByteSize = "\"64MiB\"", "1MiB" to "1TiB", "Versions of responses, with their patches";
    }
}
