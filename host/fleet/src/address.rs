//! The address of a fleet: `nats://HOST/FLEET`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use relayer_rest_common::url_secrets::without_secrets;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

/// The maximum length of the name of a fleet.
const MAX_NAME: usize = 32;

/// The maximum number of servers.
const MAX_SERVERS: usize = 16;

/// The servers of NATS, and the name of a fleet:
/// `nats://user:password@one.example:4222,two.example/relayer-1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetAddress {
    servers: Vec<Url>,
    name: String,
}

/// A text that is not the address of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a fleet: {0}; expected one such as nats://127.0.0.1:4222/relayer-1")]
pub struct FleetAddressError(String);

impl FleetAddress {
    /// Returns the name of the fleet.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URLs of the servers.
    #[must_use]
    pub fn servers(&self) -> &[Url] {
        &self.servers
    }
}

impl FromStr for FleetAddress {
    type Err = FleetAddressError;

    fn from_str(text: &str) -> Result<Self, FleetAddressError> {
        let error = |problem: String| FleetAddressError(problem);
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| error("it has no scheme".to_owned()))?;
        if !matches!(scheme, "nats" | "tls") {
            return Err(error(format!("its scheme is {scheme:?} instead of nats or tls")));
        }
        let (servers, name) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(error(format!(
                "the name of the fleet after the last slash is {name:?}, not 1 to {MAX_NAME} letters, digits, '-' and '_'"
            )));
        }
        let server = |server: &str| {
            // Its scheme is not known to the parser, so that a path could follow.
            let url = Url::parse(&format!("{scheme}://{server}"));
            let url = url.map_err(|problem| error(format!("{problem}")))?;
            if !url.has_host() || !matches!(url.path(), "" | "/") || url.query().is_some() {
                return Err(error("a server is not HOST or HOST:PORT".to_owned()));
            }
            Ok(url)
        };
        let servers: Vec<_> = servers.split(',').map(server).collect::<Result<_, _>>()?;
        if servers.len() > MAX_SERVERS {
            return Err(error(format!("it has more than {MAX_SERVERS} servers")));
        }
        Ok(Self { servers, name: name.to_owned() })
    }
}

/// Shows it without passwords.
impl Display for FleetAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let scheme = self.servers.first().map_or("nats", Url::scheme);
        write!(f, "{scheme}://")?;
        for (place, server) in self.servers.iter().enumerate() {
            let server = without_secrets(server.as_str().to_owned()).unwrap_or_default();
            let server = server.split_once("://").map_or(&*server, |(_, server)| server);
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{}", server.trim_end_matches('/'))?;
        }
        write!(f, "/{}", self.name)
    }
}

impl<'de> Deserialize<'de> for FleetAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for FleetAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::FleetAddress;

    #[test]
    fn an_address_has_servers_and_a_name() {
        for (text, servers, name, shown) in [
            ("nats://h/f", 1, "f", "nats://h/f"),
            ("tls://h:1/Fleet_1-a", 1, "Fleet_1-a", "tls://h:1/Fleet_1-a"),
            ("nats://a:1,b,[::1]:2/f", 3, "f", "nats://a:1,b,[::1]:2/f"),
            ("nats://user:password@h/f", 1, "f", "nats://h/f"),
            ("nats://token@a,b/f", 2, "f", "nats://a,b/f"),
        ] {
            let address: FleetAddress = text.parse().unwrap();
            assert_eq!((address.servers().len(), address.name()), (servers, name), "{text}");
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn other_texts_are_rejected_with_the_problem() {
        let long = format!("nats://h/{}", "a".repeat(33));
        let many = format!("nats://{}/f", ["h"; 17].join(","));
        for (text, problem) in [
            ("", "no scheme"),
            ("h/f", "no scheme"),
            ("http://h/f", "instead of nats or tls"),
            ("nats://h", "name of the fleet"),
            ("nats://h/", "name of the fleet"),
            ("nats://h/a.b", "name of the fleet"),
            ("nats:///f", ""),
            ("nats://h/x/f", "HOST:PORT"),
            ("nats://h?x/f", "HOST:PORT"),
            ("nats://a,,b/f", ""),
            ("nats://h:x/f", "port"),
            (&long, "name of the fleet"),
            (&many, "16 servers"),
        ] {
            let error = text.parse::<FleetAddress>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("nats://127.0.0.1:4222/relayer-1"), "{error}");
        }
    }
}
