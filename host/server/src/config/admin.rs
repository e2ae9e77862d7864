//! The section `[admin]`.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

use crate::unix_socket::UNIX;

/// The admin listener: health, log level and control, apart from clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdminConfig {
    /// The address, such as `127.0.0.1:9901`, or a Unix socket, such as `unix:admin.sock`.
    /// Default: none.
    pub listen: Option<AdminAddress>,
    /// The file of tokens whose clients may control the server over TCP, relative to the
    /// folder of the configuration file. Default: none, which refuses control over TCP.
    pub token_file: Option<PathBuf>,
}

/// An address of the admin listener.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AdminAddress {
    /// An IP address with a port.
    Tcp(SocketAddr),
    /// A Unix socket, relative to the folder of the configuration file.
    Unix(PathBuf),
}

impl Serialize for AdminAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for AdminAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX)
            && !path.is_empty()
        {
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "{text:?} is not an address; expected an IP address with a port, such as \"127.0.0.1:9901\", or \"unix:PATH\""
            )
        })
    }
}

impl Display for AdminAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}
