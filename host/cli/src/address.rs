//! The argument of `--listen`: `HOST:PORT`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use url::Url;

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Returns whether the URL leads to this address, judging by names: all names of this
    /// machine count as one.
    pub(super) fn is_of(&self, url: &Url) -> bool {
        let here = ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost"];
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let same = host == self.host || [host, &self.host].iter().all(|host| here.contains(host));
        same && url.port_or_known_default() == Some(self.port)
    }
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) =
            text.rsplit_once(':').ok_or("expected HOST:PORT, such as 127.0.0.1:3000")?;
        let port = port.parse().map_err(|_| "the port is not a number from 0 to 65535")?;
        let host = match host.strip_prefix('[') {
            Some(inner) => {
                inner.strip_suffix(']').ok_or("the host begins with [ and does not end with ]")?
            }
            None if host.contains(':') => {
                return Err("an IPv6 address is written in brackets: [::1]:3000");
            }
            None => host,
        };
        if host.is_empty() {
            return Err("the host is missing: 0.0.0.0 listens on all addresses");
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:0", "127.0.0.1", 0),
            ("localhost:3000", "localhost", 3000),
            ("[::1]:65535", "::1", 65535),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn other_addresses_are_rejected() {
        for text in [
            "",
            "3000",
            "localhost",
            ":3000",
            "localhost:",
            "localhost:65536",
            "::1:3000",
            "[::1:3000",
        ] {
            text.parse::<Address>().unwrap_err();
        }
    }
}
