//! `relayer-rest serve`: from the command line to a running server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relayer_rest_common::text::escape_control;
use relayer_rest_common::{priority, threads, toml_text};
use relayer_rest_conformance::Dialect;
use relayer_rest_server::Server;
use relayer_rest_server::commands::Commands;
use relayer_rest_server::config::Config;
use relayer_rest_server::control::{AdminListener, ControlServer, LogLevel, Reload};
use relayer_rest_server::reload::{ModuleOverrides, Modules, follow_dialect};
use relayer_rest_sources::hermes_config::Rest;
use relayer_rest_sources::{TelemetrySource, Upstream};
use relayer_rest_state::{NotReady, StatePublisher, StateReader};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tracing::{error, info};

use super::address::Address;
use super::code_cache::CodeCacheArgs;
use super::compile;
use super::control::ControlArgs;
use super::log::LogFormat;
use super::serve_error::ServeError;
use super::sources::{SourceArgs, Sources};
use super::{CommandOutcome, Failure, descriptors, idle_memory, service_manager, signals};

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    /// Address to listen on, instead of host and port in the relayer's
    /// `[rest]`; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<Address>,
    /// Module that serves the API, instead of the bundled one
    #[arg(long, value_name = "FILE.wasm")]
    pub(super) module: Option<PathBuf>,
    /// Dialect of the API, to which swapped-in modules must conform: 0.7, as
    /// specified, 1.13, as in current relayers, or any [default: the
    /// relayer's with --upstream and the bundled module, or else 0.7]
    #[arg(long, value_name = "NAME")]
    pub(super) dialect: Option<Dialect>,
    /// Settings of relayer-rest
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Swap a module when its file changes, if the new one passes all checks
    #[arg(long)]
    watch: bool,
    /// Time at shutdown in which clients of open connections may send another
    /// request, whose response ends the connection; part of --grace
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = grace)]
    drain: Duration,
    /// Grace period for requests in flight at shutdown, 0s to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = grace)]
    grace: Duration,
    /// Format of the log on stderr
    #[arg(long, value_name = "NAME", default_value = "text")]
    log_format: LogFormat,
    #[command(flatten)]
    pub(super) code_cache: CodeCacheArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// Disable the control socket: no status, swap, rollback or reload
    #[arg(long, conflicts_with = "control")]
    pub(super) no_control: bool,
}

impl ServeArgs {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Returns the address to listen on, by default the one of the relayer's `[rest]`; an error
    /// if the relayer to poll has it.
    pub(super) fn address(&self, sources: &Sources) -> Result<Address, ServeError> {
        let Rest { host, port, .. } = &sources.rest;
        let default = || Address { host: host.clone(), port: *port };
        let address = self.listen.clone().unwrap_or_else(default);
        let is_upstream = |upstream: &Upstream| address.is_of(&upstream.url);
        if sources.upstream.as_ref().is_some_and(is_upstream) {
            return Err(ServeError::UpstreamIsHere { address: address.to_string() });
        }
        Ok(address)
    }
}

