//! `relayer-rest fleet deploy`: rolls out a module, and waits for the end.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use relayer_rest_fleet::{NewRollout, Operator, Phase, Rollout, Stages};
use relayer_rest_oci::Reference;
use relayer_rest_server::registry::ShadowTime;
use tokio::time::sleep;

use super::FleetArgs;
use super::status::phase;
use crate::swap::expected;
use crate::{CommandOutcome, Failure, print};

/// The interval in which the plan is read.
const INTERVAL: Duration = Duration::from_millis(500);

/// The number of reads in a row that may fail.
const MAX_FAILURES: u32 = 60;

#[derive(Args)]
pub(crate) struct DeployArgs {
    /// The module, `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, as `push` prints it
    module: Reference,
    /// Path of the mount
    #[arg(long, value_name = "PATH", default_value = "/")]
    mount: String,
    /// The stages: growing numbers and percentages of hosts, and `all`
    #[arg(long, value_name = "LIST", default_value_t)]
    stages: Stages,
    /// Time for which each host runs the module on the requests of its clients, and compares the
    /// responses with those of the active module, before it activates it
    #[arg(long, value_name = "DURATION", default_value = "5min")]
    hold: ShadowTime,
    /// Number of requests that each host compares at least, and that it serves with the module
    /// before the next stage
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_requests: u64,
    /// Maximum processor time of the module's runs, to those of the active module on the same
    /// requests
    #[arg(long, value_name = "N", default_value = "10")]
    max_slowdown: NonZeroU32,
    /// File in TOML with the changes of responses that are expected
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    expect: Option<PathBuf>,
    /// Return at once, instead of at the end of the roll-out
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

pub(super) async fn run(args: &DeployArgs) -> Result<CommandOutcome, Failure> {
    let DeployArgs {
        module,
        mount,
        stages,
        hold,
        min_requests,
        max_slowdown,
        expect,
        detach,
        fleet,
    } = args;
    if module.digest().is_none() {
        let message = format!(
            "{module}: it has no digest, so that hosts may pull different modules; \
             `relayer-rest inspect {module}` prints it"
        );
        return Err(message.into());
    }
    let expected = expect.as_deref().map(expected).transpose()?;
    let new = NewRollout {
        module: module.to_string(),
        stages: stages.clone(),
        hold: hold.get(),
        min_requests: *min_requests,
        max_slowdown: *max_slowdown,
        expected: expected.map(|expected| expected.as_str().to_owned()).unwrap_or_default(),
    };
    let (operator, _) = fleet.connect().await?;
    let id = operator.deploy(mount, new).await?;
    print(&[format!("mount {mount}: roll-out {id} of {module}")])?;
    if *detach {
        return Ok(CommandOutcome::Done);
    }
    tokio::select! {
        ended = wait(&operator, mount, id) => ended,
        interrupt = tokio::signal::ctrl_c() => {
            interrupt?;
            print(&["interrupted: the roll-out goes on; see `relayer-rest fleet status`"])?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// Prints the phases of a roll-out until it ends.
async fn wait(operator: &Operator, mount: &str, id: u64) -> Result<CommandOutcome, Failure> {
    let mut shown = None;
    let mut failures = 0;
    loop {
        let (_, plan) = match operator.plan().await {
            Ok(plan) => plan,
            // The roll-out goes on while NATS is restarted.
            Err(error) if failures == MAX_FAILURES => return Err(error.into()),
            Err(_) => {
                failures += 1;
                sleep(INTERVAL).await;
                continue;
            }
        };
        failures = 0;
        let rollout = plan.mount(mount).map(|mount| &mount.rollout);
        let Some(rollout) = rollout.filter(|rollout| rollout.id == id) else {
            return Err(format!("mount {mount}: another roll-out has begun").into());
        };
        let line = phase(rollout);
        if shown.as_ref() != Some(&line) {
            print(&[&line])?;
            shown = Some(line);
        }
        match rollout {
            Rollout { phase: Phase::Completed, .. } => return Ok(CommandOutcome::Done),
            Rollout { phase: Phase::RolledBack { .. }, .. } => {
                return Ok(CommandOutcome::Rejected);
            }
            _ => sleep(INTERVAL).await,
        }
    }
}
