//! The limits of connections and requests, and of the server's threads.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use bytesize::ByteSize;
use ipnet::IpNet;
use relayer_rest_common::limit::any;
use relayer_rest_common::{LimitError, limits};

use super::base_path::BasePath;
use super::host::{AllowedHost, MAX_HOSTS};

/// The maximum number of networks of reverse proxies: each connection is compared with all.
const MAX_PROXIES: usize = 256;

limits! {
    /// The limits of connections and requests. A client that exceeds one gets the status
    /// that HTTP defines for it, or its connection is closed.
    pub struct HttpLimits {
        /// To accept another, the connection that has been idle, or has taken nothing of
        /// its responses, for longest is closed; if there is none, the new one gets 503.
        connections: u32 = "4096", "1" to "1000000", "Open connections";
        connections_per_peer: u32 = "1024", "1" to "1000000", "Open connections of one address (IPv6: of a /64)";
        /// From when a client may send it: so it also limits the pause between two
        /// requests.
        idle: Duration = "\"10s\"", "1s" to "1h", "Time for the head or the body of a request, and between two requests";
        stalled: Duration = "\"30s\"", "1s" to "1h", "Time in which a client must take some of its response";
        /// If another does not fit, connections that have been stalled for two seconds are
        /// closed, the longest-stalled first, then those of an address that holds more
        /// than all others. If that does not release enough in time, the response becomes
        /// 503.
        unsent: ByteSize = "\"1GiB\"", "1MiB" to "1TiB", "Responses that clients have not taken yet, in total";
        target: ByteSize = "\"8KiB\"", "64B" to "32KiB", "Target of a request";
        headers: u32 = "100", "1" to "100", "Number of headers of a request";
        head: ByteSize = "\"64KiB\"", "8KiB" to "1MiB", "Whole head of a request";
        body: ByteSize = "\"64KiB\"", "0B" to "1GiB", "Body of a request, which only components of wasi:http can read";
    }
    with {
        /// The hosts that requests may be for, against DNS rebinding. Requests for others
        /// get 421. An entry without a port matches all ports. Default: none, which allows
        /// all hosts; up to 256.
        hosts: Vec<AllowedHost>, check_hosts;
        /// The path below which a reverse proxy serves everything. Default: `/`.
        base_path: BasePath, any;
        /// The networks of reverse proxies, such as `10.0.0.0/8`, whose headers name their
        /// clients. Default: none; up to 256.
        trusted_proxies: Vec<IpNet>, check_proxies;
    }
}

limits! {
    /// The threads of the server, its shutdown, and the modules' files.
    pub struct ServerSettings {
        workers: u32 = "0", "0" to "1024", "Threads that serve connections; 0 starts one for each core that the process may use, by its affinity and by the quota of its control group, rounded down";
        drain: Duration = "\"500ms\"", "0s" to "1h", "Time at shutdown in which clients of open connections may send another request, whose response ends the connection; part of `grace`";
        grace: Duration = "\"10s\"", "0s" to "1h", "Grace period for requests in flight at shutdown";
    }
    with {
        /// Whether a module is swapped when its file changes, if the new one passes all
        /// checks. Default: false.
        watch: bool, any;
    }
}

impl HttpLimits {
    /// Returns whether an address is one of a trusted proxy.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }
}

impl ServerSettings {
    /// Returns the number of threads that serve connections.
    pub(super) fn worker_count(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.workers as usize)
            .or_else(|| available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

fn check_proxies(proxies: &[IpNet]) -> Result<(), LimitError> {
    if proxies.len() <= MAX_PROXIES {
        return Ok(());
    }
    let value = format!("{} entries", proxies.len());
    Err(LimitError { key: "trusted-proxies", value, range: "up to 256 entries" })
}

fn check_hosts(hosts: &[AllowedHost]) -> Result<(), LimitError> {
    if hosts.len() <= MAX_HOSTS {
        return Ok(());
    }
    let value = format!("{} entries", hosts.len());
    Err(LimitError { key: "hosts", value, range: "up to 256 entries" })
}