pub(super) fn run(args: &ServeArgs, log: Arc<dyn LogLevel>) -> Result<CommandOutcome, Failure> {
    // The server has threads of its own for connections.
    let runtime = Builder::new_multi_thread()
        .worker_threads(super::RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(serve(args, log));
    // No client waits for the remaining tasks.
    runtime.shutdown_background();
    served?;
    Ok(CommandOutcome::Done)
}

async fn serve(args: &ServeArgs, log: Arc<dyn LogLevel>) -> Result<(), ServeError> {
    // Signals are caught first, so that a server can be stopped while it starts.
    let mut shutdown = Box::pin(signals::shutdown().map_err(ServeError::Start)?);
    let hangup = signals::Hangup::catch().map_err(ServeError::Start)?;
    let publisher = StatePublisher::new();
    let files = {
        let config = args.config.clone();
        let sources = args.sources.clone();
        let publisher = publisher.clone();
        // These files can be pipes that nothing is written to.
        tokio::task::spawn_blocking(move || open(config.as_deref(), &sources, &publisher))
    };
    let (config, mut sources) = tokio::select! {
        opened = files => opened.map_err(ServeError::Reading)??,
        () = &mut shutdown => return Ok(()),
    };
    let address = args.address(&sources)?;
    let overrides = ModuleOverrides {
        module: args.module.clone(),
        dialect: args.dialect,
        // Current relayers are the rule: the dialect is known after the first response.
        relayer_dialect: sources.upstream.is_some().then_some(Dialect::V1_13),
        config: args.config.clone(),
        code_cache: args.code_cache.open()?,
        compiler: Some(compile::compiler()),
        watch: args.watch,
    };
    let executor = match &sources.upstream {
        Some(upstream) => Some(upstream.commands().map_err(ServeError::Start)?),
        None => None,
    };
    let commands = Arc::new(Commands::new(&config.commands, executor)?);
    let modules = tokio::select! {
        loaded = Modules::load(overrides, &config) => {
            Arc::new(loaded?.with_commands(Arc::clone(&commands)))
        }
        () = &mut shutdown => return Ok(()),
    };
    let limits = descriptors::bounded(config.http.clone(), config.extension.len() + 1);
    let listener = match service_manager::listener().map_err(ServeError::PassedSocket)? {
        Some(passed) => {
            info!("listening on the socket of the service manager");
            TcpListener::from_std(passed).map_err(ServeError::PassedSocket)?
        }
        None => listen(&address).await?,
    };
    let address = listener.local_addr().map_err(ServeError::Start)?;
    let socket = if args.no_control { None } else { args.control.bind(address)? };
    let admin = AdminListener::bind(&config.admin)?;
    let registry = &modules.registry;
    let state = publisher.reader();
    if let Some(upstream) = &sources.upstream {
        let dialect = upstream.polling.dialect.subscribe();
        tokio::spawn(follow_dialect(Arc::clone(&modules), state.clone(), dialect));
    }
    poll(sources.upstream.take(), sources.telemetry.take(), &publisher)
        .map_err(ServeError::Start)?;
    modules.watch(&state).await?;
    let reload = service_manager::reporting(reload(&sources, &modules, &state));
    hangup.reload(Arc::clone(&reload));
    let server = Server::with_registry(Arc::clone(registry), state.clone())
        .with_limits(limits)
        .with_threads(config.server.clone())
        .with_cors(config.cors.clone())
        .with_commands(commands)
        .with_metrics()
        .with_drain(args.drain)
        .with_grace(args.grace);
    let control = ControlServer::new(Arc::clone(registry), state.clone())
        .with_connections(server.connections())
        .with_reload(reload)
        .with_log_level(log)
        .with_socket(socket)
        .with_admin(admin);
    let control = tokio::spawn(control.serve());
    idle_memory::watch(registry);
    announce(&listener).map_err(ServeError::Start)?;
    let shutdown = async {
        shutdown.await;
        service_manager::stopping();
    };
    server.serve(listener, shutdown).await;
    // This also removes its socket.
    control.abort();
    control.await.ok();
    Ok(())
}

/// Reads the settings, and opens the sources of the state.
fn open(
    config: Option<&Path>,
    sources: &SourceArgs,
    publisher: &StatePublisher,
) -> Result<(Config, Sources), ServeError> {
    let config = config.map(Config::read).transpose()?.unwrap_or_default();
    let sources = sources.open(publisher, &config.upstream)?;
    Ok((config, sources))
}

/// Returns the function that reads all files again, and logs those that are rejected.
fn reload(sources: &Sources, modules: &Arc<Modules>, state: &StateReader) -> Reload {
    let files = sources.reloads.clone();
    let modules = Arc::clone(modules);
    let state = state.clone();
    Arc::new(move || {
        let files = files.clone();
        let modules = Arc::clone(&modules);
        let state = state.clone();
        Box::pin(async move {
            let reloaded = modules.reload(&state).await.map_err(|error| error.to_string());
            // An error in one file does not keep the others from being read.
            let read = move || files.iter().filter_map(|read| read().err()).collect::<Vec<_>>();
            let failures = tokio::task::spawn_blocking(read).await;
            let reloaded = reloaded.and_then(|mut reloaded| {
                reloaded.failures.extend(failures.map_err(|error| error.to_string())?);
                Ok(reloaded)
            });
            match &reloaded {
                Ok(reloaded) => {
                    for failure in &reloaded.failures {
                        error!(error = %escape_control(failure), "file rejected by reload");
                    }
                }
                Err(error) => error!(error = %escape_control(error), "reload rejected"),
            }
            reloaded
        })
    })
}

fn grace(text: &str) -> Result<Duration, String> {
    let time = toml_text::duration(text)?;
    if time > Duration::from_hours(1) {
        return Err("expected 0s to 1h".to_owned());
    }
    Ok(time)
}

/// Polls the relayer and its telemetry for as long as the server runs. The responses are
/// read on a thread of a lower priority: clients come first, regardless of the responses.
fn poll(
    upstream: Option<Upstream>,
    telemetry: Option<TelemetrySource>,
    publisher: &StatePublisher,
) -> io::Result<()> {
    if upstream.is_none() && telemetry.is_none() {
        return Ok(());
    }
    let sources = threads::start_runtime("sources", |runtime| {
        priority::lower_thread();
        runtime.block_on(std::future::pending::<()>());
    })?;
    if let Some(upstream) = upstream {
        let polling = sources.spawn(upstream.run(publisher.clone()));
        let publisher = publisher.clone();
        sources.spawn(if_ended(polling, move |reason| publisher.set_not_ready(reason)));
    }
    if let Some(telemetry) = telemetry {
        let polling = sources.spawn(telemetry.run(publisher.clone()));
        let publisher = publisher.clone();
        sources.spawn(if_ended(polling, move |reason| publisher.set_telemetry_not_ready(reason)));
    }
    Ok(())
}

/// Marks the data of a source as not known when its polling has ended by a panic.
async fn if_ended(polling: JoinHandle<()>, set_not_ready: impl FnOnce(NotReady)) {
    if let Err(error) = polling.await {
        error!(%error, "polling the relayer ended; restart to resume it");
        set_not_ready(NotReady {
            message: "the relayer is no longer polled; the log has the cause".to_owned(),
            ..NotReady::default()
        });
    }
}

pub(super) async fn listen(address: &Address) -> Result<TcpListener, ServeError> {
    TcpListener::bind((address.host.as_str(), address.port)).await.map_err(|source| {
        // A URL given instead of a host may contain a password.
        let is_host = !address.host.contains('@');
        let address = if is_host { address.to_string() } else { "the host".to_owned() };
        ServeError::Listen { address, source }
    })
}

/// Prints the only line on stdout, from which on clients can connect.
fn announce(listener: &TcpListener) -> io::Result<()> {
    let address = listener.local_addr()?;
    info!(%address, "listening");
    service_manager::ready(&format!("listening on {address}"));
    // A full pipe must not block the server, and a closed stdout is not an error.
    tokio::task::spawn_blocking(move || drop(writeln!(io::stdout(), "http://{address}")));
    Ok(())
}
