//! `relayer-rest completions`: prints the completions of a shell.

use clap::Args;
use clap_complete::{Shell, generate};

use super::{CommandOutcome, Failure, command, print_text};

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<CommandOutcome, Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut command(), super::NAME, &mut script);
    let script = String::from_utf8(script)?;
    // For bash, clap_complete 4.6.11 takes the hyphen in the name for that of a subcommand.
    let script = script.replace("relayer__subcmd__rest", "relayer__rest");
    print_text(script.trim_end())?;
    Ok(CommandOutcome::Done)
}
