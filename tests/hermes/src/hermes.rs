//! A process of Hermes that relays between two scripted chains.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, id};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use tempfile::TempDir;

use crate::http::try_get;
use crate::node::{CHAINS, Nodes};
use crate::process::{Process, program};
use crate::settings;
use crate::wait::until;

/// The words of the key with which Hermes would sign.
const MNEMONIC: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon \
     abandon abandon about";

/// A part of the line that Hermes writes again and again if its API cannot listen.
const NOT_LISTENING: &str = "receiving on an empty and disconnected channel";

/// A build of Hermes, by the environment variable that names its program.
#[derive(Debug, Clone, Copy)]
pub enum Build {
    /// Hermes from the registry.
    Original,
    /// Hermes with the lines of `docs/embedding.md`.
    Patched,
}

/// A process of Hermes, with a home of its own.
pub struct Hermes {
    // Dropped first, it shows the log in the home.
    process: Option<Process>,
    program: PathBuf,
    home: TempDir,
    address: SocketAddr,
    telemetry: SocketAddr,
}

impl Hermes {
    /// Starts Hermes, and waits until it has scanned the chains and serves its API.
    #[must_use]
    pub fn start(build: Build, nodes: &Nodes) -> Self {
        let program = program(match build {
            Build::Original => "HERMES_ORIGINAL",
            Build::Patched => "HERMES_PATCHED",
        });
        let home = TempDir::new().unwrap();
        let [address, telemetry] = free_addresses();
        fs::write(home.path().join("config.toml"), config(address, telemetry, nodes)).unwrap();
        fs::write(home.path().join("mnemonic"), MNEMONIC).unwrap();
        settings::write(home.path());
        let mut hermes = Self { process: None, program, home, address, telemetry };
        for chain in CHAINS {
            let mut command = hermes.command();
            command.args(["keys", "add", "--chain", chain, "--mnemonic-file"]);
            let output = command.arg(hermes.home.path().join("mnemonic")).output().unwrap();
            assert!(output.status.success(), "{command:?}: {output:?}");
        }
        hermes.restart();
        hermes
    }

    /// Returns the address of the REST API.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the telemetry.
    #[must_use]
    pub fn telemetry(&self) -> SocketAddr {
        self.telemetry
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn process(&mut self) -> u32 {
        self.process.as_mut().unwrap().child().id()
    }

    /// Returns the log of the process.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_file()).unwrap()).into_owned()
    }

    /// Returns the path of the control socket, if the build has one.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.home.path().join("control.sock")
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Kills the process if it runs, and starts another one at the same address.
    pub fn restart(&mut self) {
        self.kill();
        let log = self.log_file();
        let mut command = self.command();
        command.arg("start").stdout(File::create(&log).unwrap());
        self.process = Some(Process::start(&mut command, &log));
        let (process, address) = (self.process.as_mut().unwrap(), self.address);
        until("Hermes serves its API", || {
            let status = process.child().try_wait().unwrap();
            assert!(status.is_none(), "Hermes ended: {status:?}");
            let log = fs::read(&log).unwrap();
            let log = String::from_utf8_lossy(&log);
            assert!(!log.contains(NOT_LISTENING), "the address of Hermes is taken");
            try_get(address, "/state").is_ok_and(|response| response.status == 200)
        });
    }

    fn command(&self) -> Command {
        let home = self.home.path();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(home.join("config.toml")).env("HOME", home);
        command.env("RELAYER_REST_CONTROL", self.control());
        command.env("RELAYER_REST_CONFIG", home.join("relayer-rest.toml"));
        command
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("log")
    }
}

/// Returns addresses at which no program listens, of an IP address of their own: until Hermes listens,
/// connections of other tests could take ports of the common one.
fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    static NEXT: AtomicU8 = AtomicU8::new(2);
    let [.., high, low] = id().to_be_bytes();
    let host = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Relaxed));
    // All are bound before the first is free again.
    let listeners = [(); N].map(|()| TcpListener::bind((host, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// Returns the settings of Hermes. An idle packet worker ends after five blocks.
fn config(rest: SocketAddr, telemetry: SocketAddr, nodes: &Nodes) -> String {
    let mut config = format!(
        "
[global]
log_level = 'info'

[mode.clients]
enabled = true
refresh = true
misbehaviour = true

[mode.connections]
enabled = false

[mode.channels]
enabled = false

[mode.packets]
enabled = true
clear_interval = 1
clear_on_start = true
tx_confirmation = false

[rest]
enabled = true
host = '{}'
port = {}

[telemetry]
enabled = true
host = '{}'
port = {}
",
        rest.ip(),
        rest.port(),
        telemetry.ip(),
        telemetry.port()
    );
    for (index, chain) in CHAINS.iter().enumerate() {
        let address = nodes.address(index);
        write!(
            config,
            "
[[chains]]
type = 'CosmosSdk'
id = '{chain}'
rpc_addr = 'http://{address}'
grpc_addr = 'http://{address}'
event_source = {{ mode = 'pull', interval = '1s' }}
account_prefix = 'cosmos'
key_name = 'testkey'
store_prefix = 'ibc'
gas_price = {{ price = 0.025, denom = 'stake' }}
trusting_period = '14days'
"
        )
        .unwrap();
    }
    config
}
