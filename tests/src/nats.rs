//! A server of NATS with JetStream, Debian's `nats-server`, which tests can kill.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use relayer_rest_host::fleet::FleetAddress;
use rustix::process::{Pid, Signal, kill_process};

use crate::folder::Folder;
use crate::wait::until;

/// A server, which runs until it is dropped or killed. Its streams are in a folder, so that they
/// are there when it is started again.
pub struct Nats {
    folder: Folder,
    address: SocketAddr,
    process: Option<Child>,
}

impl Nats {
    /// Starts a server without authentication.
    ///
    /// # Panics
    /// Panics if `nats-server` is not installed.
    pub async fn start() -> Self {
        Self::with_config("").await
    }

    /// Starts a server with these lines in its configuration.
    ///
    /// # Panics
    /// Panics if `nats-server` is not installed.
    pub async fn with_config(lines: &str) -> Self {
        Self::listening(Ipv4Addr::LOCALHOST, lines).await
    }

    /// Starts a server at an address of this machine, with these lines in its configuration.
    ///
    /// # Panics
    /// Panics if `nats-server` is not installed.
    pub async fn listening(address: Ipv4Addr, lines: &str) -> Self {
        // The port is free when the server takes it, unless another program is quicker.
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let folder = Folder::new();
        let store = folder.as_path().join("store");
        let store = store.display();
        folder.write(
            "nats.conf",
            format!("listen: \"{address}\"\njetstream {{ store_dir: \"{store}\" }}\n{lines}\n"),
        );
        let mut nats = Self { folder, address, process: None };
        nats.run().await;
        nats
    }

    /// Starts the server again, at the same address.
    ///
    /// # Panics
    /// Panics if it runs.
    pub async fn run(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let config = self.folder.as_path().join("nats.conf");
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().expect("nats-server, of the package nats-server"));
        let address = self.address;
        until("nats-server listens", || TcpStream::connect(address).is_ok()).await;
    }

    /// Kills the server.
    ///
    /// # Panics
    /// Panics if it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Stops the server, or lets it go on.
    ///
    /// # Panics
    /// Panics if it does not run.
    pub fn pause(&self, is_paused: bool) {
        let process = self.process.as_ref().expect("it runs");
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of a fleet, with a user and a password, if they are given: `user:password@`.
    ///
    /// # Panics
    /// Panics if it is not valid.
    #[must_use]
    pub fn fleet(&self, user: &str) -> FleetAddress {
        format!("nats://{user}{}/fleet", self.address).parse().unwrap()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
    }
}
