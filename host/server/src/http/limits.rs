//! The limits of connections and requests.

use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::LimitError;
use relayer_rest_common::toml_text;
use serde::Deserialize;

use super::host::{AllowedHost, MAX_HOSTS};

/// The limits of connections and requests. A client that exceeds one gets the status
/// that HTTP defines for it, or its connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpLimits {
    /// The maximum number of open connections. To accept another, the connection that has
    /// been idle, or has taken nothing of its responses, for longest is closed; if there
    /// is none, the new one gets 503. Default: 4,096; 1 to 1,000,000.
    pub connections: u32,
    /// The maximum number of open connections of one address; for IPv6, of one network of
    /// 64 bits. Default: 1,024; 1 to 1,000,000.
    pub connections_per_peer: u32,
    /// The time for the head of a request, and for its body, from when a client may send
    /// it: so it also limits the pause between two requests. Default: 10 s; 1 s to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub idle: Duration,
    /// The time in which a client must take some of its response. Default: 30 s; 1 s to
    /// 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub stalled: Duration,
    /// The maximum size of the responses that clients have not taken yet, in bytes. If
    /// another does not fit, connections that have been stalled for two seconds are
    /// closed, the longest-stalled first, then those of an address that holds more than
    /// all others. If that does not release enough in time, the response becomes 503.
    /// Default: 1 GiB; 1 MiB to 1 TiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub unsent: ByteSize,
    /// The maximum size of a request's target, in bytes. Default: 8 KiB; 64 B to 32 KiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub target: ByteSize,
    /// The maximum number of a request's headers. Default: 100; 1 to 100.
    pub headers: u32,
    /// The maximum size of a request's whole head, in bytes. Default: 64 KiB; 8 KiB to
    /// 1 MiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub head: ByteSize,
    /// The maximum size of a request's body, which is discarded, in bytes. Default:
    /// 64 KiB; up to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub body: ByteSize,
    /// The hosts that requests may be for, against DNS rebinding. Requests for others get
    /// 421. An entry without a port matches all ports. Default: none, which allows all
    /// hosts; up to 256.
    pub hosts: Vec<AllowedHost>,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_peer: 1024,
            idle: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            unsent: ByteSize::gib(1),
            target: ByteSize::kib(8),
            headers: 100,
            head: ByteSize::kib(64),
            body: ByteSize::kib(64),
            hosts: Vec::new(),
        }
    }
}

impl HttpLimits {
    /// Checks that all limits are in their ranges; the error names the first that is not.
    pub fn check(&self) -> Result<(), LimitError> {
        let counts = [
            ("connections", self.connections, 1_000_000, "1 to 1000000"),
            ("connections_per_peer", self.connections_per_peer, 1_000_000, "1 to 1000000"),
            ("headers", self.headers, 100, "1 to 100"),
        ];
        for (key, value, most, range) in counts {
            if !(1..=most).contains(&value) {
                return Err(LimitError { key, value: value.to_string(), range });
            }
        }
        let times = Duration::from_secs(1)..=Duration::from_hours(1);
        for (key, value) in [("idle", self.idle), ("stalled", self.stalled)] {
            if !times.contains(&value) {
                return Err(LimitError { key, value: format!("{value:?}"), range: "1s to 1h" });
            }
        }
        let sizes = [
            ("unsent", self.unsent, ByteSize::mib(1), ByteSize::tib(1), "1MiB to 1TiB"),
            ("target", self.target, ByteSize::b(64), ByteSize::kib(32), "64B to 32KiB"),
            ("head", self.head, ByteSize::kib(8), ByteSize::mib(1), "8KiB to 1MiB"),
            ("body", self.body, ByteSize::b(0), ByteSize::gib(1), "0B to 1GiB"),
        ];
        for (key, value, least, most, range) in sizes {
            if !(least..=most).contains(&value) {
                return Err(LimitError { key, value: value.to_string(), range });
            }
        }
        let count = self.hosts.len();
        if count > MAX_HOSTS {
            let (value, range) = (format!("{count} entries"), "up to 256 entries");
            return Err(LimitError { key: "hosts", value, range });
        }
        Ok(())
    }
}
