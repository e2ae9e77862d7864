//! `relayer-rest serve`: from the command line to a running server.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;

use relayer_rest_common::text::escape_control;
use relayer_rest_common::{priority, threads};
use relayer_rest_conformance::Dialect;
use relayer_rest_server::commands::Commands;
use relayer_rest_server::config::{
    Config, Layers, ListenAddress, ListenConfig, Settings, UnknownVariable,
};
use relayer_rest_server::control::{AdminListener, ControlServer, LogLevel, Reload};
use relayer_rest_server::reload::{ModuleContext, Modules, follow_dialect};
use relayer_rest_server::{Listener, Server};
use relayer_rest_sources::hermes_config::Rest;
use relayer_rest_sources::{TelemetrySource, Upstream};
use relayer_rest_state::{NotReady, StatePublisher, StateReader};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{error, info, warn};

use super::access_log::AccessLog;
use super::otlp::{MetricSources, Otlp};
use super::serve_error::ServeError;
use super::settings::SettingArgs;
use super::sources::{ReadAgain, Sources, derive};
use super::{
    CommandOutcome, Failure, code_cache, compile, control, descriptors, idle_memory, log,
    service_manager, signals,
};

/// Returns the listeners, by default one at the address of the relayer's `[rest]`; an error if
/// the relayer to poll has one of the addresses.
pub(super) fn listen_configs(
    config: &Config,
    sources: &Sources,
) -> Result<Vec<ListenConfig>, ServeError> {
    let mut configs = config.listen.0.clone();
    if configs.is_empty() {
        let Rest { host, port, .. } = &sources.rest;
        configs.push(ListenAddress::Tcp { host: host.clone(), port: *port }.into());
    }
    if let Some(upstream) = &sources.upstream
        && let Some(config) = configs.iter().find(|config| config.address.is_of(&upstream.url))
    {
        return Err(ServeError::UpstreamIsHere { address: config.address.to_string() });
    }
    Ok(configs)
}

