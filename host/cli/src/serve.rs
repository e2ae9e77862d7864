//! `relayer-rest serve`: from the command line to a running server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relayer_rest_common::text::escape_control;
use relayer_rest_conformance::Dialect;
use relayer_rest_server::Server;
use relayer_rest_server::capsules::Capsules;
use relayer_rest_server::commands::Commands;
use relayer_rest_server::config::{Config, Layers, Origin, Settings, UnknownVariable};
use relayer_rest_server::control::takeover::Handover;
use relayer_rest_server::control::{ControlServer, LogLevel, Reload};
use relayer_rest_server::reload::{FleetModules, ModuleContext, Modules, follow_dialect};
use relayer_rest_sources::Upstream;
use relayer_rest_state::{StatePublisher, StateReader};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{error, warn};

use super::access_log::AccessLog;
use super::fleet::Fleet;
use super::otlp::{MetricSources, Otlp};
use super::poll::poll;
use super::serve_error::ServeError;
use super::settings::SettingArgs;
use super::sockets::{Sockets, announce, check_upstream, listen_configs};
use super::sources::{ReadAgain, Sources, derive};
use super::takeover::Successor;
use super::{
    CommandOutcome, Failure, code_cache, compile, descriptors, huge_pages, idle_memory, log,
    service_manager, signals,
};

/// The time for requests to the control socket that are in flight when another process has taken
/// over.
const MAX_CONTROL_TIME: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Take over the sockets of the running server, which drains then: no request
    /// is lost. It is found by its control socket
    #[arg(long)]
    takeover: bool,
    /// Publish the state to a fleet of servers, too: `nats://HOST/FLEET`
    #[arg(long, value_name = "ADDRESS")]
    publish_to: Option<String>,
}

