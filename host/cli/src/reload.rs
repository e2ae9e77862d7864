//! `relayer-rest reload`: makes a running server read its settings again.

use clap::Args;
use relayer_rest_server::control::ControlClientError;
use relayer_rest_server::reload::Reloaded;

use super::control::ControlArgs;
use super::{CommandOutcome, Failure, block_on, print, print_json};

#[derive(Args)]
pub(super) struct ReloadArgs {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &ReloadArgs) -> Result<CommandOutcome, Failure> {
    let client = args.control.client()?;
    match block_on(client.reload())? {
        Ok(reloaded) => {
            if args.json {
                print_json(&reloaded)?;
            } else {
                print(&text(&reloaded))?;
            }
            if !reloaded.failures.is_empty() {
                return Ok(CommandOutcome::Rejected);
            }
        }
        Err(ControlClientError::Refused(reason)) => {
            print(&[format!("rejected, nothing has changed: {reason}")])?;
            return Ok(CommandOutcome::Rejected);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandOutcome::Done)
}

fn text(reloaded: &Reloaded) -> Vec<String> {
    let Reloaded { kept, replaced, added, removed, failures, notes } = reloaded;
    let parts =
        [("unchanged", kept), ("replaced", replaced), ("added", added), ("removed", removed)];
    let parts = parts.iter().filter(|(_, mounts)| !mounts.is_empty());
    let mounts = parts.map(|(what, mounts)| format!("{what:<9}  {}", mounts.join(", ")));
    let failures = failures.iter().map(|failure| format!("rejected: {failure}"));
    mounts.chain(failures).chain(notes.iter().cloned()).collect()
}
