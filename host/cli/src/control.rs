//! The control socket: its option, its client and the server's side.

use std::io;
use std::path::PathBuf;

use clap::Args;
use relayer_rest_server::UnixSocketError;
use relayer_rest_server::config::{ListenAddress, Place};
use relayer_rest_server::control::{
    ControlClient, ControlError, ControlSocket, default_folder, default_path, running,
};
use tracing::warn;

use super::{Failure, path_from_env};

/// The control socket of a server.
#[derive(Args)]
pub(super) struct ControlArgs {
    /// Control socket of the server [default: `$RELAYER_REST_CONTROL`, or
    /// `ADDRESS.sock` in `$XDG_RUNTIME_DIR/relayer-rest` or
    /// `/tmp/relayer-rest-UID`, which other commands search]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlArgs {
    /// Returns a client of the server that this names, or of the only one that runs.
    pub(super) fn client(&self) -> Result<ControlClient, Failure> {
        let path = match self.control.clone().or_else(|| path_from_env("RELAYER_REST_CONTROL")) {
            Some(path) => path,
            None => only(&running().map_err(|error| unreadable(&error))?)?,
        };
        Ok(ControlClient::new(&path))
    }
}

/// Listens on the socket, by default on the one of a server with this address. A default
/// socket that cannot be created is left out with a warning.
pub(super) fn bind(
    place: &Place,
    address: &ListenAddress,
) -> Result<Option<ControlSocket>, ControlError> {
    match place {
        Place::Disabled => Ok(None),
        Place::At(path) => ControlSocket::bind(path).map(Some),
        Place::Default => match ControlSocket::bind(&default_path(address)) {
            Err(error @ ControlError::Socket { source: UnixSocketError::Io(_), .. }) => {
                warn!(%error, "status, swap, rollback and reload unavailable");
                Ok(None)
            }
            bound => bound.map(Some),
        },
    }
}

pub(super) fn only(running: &[PathBuf]) -> Result<PathBuf, Failure> {
    match running {
        [path] => Ok(path.clone()),
        [] => Err(format!(
            "no server is running: there is no control socket in {}; start one with `relayer-rest serve`, or name its socket with --control PATH",
            default_folder().display()
        )
        .into()),
        several => {
            let paths: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            let paths = paths.join(", ");
            Err(format!("several servers are running: {paths}; choose one with --control PATH").into())
        }
    }
}

fn unreadable(error: &io::Error) -> Failure {
    let folder = default_folder();
    format!("control sockets {}: {error}; name a socket with --control PATH", folder.display())
        .into()
}
