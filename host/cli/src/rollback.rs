//! `relayer-rest rollback`: returns a mount to its previous module.

use clap::Args;

use super::control::ControlArgs;
use super::swap::short;
use super::{CommandOutcome, Failure, block_on, print, print_json};

#[derive(Args)]
pub(super) struct RollbackArgs {
    /// Path of the mount
    #[arg(long, value_name = "PATH", default_value = "/")]
    mount: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &RollbackArgs) -> Result<CommandOutcome, Failure> {
    let client = args.control.client()?;
    let done = block_on(client.rollback(&args.mount))??;
    if args.json {
        print_json(&done)?;
    } else {
        print(&[format!("rolled back: {} -> {}", short(&done.from), short(&done.to))])?;
    }
    Ok(CommandOutcome::Done)
}
