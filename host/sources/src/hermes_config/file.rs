//! The file's schema: the keys that are read, before conversion.

use relayer_rest_state::ChainId;
use serde::Deserialize;
use toml::Spanned;

use crate::hermes_schema;

#[derive(Deserialize)]
pub(super) struct File {
    pub(super) rest: Option<Rest>,
    pub(super) telemetry: Option<Telemetry>,
    #[serde(default)]
    pub(super) chains: Vec<hermes_schema::Chain<Id>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a section [rest]")]
pub(super) struct Rest {
    pub(super) enabled: Option<bool>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}

#[derive(Deserialize)]
#[serde(expecting = "a section [telemetry]")]
pub(super) struct Telemetry {
    pub(super) enabled: Option<bool>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}

/// A chain's identifier and its position.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Id(pub(super) Spanned<String>);

impl From<Id> for ChainId {
    fn from(id: Id) -> Self {
        Self::from(id.0.into_inner())
    }
}
