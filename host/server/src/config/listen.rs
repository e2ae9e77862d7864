//! The setting `listen`: the addresses at which clients reach the server.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

/// The listeners: one or several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listeners(pub Vec<ListenConfig>);

/// A listener: a section `[[listen]]`, or its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListenConfig {
    /// The address, such as `127.0.0.1:3000`; port 0 selects a free port.
    pub address: ListenAddress,
}

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// The name or the address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl ListenAddress {
    /// Returns whether the URL leads to this address, judging by names: all names of this
    /// machine count as one.
    #[must_use]
    pub fn is_of(&self, url: &Url) -> bool {
        let here = ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost"];
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let same = host == self.host || [host, &self.host].iter().all(|host| here.contains(host));
        same && url.port_or_known_default() == Some(self.port)
    }
}

impl FromStr for ListenAddress {
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

impl Display for ListenAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|reason| D::Error::custom(format!("{text:?}: {reason}")))
    }
}

impl<'de> Deserialize<'de> for Listeners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Listeners;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("an address, a list of addresses, or sections [[listen]]")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Listeners, E> {
                Ok(Listeners(vec![listener(text)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listeners, A::Error> {
                let mut listeners = Vec::new();
                while let Some(listener) = list.next_element()? {
                    listeners.push(listener);
                }
                Ok(Listeners(listeners))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

impl<'de> Deserialize<'de> for ListenConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Section {
            address: ListenAddress,
        }

        struct AddressOrSection;

        impl<'de> Visitor<'de> for AddressOrSection {
            type Value = ListenConfig;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("an address, or a section [[listen]]")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ListenConfig, E> {
                listener(text)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ListenConfig, A::Error> {
                let Section { address } = Section::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ListenConfig { address })
            }
        }

        deserializer.deserialize_any(AddressOrSection)
    }
}

fn listener<E: Error>(text: &str) -> Result<ListenConfig, E> {
    let address = text.parse().map_err(|reason| E::custom(format!("{text:?}: {reason}")))?;
    Ok(ListenConfig { address })
}

#[cfg(test)]
mod tests {
    use super::ListenAddress;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:0", "127.0.0.1", 0),
            ("localhost:3000", "localhost", 3000),
            ("[::1]:65535", "::1", 65535),
        ] {
            let address: ListenAddress = text.parse().unwrap();
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
            text.parse::<ListenAddress>().unwrap_err();
        }
    }
}
