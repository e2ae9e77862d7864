//! `relayer-rest capsule`: writes the capsule of a recent request.

use std::io;

use clap::Args;

use super::control::ControlArgs;
use super::{CommandOutcome, Failure, block_on, print_text};

#[derive(Args)]
pub(super) struct CapsuleArgs {
    /// Id of the request, the value of `x-request-id` in its response
    id: String,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &CapsuleArgs) -> Result<CommandOutcome, Failure> {
    let client = args.control.client()?;
    let json = block_on(client.capsule(&args.id))??;
    let json = String::from_utf8(json.into()).map_err(io::Error::other)?;
    print_text(json.trim_end())?;
    Ok(CommandOutcome::Done)
}
