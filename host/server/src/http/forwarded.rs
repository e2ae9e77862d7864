//! The clients of trusted proxies, by their addresses in `x-forwarded-for`.
//!
//! The limit of connections of one address does not apply to a proxy, whose connections have
//! requests of many clients. Each of them may have as many concurrent requests instead.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::HeaderMap;

use super::connections::Peer;
use super::error::HostError;
use super::exchange::ClientSide;
use super::limits::HttpLimits;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The clients that have requests in flight.
pub(super) struct ForwardedClients {
    limits: Arc<HttpLimits>,
    requests: Mutex<HashMap<Peer, u32>>,
}

/// A request of a client that counts as in flight until this is dropped.
pub(super) struct InFlight {
    clients: Arc<ForwardedClients>,
    peer: Peer,
}

impl ForwardedClients {
    pub(super) fn new(limits: Arc<HttpLimits>) -> Self {
        Self { limits, requests: Mutex::default() }
    }

    /// Returns the client of a request: the last address that is not one of a trusted proxy,
    /// since those before it come from the client itself. Without one, it is the proxy.
    pub(super) fn client(&self, side: ClientSide, headers: &HeaderMap) -> ClientSide {
        if !side.is_forwarded {
            return side;
        }
        let mut client = None;
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        let entries = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        // An entry that is not an address hides those before it.
        for address in entries.map_while(address) {
            client = Some(address);
            if !self.limits.is_proxy(address) {
                break;
            }
        }
        let address = client.or(side.address);
        ClientSide { address, is_forwarded: client.is_some(), ..side }
    }

    /// Counts a request that the module must run for.
    ///
    /// # Errors
    /// Returns an error if the client has too many requests in flight.
    pub(super) fn admit(
        self: &Arc<Self>,
        client: ClientSide,
    ) -> Result<Option<InFlight>, HostError> {
        let Some(peer) = client.address.filter(|_| client.is_forwarded).map(Peer::from) else {
            return Ok(None);
        };
        let mut requests = self.requests();
        let count = requests.entry(peer).or_default();
        if *count >= self.limits.connections_per_peer {
            return Err(HostError::ClientTooMany);
        }
        *count += 1;
        drop(requests);
        Ok(Some(InFlight { clients: Arc::clone(self), peer }))
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<Peer, u32>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut requests = self.clients.requests();
        if let Some(count) = requests.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&self.peer);
            }
        }
    }
}

/// Reads an entry: an address, which some proxies write with a port or in brackets.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?.trim();
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || Some(entry.parse::<SocketAddr>().ok()?.ip());
    let address = entry.parse().ok().or_else(with_port).or_else(bracketed)?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use super::{ClientSide, ForwardedClients, HeaderMap, HttpLimits, X_FORWARDED_FOR};
    use hyper::header::HeaderValue;
    use std::sync::Arc;

    fn clients() -> Arc<ForwardedClients> {
        let trusted_proxies = ["10.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap()).to_vec();
        let limits =
            HttpLimits { trusted_proxies, connections_per_peer: 2, ..HttpLimits::default() };
        Arc::new(ForwardedClients::new(Arc::new(limits)))
    }

    fn side(is_forwarded: bool) -> ClientSide {
        ClientSide { address: Some("10.0.0.9".parse().unwrap()), has_tls: false, is_forwarded }
    }

    fn client(lines: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(line).unwrap());
        }
        let client = clients().client(side(true), &headers);
        assert_eq!(client.is_forwarded, client.address != side(true).address);
        client.address.unwrap().to_string()
    }

    #[test]
    fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
        for (lines, wanted) in [
            (&[&b"192.0.2.1"[..]][..], "192.0.2.1"),
            (&[b"192.0.2.1, 192.0.2.2"], "192.0.2.2"),
            (&[b"192.0.2.1,10.0.0.1 ,\t::1"], "192.0.2.1"),
            (&[b"192.0.2.1", b"192.0.2.2", b"10.0.0.1"], "192.0.2.2"),
            (&[b"10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            (&[b"2001:db8::1"], "2001:db8::1"),
            (&[b"[2001:db8::1]"], "2001:db8::1"),
            (&[b"[2001:db8::1]:80"], "2001:db8::1"),
            (&[b"192.0.2.1:80"], "192.0.2.1"),
            (&[b"::ffff:192.0.2.1"], "192.0.2.1"),
            (&[b"192.0.2.1, unknown, 10.0.0.1"], "10.0.0.1"),
            // The address of the proxy itself.
            (&[], "10.0.0.9"),
            (&[b""], "10.0.0.9"),
            (&[b"192.0.2.1,"], "10.0.0.9"),
            (&[b"192.0.2.1, \xff"], "10.0.0.9"),
            (&[b"192.0.2.1, 192.0.2.1.5"], "10.0.0.9"),
        ] {
            assert_eq!(client(lines), wanted, "{lines:?}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_names_clients() {
        let headers = HeaderMap::from_iter([(
            X_FORWARDED_FOR.try_into().unwrap(),
            HeaderValue::from_static("192.0.2.1"),
        )]);
        assert_eq!(clients().client(side(false), &headers).address, side(false).address);
    }

    #[test]
    fn requests_count_for_their_client_until_they_end() {
        let clients = clients();
        let of =
            |address: &str| ClientSide { address: Some(address.parse().unwrap()), ..side(true) };
        let first = clients.admit(of("2001:db8::1")).unwrap();
        // An address of the same network.
        let second = clients.admit(of("2001:db8::2")).unwrap();
        assert!(clients.admit(of("2001:db8::1")).is_err());
        assert!(clients.admit(of("192.0.2.1")).unwrap().is_some());
        drop(first);
        assert!(clients.admit(of("2001:db8::1")).is_ok());
        drop(second);
        assert!(clients.admit(side(false)).unwrap().is_none());
        assert!(clients.requests().is_empty());
    }
}
