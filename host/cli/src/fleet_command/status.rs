//! `relayer-rest fleet status`: the modules and hosts of a fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use relayer_rest_fleet::{
    Comparison, FleetAddress, FleetStatus, HostReport, MountPlan, MountState, Phase, Rollout,
};

use super::FleetArgs;
use crate::{CommandOutcome, Failure, print, print_json};

/// The time for which the reports of hosts are awaited.
const TIME: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct FleetStatusArgs {
    /// Print the status as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

pub(super) async fn run(args: &FleetStatusArgs) -> Result<CommandOutcome, Failure> {
    let (operator, address) = args.fleet.connect().await?;
    let status = operator.status(TIME).await?;
    if args.json {
        print_json(&status)?;
    } else {
        print(&lines(&address, &status))?;
    }
    Ok(CommandOutcome::Done)
}

fn lines(address: &FleetAddress, status: &FleetStatus) -> Vec<String> {
    let FleetStatus { plan, hosts, .. } = status;
    let mut lines = vec![format!("fleet {address}: {} hosts", hosts.len())];
    for plan in &plan.mounts {
        let module = plan.module.as_deref().unwrap_or("the one of each host's settings");
        lines.push(format!("mount {}: module {module}", plan.mount));
        lines.push(format!("  roll-out {} of {}", plan.rollout.id, plan.rollout.new.module));
        lines.push(format!("  {}; {}", phase(&plan.rollout), tally(hosts, plan)));
    }
    let width = hosts.iter().map(|host| host.host.len()).max().unwrap_or(0).max(4);
    lines.push(format!("{:width$}  generation    state      modules", "host"));
    for host in hosts {
        let HostReport { host: name, generation, age, .. } = host;
        let generation = generation.map_or("none".to_owned(), |known| known.to_string());
        let age = age.map_or("confirmed".to_owned(), |age| format!("{age} s old"));
        let modules = plan.mounts.iter().filter_map(|plan| match state(host, plan) {
            State::Reported(MountState::Active { is_new: true, runs, compared }) => {
                let Comparison { requests, expected } = compared;
                Some(format!(
                    "{}: new, {requests} requests compared, {expected} differ as expected; {runs} runs",
                    plan.mount
                ))
            }
            State::Reported(MountState::Deploying { reason: Some(reason) }) => {
                Some(format!("{}: deploying: {reason}", plan.mount))
            }
            State::Reported(MountState::Failed { reason }) => {
                Some(format!("{}: failed: {reason}", plan.mount))
            }
            _ => None,
        });
        let modules = modules.collect::<Vec<_>>().join("; ");
        let line = format!("{name:width$}  {generation:12}  {age:9}  {modules}");
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Returns the number of hosts in each state, as a text.
fn tally(hosts: &[HostReport], plan: &MountPlan) -> String {
    let mut counts = BTreeMap::new();
    for host in hosts {
        let name = match state(host, plan) {
            State::Behind => "without this plan",
            State::Reported(MountState::Active { is_new: true, .. }) => "with the new module",
            State::Reported(MountState::Active { is_new: false, .. }) => "outside of the roll-out",
            State::Reported(MountState::Deploying { .. }) => "deploying",
            State::Reported(MountState::Failed { .. }) => "failed",
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    counts.join(", ")
}

/// The state of a host in the last roll-out of a mount.
enum State<'a> {
    /// It has not got the plan yet.
    Behind,
    Reported(&'a MountState),
}

fn state<'a>(host: &'a HostReport, plan: &MountPlan) -> State<'a> {
    let report = host.mounts.iter().find(|report| report.mount == plan.mount);
    let report = report.filter(|report| report.rollout == plan.rollout.id);
    report.map_or(State::Behind, |report| State::Reported(&report.state))
}

/// Returns the phase of a roll-out as a text.
pub(super) fn phase(rollout: &Rollout) -> String {
    let stages = rollout.new.stages.as_slice();
    let paused = if rollout.is_paused { ", paused" } else { "" };
    match &rollout.phase {
        Phase::Counting => format!("counting the hosts{paused}"),
        Phase::Stage { stage, .. } => {
            let hosts = stages.get(*stage).map(ToString::to_string).unwrap_or_default();
            format!("stage {} of {} ({hosts}){paused}", stage + 1, stages.len())
        }
        Phase::Completed => "completed".to_owned(),
        Phase::RolledBack { host: Some(host), reason } => {
            format!("rolled back, because of host {host}: {reason}")
        }
        Phase::RolledBack { host: None, reason } => format!("rolled back: {reason}"),
    }
}
