//! Controlling a running server: HTTP with JSON over a Unix socket that only
//! its owner can write to.
//!
//! | request | answer |
//! |---|---|
//! | `GET /status` | 200, [`Status`] |
//! | `POST /swap?mount=/&name=FILE`, the component as its body; and `sha256=DIGEST`, `dialect=NAME`, `dry-run=true`, `force=true` | 200, or 409 where it is refused: [`SwapReport`](crate::registry::SwapReport) |
//! | `POST /reload` | 200, [`Reloaded`]; or 409 where the settings cannot be used, or there are none |
//! | `POST /rollback?mount=/` | 200, [`RolledBack`]; or 409 where there is nothing to go back to |
//!
//! Anything else is answered with a status from 400 on and a [`Fault`].
//!
//! | file | job |
//! |---|---|
//! | `socket.rs` | where the socket is; taking it over, its mode, removing it |
//! | `../http/control_server.rs` | answers the requests |
//! | `../http/control_client.rs` | asks them |

mod socket;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::registry::MountStatus;

pub use crate::http::{ConnectionTally, ControlClient, ControlClientError, ControlServer};
pub use socket::{ControlError, ControlSocket, default_path};

/// A server, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of `relayer-rest`.
    pub version: String,
    /// The number of its process.
    pub pid: u32,
    /// Whether it knows what the relayer is doing.
    pub ready: bool,
    /// The connections of clients, where the server's are counted for this
    /// socket.
    pub connections: Option<ConnectionStatus>,
    /// All that is mounted, the API first.
    pub mounts: Vec<MountStatus>,
}

/// The connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Those that are open now.
    pub open: u64,
    /// Those that were served since the start.
    pub accepted: u64,
    /// Those for which there was no room.
    pub refused: u64,
    /// Connections that were closed to make room for others.
    #[serde(default)]
    pub evicted: u64,
    /// Bytes of responses that clients have not taken yet.
    #[serde(default)]
    pub unsent: u64,
}

/// A module was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The path of the mount.
    pub mount: String,
    /// The digest of the module that was in service.
    pub from: String,
    /// The digest of the one that is now.
    pub to: String,
}

/// The settings were read again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The paths of the mounts that stay as they are, with what was swapped in.
    pub kept: Vec<String>,
    /// Those whose settings or file have changed.
    pub replaced: Vec<String>,
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// Has the settings read again, or says what is wrong with them.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Reloaded, String>> + Send + Sync>;

/// A request that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What is wrong, and what to do.
    pub error: String,
}
