//! `relayer-rest publish`: publishes the state of a relayer to a fleet, without serving it.

use std::sync::Arc;

use clap::Args;
use relayer_rest_common::text::escape_control;
use relayer_rest_server::config::{Layers, Origin};
use relayer_rest_server::reload::Reloaded;
use relayer_rest_state::StatePublisher;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tracing::{error, info};

use super::fleet::Fleet;
use super::poll::poll;
use super::serve_error::ServeError;
use super::settings::SettingArgs;
use super::sources::Sources;
use super::{CommandOutcome, Failure, RUNTIME_THREADS, log, signals};

#[derive(Args)]
pub(super) struct PublishArgs {
    /// The fleet: `nats://HOST/FLEET`
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(super) fn run(args: &PublishArgs) -> Result<CommandOutcome, Failure> {
    let mut layers = args.settings.layers()?;
    if let Some(to) = &args.to {
        layers.set("fleet.publish-to", to, Origin::Option("--to"))?;
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let published = runtime.block_on(publish(layers));
    runtime.shutdown_background();
    published?;
    Ok(CommandOutcome::Done)
}

async fn publish(layers: Layers) -> Result<(), ServeError> {
    let shutdown = signals::shutdown().map_err(ServeError::Start)?;
    let hangup = signals::Hangup::catch().map_err(ServeError::Start)?;
    // The file can be a pipe that nothing is written to.
    let read = spawn_blocking(move || layers.read()).await;
    let settings = read.map_err(ServeError::Reading)??;
    let log = log::start(&settings.config.log).map_err(|problem| {
        let origin = settings.origin("log.level").clone();
        ServeError::LogLevel { origin, problem }
    })?;
    let config = settings.config.clone();
    let fleet = Fleet::open(&config).await?.filter(|_| config.fleet.publish_to.is_some());
    let fleet = fleet.ok_or(ServeError::NoFleet)?;
    let publisher = StatePublisher::new();
    let opened = {
        let publisher = publisher.clone();
        spawn_blocking(move || Sources::open(&settings, &publisher)).await
    };
    let mut sources = opened.map_err(ServeError::Reading)??;
    poll(sources.upstream.take(), sources.telemetry.take(), &publisher)
        .map_err(ServeError::Start)?;
    let files = sources.reloads.clone();
    hangup.reload(Arc::new(move || {
        let files = files.clone();
        Box::pin(async move {
            let read = move || files.iter().filter_map(|read| read().err()).collect::<Vec<_>>();
            let failures = spawn_blocking(read).await.map_err(|error| error.to_string())?;
            for failure in &failures {
                error!(error = %escape_control(failure), "file rejected by reload");
            }
            Ok(Reloaded { failures, ..Reloaded::default() })
        })
    }));
    fleet.run(&publisher, None);
    shutdown.await;
    info!("publication ended");
    drop(log);
    Ok(())
}