pub(super) fn run(args: &SettingArgs) -> Result<CommandOutcome, Failure> {
    let layers = args.layers()?;
    // The server has threads of its own for connections.
    let runtime = Builder::new_multi_thread()
        .worker_threads(super::RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(start(layers));
    // No client waits for the remaining tasks.
    runtime.shutdown_background();
    served?;
    Ok(CommandOutcome::Done)
}

/// Reads the settings, starts the log, and serves.
async fn start(layers: Layers) -> Result<(), ServeError> {
    // Signals are caught first, so that a server can be stopped while it starts.
    let mut shutdown = Box::pin(signals::shutdown().map_err(ServeError::Start)?);
    let read = {
        let layers = layers.clone();
        // The file can be a pipe that nothing is written to.
        spawn_blocking(move || layers.read())
    };
    let settings = tokio::select! {
        read = read => read.map_err(ServeError::Reading)??,
        () = &mut shutdown => return Ok(()),
    };
    let log = log::start(&settings.config.log).map_err(|problem| {
        let origin = settings.origin("log.level").clone();
        ServeError::LogLevel { origin, problem }
    })?;
    for UnknownVariable { name, meant } in layers.unknown_variables() {
        warn!(name, meant, "unknown variable of the environment ignored");
    }
    let served = serve(layers, settings, log.level(), shutdown).await;
    // The last message comes after all log lines.
    drop(log);
    served
}

async fn serve(
    layers: Layers,
    mut settings: Settings,
    log: Arc<dyn LogLevel>,
    mut shutdown: Pin<Box<dyn Future<Output = ()>>>,
) -> Result<(), ServeError> {
    let hangup = signals::Hangup::catch().map_err(ServeError::Start)?;
    let publisher = StatePublisher::new();
    let config = settings.config.clone();
    let files = {
        let settings = settings.clone();
        let publisher = publisher.clone();
        // These files can be pipes, too.
        spawn_blocking(move || Sources::open(&settings, &publisher))
    };
    let mut sources = tokio::select! {
        opened = files => opened.map_err(ServeError::Reading)??,
        () = &mut shutdown => return Ok(()),
    };
    let listen_configs = listen_configs(&config, &sources)?;
    let telemetry_url = sources.telemetry.as_ref().map(|source| source.url.to_string());
    derive(&mut settings, &sources.rest, telemetry_url.as_deref());
    let context = ModuleContext {
        layers,
        // Current relayers are the rule: the dialect is known after the first response.
        relayer_dialect: sources.upstream.is_some().then_some(Dialect::V1_13),
        code_cache: code_cache::open(&config.code_cache)?,
        compiler: Some(compile::compiler()),
    };
    let executor = match &sources.upstream {
        Some(upstream) => Some(upstream.commands().map_err(ServeError::Start)?),
        None => None,
    };
    let commands = Arc::new(Commands::new(&config.commands, executor)?);
    let modules = tokio::select! {
        loaded = Modules::load(context, settings) => {
            Arc::new(loaded?.with_commands(Arc::clone(&commands)))
        }
        () = &mut shutdown => return Ok(()),
    };
    let limits = descriptors::bounded(config.http.clone(), config.extension.len() + 1);
    let passed = service_manager::listeners().map_err(ServeError::PassedSocket)?;
    let listeners = if passed.is_empty() {
        listen(&listen_configs).await?
    } else {
        info!(count = passed.len(), "listening on sockets of the service manager");
        configure(passed, &config.listen.0)?
    };
    let addresses = listeners.iter().map(|listener| Ok((listener.address()?, listener.has_tls())));
    let addresses = addresses.collect::<io::Result<Vec<_>>>().map_err(ServeError::Start)?;
    sources.reloads.extend(listeners.iter().filter_map(reload_tls));
    let access_log = tokio::select! {
        opened = open_access_log(&config, &mut sources) => opened?,
        () = &mut shutdown => return Ok(()),
    };
    let mut otlp = Otlp::start()?;
    let socket = control::bind(&config.control, &addresses[0].0)?;
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
        .with_settings(config.server.clone())
        .with_cors(config.cors.clone())
        .with_commands(commands)
        .with_observers(access_log.iter().map(AccessLog::observer).chain(otlp.observer()))
        .with_metrics();
    otlp.export_metrics(MetricSources {
        registry: Arc::clone(registry),
        state: state.clone(),
        connections: server.connections(),
    });
    let control = ControlServer::new(Arc::clone(registry), state.clone())
        .with_connections(server.connections())
        .with_base_path(config.http.base_path.clone())
        .with_reload(reload)
        .with_settings({
            let modules = Arc::clone(&modules);
            Arc::new(move || modules.settings())
        })
        .with_log_level(log)
        .with_socket(socket)
        .with_admin(admin);
    let control = tokio::spawn(control.serve());
    idle_memory::watch(registry);
    announce(&addresses);
    let shutdown = async {
        shutdown.await;
        service_manager::stopping();
    };
    server.serve_all(listeners, shutdown).await;
    otlp.shut_down().await;
    // This also removes its socket.
    control.abort();
    control.await.ok();
    Ok(())
}

/// Returns the function that reads the files of TLS again, if the listener has TLS.
fn reload_tls(listener: &Listener) -> Option<ReadAgain> {
    let reload = listener.reload_tls()?;
    Some(Arc::new(move || reload().map_err(|error| error.to_string())))
}

/// Opens the access log, if there is one. A reload opens it again.
async fn open_access_log(
    config: &Config,
    sources: &mut Sources,
) -> Result<Option<AccessLog>, ServeError> {
    let config = config.access_log.clone();
    // The file can be a pipe that nothing reads.
    let opened = spawn_blocking(move || AccessLog::open(&config)).await;
    let access_log = opened.map_err(ServeError::Reading)??;
    sources.reloads.extend(access_log.iter().map(AccessLog::reopen).map(|reopen| {
        let reopen = move || reopen().map_err(|error| error.to_string());
        Arc::new(reopen) as ReadAgain
    }));
    Ok(access_log)
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
            let failures = spawn_blocking(read).await;
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

/// Opens the listeners.
pub(super) async fn listen(configs: &[ListenConfig]) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    for config in configs {
        let listener = Listener::bind(config).await.map_err(|source| {
            let address = config.address.to_string();
            // A URL given instead of a host may contain a password.
            let address = if address.contains('@') { "the host".to_owned() } else { address };
            ServeError::Listen { address, source }
        })?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Sets everything but the address of the sections `[[listen]]` for passed sockets, in their
/// order.
fn configure(passed: Vec<Listener>, configs: &[ListenConfig]) -> Result<Vec<Listener>, ServeError> {
    let mut configs = configs.iter();
    let configured = passed.into_iter().map(|listener| match configs.next() {
        Some(config) => listener.with_config(config).map_err(|source| {
            let address = config.address.to_string();
            ServeError::Listen { address, source }
        }),
        None => Ok(listener),
    });
    configured.collect()
}

/// Prints a line for each address on stdout, from which on clients can connect.
fn announce(addresses: &[(ListenAddress, bool)]) {
    let lines = addresses.iter().map(|(address, has_tls)| {
        info!(%address, "listening");
        match address {
            ListenAddress::Tcp { .. } if *has_tls => format!("https://{address}\n"),
            ListenAddress::Tcp { .. } => format!("http://{address}\n"),
            ListenAddress::Unix(_) => format!("{address}\n"),
        }
    });
    let lines: String = lines.collect();
    let names: Vec<_> = addresses.iter().map(|(address, _)| address.to_string()).collect();
    service_manager::ready(&format!("listening on {}", names.join(", ")));
    // A full pipe must not block the server, and a closed stdout is not an error.
    spawn_blocking(move || drop(io::stdout().write_all(lines.as_bytes())));
}
