//! The setting `listen`: the addresses at which clients reach the server.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use nix::unistd::{Group, User};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use crate::unix_socket::UNIX;

/// The listeners: one or several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Listeners(pub Vec<ListenConfig>);

/// A listener: a section `[[listen]]`, or its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListenConfig {
    /// The address.
    pub address: ListenAddress,
    /// The mode of a Unix socket. Default: 0660.
    #[serde(skip_serializing_if = "FileMode::is_default")]
    pub mode: FileMode,
    /// The owner of a Unix socket. Default: the user and the group of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Whether each connection begins with a header of the PROXY protocol, version 1 or 2, with
    /// the address of the client. Only `http.trusted-proxies` and the programs behind a Unix
    /// socket can connect then. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub proxy_protocol: bool,
    /// The sections `[[listen.tls]]`: the certificates of TLS, the first for clients that name
    /// no host, or another one. Default: none, which is plain HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<CertificateConfig>,
    /// The certificates of the authorities, of which clients must have one. Default: none,
    /// which admits all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its key, which are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// The file of the certificate and of those between it and its authority, in PEM.
    pub certificate: PathBuf,
    /// The file of the private key, in PEM.
    pub key: PathBuf,
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A host and a port, such as `127.0.0.1:3000` or `[::]:3000`.
    Tcp {
        /// The name or the address, without brackets.
        host: String,
        /// The port; 0 selects a free port.
        port: u16,
    },
    /// The path of a Unix socket, such as `unix:/run/relayer-rest/api.sock`.
    Unix(PathBuf),
}

/// The permission bits of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FileMode(u32);

/// The owner of a file, by names or numbers: `USER`, `USER:GROUP` or `:GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Owner(String);

/// An owner that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no {kind} {name:?}; expected USER, USER:GROUP or :GROUP")]
pub struct OwnerError {
    kind: &'static str,
    name: String,
}

impl ListenAddress {
    /// Returns whether the URL leads to this address, judging by names: all names of this
    /// machine count as one.
    #[must_use]
    pub fn is_of(&self, url: &Url) -> bool {
        let Self::Tcp { host: own, port } = self else { return false };
        let here = ["127.0.0.1", "::1", "0.0.0.0", "::", "localhost"];
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let same = host == own || [host, own].iter().all(|host| here.contains(host));
        same && url.port_or_known_default() == Some(*port)
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path {
                "" => Err("the path is missing: unix:/run/relayer-rest/api.sock"),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let (host, port) = text
            .rsplit_once(':')
            .ok_or("expected HOST:PORT, such as 127.0.0.1:3000, or unix:PATH")?;
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
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl Display for ListenAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { host: address.ip().to_string(), port: address.port() }
    }
}

impl ListenConfig {
    /// Returns the key without effect, and the reason.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_unix = matches!(self.address, ListenAddress::Unix(_));
        let of_unix = "only a Unix socket has a mode and an owner; remove it";
        let problems = [
            ("owner", !is_unix && self.owner.is_some(), of_unix),
            ("mode", !is_unix && !self.mode.is_default(), of_unix),
            (
                "client-ca",
                self.tls.is_empty() && self.client_ca.is_some(),
                "only TLS has certificates of clients; add a section [[listen.tls]]",
            ),
            (
                "tls",
                !self.tls.is_empty() && cfg!(not(feature = "tls")),
                "this program was built without TLS; build it with the feature tls",
            ),
        ];
        problems.into_iter().find(|(_, is_wrong, _)| *is_wrong).map(|(key, _, why)| (key, why))
    }
}

impl From<ListenAddress> for ListenConfig {
    fn from(address: ListenAddress) -> Self {
        Self {
            address,
            mode: FileMode::default(),
            owner: None,
            proxy_protocol: false,
            tls: Vec::new(),
            client_ca: None,
        }
    }
}

impl FileMode {
    /// Returns the bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for FileMode {
    fn default() -> Self {
        Self(0o660)
    }
}

impl TryFrom<String> for FileMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode @ 0..=0o777) => Ok(Self(mode)),
            _ => Err(format!("{text:?} is not a mode; expected one such as \"0660\"")),
        }
    }
}

impl Serialize for FileMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl Owner {
    /// Returns the numbers of the user and of the group that are named.
    ///
    /// # Errors
    /// Returns an error if one of them does not exist.
    pub fn ids(&self) -> Result<(Option<u32>, Option<u32>), OwnerError> {
        let (user, group) = self.0.split_once(':').unwrap_or((&self.0, ""));
        let id = |kind, name: &str, known: Option<u32>| match name {
            "" => Ok(None),
            name => known.map(Some).ok_or(OwnerError { kind, name: name.to_owned() }),
        };
        let number = |name: &str| name.parse().ok();
        let of_user = || User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
        let of_group = || Group::from_name(group).ok().flatten().map(|group| group.gid.as_raw());
        Ok((
            id("user", user, number(user).or_else(of_user))?,
            id("group", group, number(group).or_else(of_group))?,
        ))
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
            #[serde(default)]
            mode: FileMode,
            owner: Option<Owner>,
            #[serde(default)]
            proxy_protocol: bool,
            #[serde(default)]
            tls: Vec<CertificateConfig>,
            client_ca: Option<PathBuf>,
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
                let section = Section::deserialize(MapAccessDeserializer::new(map))?;
                let Section { address, mode, owner, proxy_protocol, tls, client_ca } = section;
                Ok(ListenConfig { address, mode, owner, proxy_protocol, tls, client_ca })
            }
        }

        deserializer.deserialize_any(AddressOrSection)
    }
}

fn listener<E: Error>(text: &str) -> Result<ListenConfig, E> {
    let address = text.parse::<ListenAddress>();
    let address = address.map_err(|reason| E::custom(format!("{text:?}: {reason}")))?;
    Ok(address.into())
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
            assert_eq!(address, ListenAddress::Tcp { host: host.to_owned(), port });
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
