//! The commands that control a running server, and its side of that.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::path_from_env;
use crate::control::{
    ConnectionTally, ControlError, ControlServer, ControlSocket, Reload, default_path,
};
use crate::registry::Registry;
use crate::state::StateReader;

/// Where a server is controlled.
#[derive(Args)]
pub(super) struct ControlArgs {
    /// The socket over which a server is controlled. Default:
    /// `$RELAYER_REST_CONTROL`, or `relayer-rest.sock` in `$XDG_RUNTIME_DIR` or
    /// else in `/tmp/relayer-rest-UID`.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlArgs {
    pub(super) fn path(&self) -> PathBuf {
        self.given().unwrap_or_else(default_path)
    }

    fn given(&self) -> Option<PathBuf> {
        self.control.clone().or_else(|| path_from_env("RELAYER_REST_CONTROL"))
    }

    /// Listens on the socket. Where it cannot be made and nobody asked for it,
    /// there is none; but one of another server is left to it in any case.
    pub(super) fn bind(&self) -> Result<Option<ControlSocket>, ControlError> {
        match ControlSocket::bind(&self.path()) {
            Ok(socket) => Ok(Some(socket)),
            Err(error @ ControlError::Io { .. }) if self.given().is_none() => {
                warn!("{error}; until then there is no status, swap, rollback or reload");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Serves the socket, until it is aborted.
pub(super) fn serve(
    socket: ControlSocket,
    registry: &Arc<Registry>,
    state: &StateReader,
    connections: ConnectionTally,
    reload: Reload,
) -> JoinHandle<()> {
    info!(socket = %socket.path().display(), "controlled here");
    let server = ControlServer::new(socket, Arc::clone(registry), state.clone());
    let server = server.with_connections(connections).with_reload(reload);
    tokio::spawn(server.serve())
}
