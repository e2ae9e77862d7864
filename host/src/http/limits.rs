//! What clients may have of the sockets.

use std::time::Duration;

use bytesize::ByteSize;
use serde::Deserialize;

use super::host::{AllowedHost, MAX_HOSTS};
use crate::module::LimitError;
use crate::toml_text;

/// What clients may have of the sockets. Whoever wants more gets the answer
/// that HTTP has for that, or the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpLimits {
    /// The connections that are open. One more is made room for by closing the
    /// one that has been idle, or has taken nothing of its responses, for longest;
    /// where there is none, it gets 503.
    /// Default: 4,096; 1 to 1,000,000.
    pub connections: u32,
    /// Those that are open to one address: of IPv6, to one network of 64 bits.
    /// Default: 1,024; 1 to 1,000,000.
    pub connections_per_peer: u32,
    /// The time for the head of a request, and for its body, from when a client
    /// may send it: so the pause between two requests, too. Default: 10 s; 1 s
    /// to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub idle: Duration,
    /// The time in which a client takes some of its answer. Default: 30 s; 1 s
    /// to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub stalled: Duration,
    /// The responses that clients have not taken yet, in bytes. If one more does
    /// not fit, the connections that have taken nothing for longest are closed,
    /// once that is two seconds; if there is none, it gets 503.
    /// Default: 1 GiB; 1 MiB to 1 TiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub unsent: ByteSize,
    /// The target of a request, in bytes. Default: 8 KiB; 64 B to 32 KiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub target: ByteSize,
    /// The headers of a request. Default: 100; 1 to 100.
    pub headers: u32,
    /// The whole head of a request, in bytes. Default: 64 KiB; 8 KiB to 1 MiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub head: ByteSize,
    /// The body of a request, which nobody reads, in bytes. Default: 64 KiB; up
    /// to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub body: ByteSize,
    /// The hosts that requests may be for, against DNS rebinding. Others get 421. An
    /// entry without a port has all ports. Default: none, which is any host; up to
    /// 256.
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
    /// Says which limit is out of its range.
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
