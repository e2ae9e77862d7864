//! `relayer-rest dev`: serves a module in development, from its sources to the responses of its
//! last good build.
//!
//! | file | job |
//! |---|---|
//! | `session.rs` | builds and deploys the module after each change, and prints its changes |
//! | `source_files.rs` | the source files of a project, and their changes |
//! | `build.rs` | runs the build of a project, in a process group that ends with it |
//! | `document.rs` | compares the declaration of the routes with the one in the module |
//! | `deployment.rs` | deploys the builds: the first one on a new mount, later ones by swaps |

mod build;
mod deployment;
mod document;
mod session;
mod source_files;

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use relayer_rest_conformance::Dialect;
use relayer_rest_server::Server;
use relayer_rest_server::config::{Layers, LogConfig, Origin};
use relayer_rest_state::StatePublisher;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::grant_args::GrantArgs;
use super::poll::poll;
use super::project::Project;
use super::sockets::{announce, bind, check_upstream, listen_configs};
use super::sources::Sources;
use super::{CommandOutcome, Failure, descriptors, signals};
use deployment::Deployment;
use session::Session;

/// The level of the log: the lines of modules, and warnings of the server, with their requests.
const LOG_LEVEL: &str = "warn,module=info,relayer_rest_server::http::service=info";

#[derive(Args)]
pub(super) struct DevArgs {
    /// Folder with the sources of the module
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Shell command that builds the module, run in the folder [default: cargo,
    /// npm or build.py, by the files of the folder]
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// Component that the build writes, relative to the folder [default: the
    /// output of cargo, or the only *.wasm in the folder]
    #[arg(long, value_name = "FILE.wasm", value_hint = ValueHint::FilePath)]
    module: Option<PathBuf>,
    /// Serve the API with the module, in this dialect: 0.7, 1.13 or any
    /// [default: it is an extension at /ext/NAME]
    #[arg(long, value_name = "DIALECT")]
    api: Option<Dialect>,
    #[command(flatten)]
    grants: GrantArgs,
    /// REST API of a running relayer, instead of the sample
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Telemetry of the relayer at --upstream
    #[arg(long, value_name = "URL", requires = "upstream")]
    telemetry: Option<String>,
    /// Address to listen on, HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: String,
}

/// Returns the log of the command, unless the environment sets its level.
pub(super) fn log_config() -> LogConfig {
    let level = env::var_os("RUST_LOG").is_none().then(|| LOG_LEVEL.to_owned());
    LogConfig { level, ..LogConfig::default() }
}

pub(super) fn run(args: &DevArgs) -> Result<CommandOutcome, Failure> {
    let project = Project::find(&args.folder, args.build.as_deref(), args.module.as_deref())?;
    let runtime =
        Builder::new_multi_thread().worker_threads(super::RUNTIME_THREADS).enable_all().build()?;
    let served = runtime.block_on(start(args, project));
    runtime.shutdown_background();
    served?;
    Ok(CommandOutcome::Done)
}

/// Serves the builds of a project until a signal ends it.
async fn start(args: &DevArgs, project: Project) -> Result<(), Failure> {
    let headers = args.grants.headers()?.unwrap_or_default();
    let shutdown = signals::shutdown()?;
    let mut layers = Layers::new(None);
    for (key, value, option) in [
        ("listen", Some(&args.listen), "--listen"),
        ("upstream.url", args.upstream.as_ref(), "--upstream"),
        ("telemetry.url", args.telemetry.as_ref(), "--telemetry"),
        // Clients of an author need no time at the end.
        ("server.drain", Some(&"0s".to_owned()), "--drain"),
        ("server.grace", Some(&"1s".to_owned()), "--grace"),
    ] {
        if let Some(value) = value {
            layers.set(key, value, Origin::Option(option))?;
        }
    }
    let settings = layers.read()?;
    // Other variables name the sources of a server, and not those of an author.
    let environment = Layers::with_environment(None, env::vars_os())?.without_file();
    let swap = environment.read()?.config.swap;
    let publisher = StatePublisher::new();
    let mut sources = Sources::open(&settings, &publisher)?;
    let config = &settings.config;
    let listen_configs = listen_configs(config, &sources);
    let upstream = sources.upstream.take();
    check_upstream(listen_configs.iter().map(|config| &config.address), upstream.as_ref())?;
    let listeners = bind(&listen_configs).await?;
    let mut addresses = Vec::new();
    for listener in &listeners {
        addresses.push((listener.address()?, listener.has_tls()));
    }
    let relayer_dialect = if upstream.is_some() { Dialect::V1_13 } else { Dialect::V0_7 };
    poll(upstream, sources.telemetry.take(), &publisher)?;
    let state = publisher.reader();
    let deployment = Deployment::new(state.clone(), args.api, relayer_dialect, headers, swap)?;
    let server = Server::with_registry(Arc::clone(&deployment.registry), state)
        .with_limits(descriptors::bounded(config, 2))
        .with_live_limits(config.live.clone())
        .with_settings(config.server.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve_all(listeners, async { drop(stopped.await) }));
    announce(&addresses, None).await.ok();
    let address = addresses.first().map(|(address, _)| address.to_string()).unwrap_or_default();
    // A build that runs is stopped.
    let result = tokio::select! {
        result = Session::new(project, deployment, address).run() => result,
        () = shutdown => Ok(()),
    };
    drop(stop);
    serving.await?;
    result
}
