//! `relayer-rest serve`: from the command line to a running server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Server;
use crate::config::{self, Config};
use crate::module::{Engine, EngineError, LoadError, Module};
use crate::state::hermes_config::{self, HermesConfig, Rest};
use crate::state::{DuplicateChain, NotReady, StatePublisher, sample};
use clap::Args;
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::signals;

#[derive(Args)]
pub(super) struct ServeArgs {
    /// The relayer's own configuration file. Without it a sample is served.
    #[arg(long, value_name = "FILE")]
    relayer_config: Option<PathBuf>,
    /// Where to listen, in place of the relayer's `[rest]` host and port. Port
    /// 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    /// The module that serves the API, in place of the one that comes with
    /// relayer-rest.
    #[arg(long, value_name = "FILE.wasm")]
    module: Option<PathBuf>,
    /// The settings of relayer-rest itself.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A host, by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error("relayer configuration {}: {state}; set `enabled = true` in the section [rest] to serve the API", file.display())]
    Disabled { file: PathBuf, state: &'static str },
    #[error(transparent)]
    RelayerConfig(#[from] hermes_config::ConfigError),
    #[error(transparent)]
    Chains(#[from] DuplicateChain),
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Module(#[from] LoadError),
    #[error("cannot listen on {address}: {source}; {}", hint(source))]
    Listen { address: String, source: io::Error },
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl ServeError {
    /// The status that the process ends with.
    pub(super) fn status(&self) -> u8 {
        if matches!(self, Self::Disabled { .. }) { 3 } else { 2 }
    }
}

pub(super) fn run(args: &ServeArgs) -> Result<(), ServeError> {
    let config = args.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let publisher = StatePublisher::new();
    let rest = publish(args.relayer_config.as_deref(), &publisher)?;
    let address = args.listen.clone().unwrap_or(Address { host: rest.host, port: rest.port });
    let module = load(args.module.as_ref().or(config.module.file.as_ref()), &config)?;
    tokio::runtime::Runtime::new().map_err(ServeError::Start)?.block_on(async {
        let shutdown = signals::shutdown().map_err(ServeError::Start)?;
        let listener = listen(&address).await?;
        announce(&listener).map_err(ServeError::Start)?;
        Server::new(module, publisher.reader()).serve(listener, shutdown).await;
        Ok(())
    })
}

/// Publishes what is known of the relayer, and says where it is served.
fn publish(file: Option<&Path>, publisher: &StatePublisher) -> Result<Rest, ServeError> {
    let Some(file) = file else {
        info!("no --relayer-config: serving the sample relayer");
        sample(publisher);
        return Ok(Rest::default());
    };
    let config = HermesConfig::read(file)?;
    let disabled = |state| ServeError::Disabled { file: file.to_owned(), state };
    match config.rest.enabled {
        Some(true) => {}
        Some(false) => return Err(disabled("`enabled` in the section [rest] is false")),
        None => return Err(disabled("`enabled` in the section [rest] is missing")),
    }
    info!(file = %file.display(), chains = config.chains.len(), "read the relayer's configuration");
    publisher.set_chains(config.chains)?;
    let reason = NotReady { message: NO_SOURCE.to_owned(), ..NotReady::default() };
    warn!("/state answers 503 NotReady: {}", reason.message);
    publisher.set_not_ready(reason);
    Ok(config.rest)
}

/// Why there is no state where only a configuration file is given.
const NO_SOURCE: &str =
    "the relayer's state is not known: its configuration file tells the chains, not the workers";

fn load(file: Option<&PathBuf>, config: &Config) -> Result<Module, ServeError> {
    let engine = Engine::new(&config.module.limits)?;
    let module = match file {
        Some(file) => Module::from_file(&engine, file)?,
        None => Module::embedded(&engine)?,
    };
    let file = file.map_or("embedded".into(), |file| file.display().to_string());
    info!(file, digest = %module.digest(), "loaded the module");
    Ok(module)
}

async fn listen(address: &Address) -> Result<TcpListener, ServeError> {
    TcpListener::bind((address.host.as_str(), address.port))
        .await
        .map_err(|source| ServeError::Listen { address: address.to_string(), source })
}

/// What to do about an address that cannot be listened on.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: stop it, or choose another address with --listen"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges: choose another with --listen"
        }
        _ => "choose an address of this machine with --listen",
    }
}

/// The one line on stdout: whoever started this can connect now.
fn announce(listener: &TcpListener) -> io::Result<()> {
    let address = listener.local_addr()?;
    info!(%address, "listening");
    // Whoever closed stdout does not want to know.
    drop(writeln!(io::stdout(), "http://{address}"));
    Ok(())
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) =
            text.rsplit_once(':').ok_or("expected HOST:PORT, such as 127.0.0.1:3000")?;
        let port = port.parse().map_err(|_| "the port is not a number from 0 to 65535")?;
        let host = match host.strip_prefix('[') {
            Some(inner) => {
                inner.strip_suffix(']').ok_or("the host begins with [ and does not end with ]")?
            }
            None if host.contains(':') => {
                return Err("an IPv6 address is written in brackets: [::1]:3000");
            }
            None => host,
        };
        if host.is_empty() {
            return Err("the host is missing: 0.0.0.0 listens on all addresses");
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        for (text, host, port) in [
            ("127.0.0.1:0", "127.0.0.1", 0),
            ("localhost:3000", "localhost", 3000),
            ("[::1]:65535", "::1", 65535),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "3000",
            "localhost",
            ":3000",
            "localhost:",
            "localhost:65536",
            "::1:3000",
            "[::1:3000",
        ] {
            text.parse::<Address>().unwrap_err();
        }
    }
}
