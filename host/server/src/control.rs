//! Controls a running server: HTTP with JSON over a Unix socket that only its owner can
//! write to.
//!
//! | request | response |
//! |---|---|
//! | `GET /status` | 200, [`Status`] |
//! | `POST /swap?mount=/&name=FILE`, the component as its body; and `sha256=DIGEST`, `dialect=NAME`, `dry-run=true`, `force=true` | 200, or 409 if the module is rejected: [`SwapReport`](crate::registry::SwapReport) |
//! | `POST /reload` | 200, [`Reloaded`], with the invalid files in `failures`; or 409 if the settings cannot be used, or there are none |
//! | `POST /rollback?mount=/` | 200, [`RolledBack`]; or 409 without a previous module |
//!
//! An error has a status of 400 or above and a [`ControlFault`] as its body, except for a
//! rejected module.
//!
//! | file | job |
//! |---|---|
//! | `socket.rs` | the socket: its path, takeover, mode and removal |
//! | `server.rs` | serves the requests |
//! | `client.rs` | sends the requests |
//! | `status.rs` | the status of a server |

mod client;
mod server;
mod socket;
mod status;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::reload::Reloaded;

pub use crate::http::{ConnectionStatus, ConnectionTally};
pub use client::{ControlClient, ControlClientError};
pub use server::ControlServer;
pub use socket::{ControlError, ControlSocket, default_folder, default_path, running};
pub use status::{SourceFailureStatus, SourceStatus, Status};

/// A completed rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The path of the mount.
    pub mount: String,
    /// The digest of the module that was active before.
    pub from: String,
    /// The digest of the module that is active now.
    pub to: String,
}

/// Reloads the settings, or reports why they cannot be used.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Reloaded, String>> + Send + Sync>;

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlFault {
    /// The problem and its remedy.
    pub error: String,
}
