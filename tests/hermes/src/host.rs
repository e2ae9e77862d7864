//! A process of `relayer-rest` in front of Hermes, and its commands.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{Process, program};
use crate::settings;

/// A process of `relayer-rest serve`.
pub struct Host {
    // Dropped first, it shows the log in the folder.
    _process: Process,
    folder: TempDir,
    address: SocketAddr,
}

impl Host {
    /// Starts the host in front of a relayer's API and telemetry.
    #[must_use]
    pub fn start(upstream: SocketAddr, telemetry: SocketAddr) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = command(&folder.path().join("control.sock"));
        command.args(["serve", "--no-code-cache", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(settings::write(folder.path()));
        command.args(["--upstream", &format!("http://{upstream}")]);
        command.args(["--telemetry", &format!("http://{telemetry}/metrics")]);
        command.args(["--telemetry-poll", "500ms"]);
        command.stdout(Stdio::piped());
        let mut process = Process::start(&mut command, &folder.path().join("log"));
        let mut line = String::new();
        let stdout = process.child().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the host does not start: {line:?}"));
        Self { _process: process, folder, address }
    }

    /// Returns the address of the API.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the path of the control socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }
}

/// Returns a command of `relayer-rest`, for the server with a control socket.
#[must_use]
pub fn command(control: &Path) -> Command {
    let mut command = Command::new(program("RELAYER_REST"));
    command.env("RELAYER_REST_CONTROL", control);
    command
}
