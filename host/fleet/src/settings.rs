//! The section `[fleet]` of the settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::address::FleetAddress;

/// A fleet of hosts that serve the same state, on NATS with JetStream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct FleetSettings {
    /// The fleet whose state is served, instead of a relayer's: `nats://HOST/FLEET`. Default:
    /// none.
    pub from: Option<FleetAddress>,
    /// The fleet to which the state is published. Default: none.
    pub publish_to: Option<FleetAddress>,
    /// The name of this host, by which it belongs to the stages of roll-outs; no two hosts of a
    /// fleet may have the same. Default: the name of the machine, with the port of the server.
    pub name: Option<String>,
    /// The file with the credentials for NATS, as `nsc` creates it. Default: none, or the user
    /// and password in the address.
    pub credentials: Option<PathBuf>,
    /// The file with the certificates of the authorities that are trusted, in PEM. Default: the
    /// ones of the system.
    pub ca: Option<PathBuf>,
    /// The file with the certificate for the server, in PEM. Default: none.
    pub certificate: Option<PathBuf>,
    /// The file with the key of the certificate, in PEM. Default: none.
    pub key: Option<PathBuf>,
}
