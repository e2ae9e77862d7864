//! `relayer-rest fleet`: the requests of an operator to a fleet.

mod deploy;
mod status;

use std::env;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use relayer_rest_fleet::{FleetAddress, Operator};
use relayer_rest_server::config::{Layers, LogConfig};

use super::{CommandOutcome, Failure, block_on, print};
use deploy::DeployArgs;
use status::FleetStatusArgs;

#[derive(Subcommand)]
pub(super) enum FleetCommand {
    /// Roll out a module to the hosts of a fleet, and wait for the end
    Deploy(DeployArgs),
    /// Show the modules and hosts of a fleet
    Status(FleetStatusArgs),
    /// Return all hosts to the module before the last roll-out
    Rollback(MountArgs),
    /// Keep a roll-out in its stage; a failure rolls it back all the same
    Pause(MountArgs),
    /// Resume a paused roll-out
    Resume(MountArgs),
}

/// A mount of a fleet.
#[derive(Args)]
pub(super) struct MountArgs {
    /// Path of the mount
    #[arg(long, value_name = "PATH", default_value = "/")]
    mount: String,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// A fleet.
#[derive(Args)]
struct FleetArgs {
    /// The fleet, `nats://HOST/FLEET` [default: `from` or `publish-to` in `[fleet]` of the
    /// settings]
    #[arg(long, value_name = "ADDRESS")]
    fleet: Option<FleetAddress>,
    /// Settings of relayer-rest, with the credentials for NATS in `[fleet]`
    /// [default: `$RELAYER_REST_CONFIG`]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

impl FleetArgs {
    /// Connects to the fleet. Returns its address, too.
    async fn connect(&self) -> Result<(Operator, FleetAddress), Failure> {
        let layers = Layers::with_environment(self.config.clone(), env::vars_os())?;
        let settings = layers.read()?.config.fleet;
        let named = self.fleet.clone().or(settings.from.clone()).or(settings.publish_to.clone());
        let address =
            named.ok_or("no fleet is named; give --fleet nats://HOST/FLEET, or --config FILE")?;
        Ok((Operator::connect(&address, &settings).await?, address))
    }
}

/// Returns the log of the command, unless the environment sets its level: the client of NATS logs
/// each connection.
pub(super) fn log_config() -> LogConfig {
    let level = env::var_os("RUST_LOG").is_none().then(|| "warn".to_owned());
    LogConfig { level, ..LogConfig::default() }
}

pub(super) fn run(command: &FleetCommand) -> Result<CommandOutcome, Failure> {
    block_on(async {
        match command {
            FleetCommand::Deploy(args) => deploy::run(args).await,
            FleetCommand::Status(args) => status::run(args).await,
            FleetCommand::Rollback(MountArgs { mount, fleet }) => {
                fleet.connect().await?.0.roll_back(mount).await?;
                done(format!("mount {mount}: rolled back; hosts return to the module before"))
            }
            FleetCommand::Pause(MountArgs { mount, fleet }) => {
                fleet.connect().await?.0.set_paused(mount, true).await?;
                done(format!("mount {mount}: paused"))
            }
            FleetCommand::Resume(MountArgs { mount, fleet }) => {
                fleet.connect().await?.0.set_paused(mount, false).await?;
                done(format!("mount {mount}: resumed"))
            }
        }
    })?
}

fn done(line: String) -> Result<CommandOutcome, Failure> {
    print(&[line])?;
    Ok(CommandOutcome::Done)
}
