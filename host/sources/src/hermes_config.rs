//! Source: the relayer's configuration file, of any version from 0.7 to 1.13.
//!
//! It gives the chains and the address to serve at. Sections and keys that are not used
//! here are ignored; the relayer itself rejects unknown ones. Passwords in URLs and
//! secret keys are dropped.
//!
//! | file | job |
//! |---|---|
//! | `file.rs` | the file's schema, except for a chain's, which is in `../hermes_schema/` |
//! | `error.rs` | errors in a file, with their positions |

mod error;
mod file;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

pub use error::{ConfigError, Problem};

use relayer_rest_common::files::{MAX_TEXT, read_any};
use relayer_rest_common::{toml_text, toml_text::Position};
use relayer_rest_state::{ChainConfig, ChainId};

/// The content of a relayer's configuration file.
#[derive(Debug, Clone, PartialEq)]
pub struct HermesConfig {
    /// The section `[rest]`.
    pub rest: Rest,
    /// The section `[telemetry]`.
    pub telemetry: TelemetryServer,
    /// The chains, in the order of the file.
    pub chains: Vec<ChainConfig>,
}

/// The settings of the relayer's telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryServer {
    /// Whether the relayer serves it.
    pub enabled: bool,
    /// The name or address that the relayer listens on. Default: `127.0.0.1`.
    pub host: String,
    /// The TCP port. Default: 3001.
    pub port: u16,
}

impl Default for TelemetryServer {
    fn default() -> Self {
        Self { enabled: false, host: "127.0.0.1".to_owned(), port: 3001 }
    }
}

impl TelemetryServer {
    /// Returns the URL of the metrics, if the relayer serves them.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let address = match self.host.parse() {
            // It listens on all addresses of this machine.
            Ok(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.clone(),
        };
        self.enabled.then(|| format!("http://{address}:{}/metrics", self.port))
    }
}

/// The settings of the relayer's REST API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// Whether the API is served; `None` if the file does not say.
    pub enabled: Option<bool>,
    /// The name or address to listen on. Default: `127.0.0.1`.
    pub host: String,
    /// The TCP port to listen on. Default: 3000.
    pub port: u16,
}

impl Default for Rest {
    fn default() -> Self {
        Self { enabled: None, host: "127.0.0.1".to_owned(), port: 3000 }
    }
}

impl HermesConfig {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::from_content(path, read_any(path, MAX_TEXT))
    }

    /// Parses a file's content, or reports why it could not be read.
    pub fn from_content(path: &Path, content: io::Result<Vec<u8>>) -> Result<Self, ConfigError> {
        let config_error = |problem| ConfigError { file: path.to_owned(), problem };
        let bytes = content.map_err(|error| config_error(Problem::Unreadable(error)))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            config_error(Problem::NotText {
                line: bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count(),
            })
        })?;
        Self::parse(text).map_err(config_error)
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let file: file::File =
            toml_text::parse(text).map_err(|error| Problem::from_toml(error, text))?;
        let mut places: HashMap<ChainId, usize> = HashMap::new();
        let mut chains = Vec::with_capacity(file.chains.len());
        for (place, raw) in file.chains.into_iter().enumerate() {
            let offset = raw.id.0.span().start;
            let chain = raw.config_with_defaults();
            if chain.id.as_str().is_empty() {
                let place = format!("chains[{place}]: id");
                let message = "is empty; set the identifier of the chain".to_owned();
                let position = Position::from_offset(text, offset);
                return Err(Problem::Value { position, place, message });
            }
            if let Some(first) = places.insert(chain.id.clone(), offset) {
                return Err(Problem::DuplicateChain {
                    id: chain.id,
                    position: Position::from_offset(text, offset),
                    first: Position::from_offset(text, first).line,
                });
            }
            chains.push(chain);
        }
        Ok(Self {
            rest: file.rest.map(Rest::from).unwrap_or_default(),
            telemetry: file.telemetry.map(TelemetryServer::from).unwrap_or_default(),
            chains,
        })
    }
}

impl From<file::Rest> for Rest {
    fn from(raw: file::Rest) -> Self {
        let default = Self::default();
        Self {
            enabled: raw.enabled,
            host: raw.host.unwrap_or(default.host),
            port: raw.port.unwrap_or(default.port),
        }
    }
}

impl From<file::Telemetry> for TelemetryServer {
    fn from(raw: file::Telemetry) -> Self {
        let default = Self::default();
        Self {
            enabled: raw.enabled.unwrap_or(default.enabled),
            host: raw.host.unwrap_or(default.host),
            port: raw.port.unwrap_or(default.port),
        }
    }
}

#[cfg(test)]
mod tests;
