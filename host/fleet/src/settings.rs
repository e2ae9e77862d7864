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
    /// The number of servers of a cluster of NATS that store the streams, from 1 to 5, if the
    /// publication creates them. Default: 1.
    pub replicas: StreamReplicas,
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

/// The number of servers of a cluster of NATS that store a stream, from 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct StreamReplicas(u8);

/// A number of servers that NATS does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is out of range; expected 1 to 5")]
pub struct StreamReplicasError(u8);

impl Default for StreamReplicas {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u8> for StreamReplicas {
    type Error = StreamReplicasError;

    fn try_from(servers: u8) -> Result<Self, StreamReplicasError> {
        if (1..=5).contains(&servers) {
            Ok(Self(servers))
        } else {
            Err(StreamReplicasError(servers))
        }
    }
}

impl From<StreamReplicas> for u8 {
    fn from(replicas: StreamReplicas) -> Self {
        replicas.0
    }
}