pub(super) fn run(args: &ServeArgs) -> Result<CommandOutcome, Failure> {
    let mut layers = args.settings.layers()?;
    if let Some(address) = &args.publish_to {
        layers.set("fleet.publish-to", address, Origin::Option("--publish-to"))?;
    }
    // The server has threads of its own for connections.
    let runtime = Builder::new_multi_thread()
        .worker_threads(super::RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(start(layers, args.takeover));
    // No client waits for the remaining tasks.
    runtime.shutdown_background();
    served?;
    Ok(CommandOutcome::Done)
}

/// Reads the settings, starts the log, and serves.
async fn start(layers: Layers, is_takeover: bool) -> Result<(), ServeError> {
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
    let served = serve(layers, settings, is_takeover, log.level(), shutdown).await;
    // The last message comes after all log lines.
    drop(log);
    served
}

async fn serve(
    layers: Layers,
    mut settings: Settings,
    is_takeover: bool,
    log: Arc<dyn LogLevel>,
    mut shutdown: Pin<Box<dyn Future<Output = ()>>>,
) -> Result<(), ServeError> {
    let hangup = signals::Hangup::catch().map_err(ServeError::Start)?;
    huge_pages::restrict();
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
    let fleet = Fleet::open(&config).await?;
    let listen_configs = listen_configs(&config, &sources);
    let telemetry_url = sources.telemetry.as_ref().map(|source| source.url.to_string());
    derive(&mut settings, &sources.rest, telemetry_url.as_deref());
    let is_remote = sources.upstream.is_some() || config.fleet.from.is_some();
    let context = ModuleContext {
        layers,
        // Current relayers are the rule: the dialect is known after the first response.
        relayer_dialect: is_remote.then_some(Dialect::V1_13),
        code_cache: code_cache::open(&config.code_cache)?,
        compiler: Some(compile::compiler()),
        // The running server serves meanwhile.
        waits: is_takeover,
    };
    let executor = sources.upstream.as_ref().map(Upstream::commands).transpose();
    let executor = executor.map_err(ServeError::Start)?;
    let commands = Arc::new(Commands::new(&config.commands, executor)?);
    let state = publisher.reader();
    let modules = tokio::select! {
        loaded = Modules::load(context, settings, &state) => {
            Arc::new(loaded?.with_commands(Arc::clone(&commands)))
        }
        () = &mut shutdown => return Ok(()),
    };
    let limits = descriptors::bounded(&config, config.extension.len() + 1);
    let access_log = tokio::select! {
        opened = open_access_log(&config, &mut sources) => opened?,
        () = &mut shutdown => return Ok(()),
    };
    let capsules = Capsules::open(&config.capsules)?;
    let mut otlp = Otlp::start()?;
    let mut takeover =
        if is_takeover { Some(Successor::begin(&config, &listen_configs).await?) } else { None };
    let sockets = match &mut takeover {
        Some(takeover) => takeover.sockets(&config, &listen_configs).await?,
        None => Sockets::open(&config, &listen_configs, sources.upstream.as_ref()).await?,
    };
    let addresses = sockets.addresses().map_err(ServeError::Start)?;
    check_upstream(addresses.iter().map(|(address, _)| address), sources.upstream.as_ref())?;
    sources.reloads.extend(sockets.reload_certificates());
    let registry = &modules.registry;
    if is_remote {
        tokio::spawn(follow_dialect(Arc::clone(&modules), state.clone()));
    }
    follow(&mut sources, fleet, &modules, &publisher).map_err(ServeError::Start)?;
    modules.watch(&state).await?;
    if let Some(takeover) = &mut takeover {
        tokio::select! {
            warmed = takeover.warm(registry, &state, is_remote) => warmed?,
            () = &mut shutdown => return Ok(()),
        }
    }
    let reload = service_manager::reporting(reload(&sources, &modules, &state));
    hangup.reload(Arc::clone(&reload));
    let server = Server::with_registry(Arc::clone(registry), state.clone())
        .with_limits(limits)
        .with_live_limits(config.live.clone())
        .with_settings(config.server.clone())
        .with_cors(config.cors.clone())
        .with_commands(commands)
        .with_observers(access_log.iter().map(AccessLog::observer).chain(otlp.observer()))
        .with_capsules(capsules.clone())
        .with_metrics();
    otlp.export_metrics(MetricSources {
        registry: Arc::clone(registry),
        state: state.clone(),
        connections: server.connections(),
        capsules: capsules.as_ref().map(|capsules| capsules.tally()),
    });
    let control = ControlServer::new(Arc::clone(registry), state.clone())
        .with_connections(server.connections())
        .with_capsules(capsules.clone())
        .with_base_path(config.http.base_path.clone())
        .with_reload(reload)
        .with_settings({
            let modules = Arc::clone(&modules);
            Arc::new(move || modules.settings())
        })
        .with_log_level(log);
    idle_memory::watch(registry);
    let result = Prepared { server, control, sockets, takeover }.serve(shutdown).await;
    otlp.shut_down().await;
    if let Some(capsules) = capsules {
        capsules.finish();
    }
    result
}

/// Follows the sources for as long as the server runs.
fn follow(
    sources: &mut Sources,
    fleet: Option<Fleet>,
    modules: &Arc<Modules>,
    publisher: &StatePublisher,
) -> io::Result<()> {
    poll(sources.upstream.take(), sources.telemetry.take(), publisher)?;
    if let Some(fleet) = fleet {
        let mounts = FleetModules::new(Arc::clone(modules), publisher.reader());
        fleet.run(publisher, Some(Arc::new(mounts)));
    }
    Ok(())
}

/// A server that is ready to accept connections.
struct Prepared {
    server: Server,
    control: ControlServer,
    sockets: Sockets,
    takeover: Option<Successor>,
}

impl Prepared {
    /// Serves until `shutdown` completes, or until another process has taken over.
    async fn serve(self, shutdown: Pin<Box<dyn Future<Output = ()>>>) -> Result<(), ServeError> {
        let Self { server, control, sockets, takeover } = self;
        let addresses = sockets.addresses().map_err(ServeError::Start)?;
        let Sockets { listeners, is_passed, control: control_socket, admin } = sockets;
        let watchdog = service_manager::watchdog();
        let watchdog = watchdog.or_else(|| takeover.as_ref().and_then(Successor::watchdog));
        let handover = Handover::new(&listeners).with_service_manager(
            is_passed,
            watchdog,
            Arc::new(service_manager::main_process),
        );
        let control =
            control.with_socket(control_socket).with_admin(admin).with_handover(handover.clone());
        let mut controlling = None;
        let mut failure = None;
        let mut is_handed_over = false;
        // The server polls it first when it begins to accept connections.
        let shutdown = async {
            if let Some(takeover) = takeover
                && let Err(error) = takeover.confirm(&handover).await
            {
                failure = Some(error);
                return;
            }
            controlling = Some(tokio::spawn(control.serve()));
            announce(&addresses, watchdog);
            tokio::select! {
                () = shutdown => service_manager::stopping(),
                // For the service manager, the service does not stop.
                () = handover.completed() => is_handed_over = true,
            }
        };
        server.serve_all(listeners, shutdown).await;
        if let Some(mut controlling) = controlling {
            let has_ended =
                is_handed_over && timeout(MAX_CONTROL_TIME, &mut controlling).await.is_ok();
            if !has_ended {
                // This also removes its socket.
                controlling.abort();
                controlling.await.ok();
            }
        }
        failure.map_or(Ok(()), Err)
    }
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
