//! `relayer-rest config`: checks and prints settings, without a server.

use std::path::PathBuf;

use clap::Subcommand;
use relayer_rest_server::config::{Config, DEFAULT};
use relayer_rest_server::reload::MountSpec;

use super::compile;
use super::{CommandOutcome, Failure, print, print_text};

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a file, and the modules and tokens that it names
    Check {
        /// File to check
        file: PathBuf,
    },
    /// Print a file with all settings, their meanings and defaults
    Default,
}

pub(super) fn run(command: &ConfigCommand) -> Result<CommandOutcome, Failure> {
    match command {
        ConfigCommand::Default => print_text(DEFAULT.trim_end())?,
        ConfigCommand::Check { file } => return check(&Config::read(file)?),
    }
    Ok(CommandOutcome::Done)
}

/// Loads all modules and the tokens, and prints the problem of each that cannot be loaded.
fn check(config: &Config) -> Result<CommandOutcome, Failure> {
    let mut ran = CommandOutcome::Done;
    let mut lines = Vec::new();
    // All of them stay in memory, as in a server.
    let mut loaded = Vec::new();
    for spec in MountSpec::all(config, None, None, None) {
        let result = compile::load(&spec);
        let path = &spec.path;
        let file = spec.name_of_file();
        lines.push(match result {
            Ok(module) => {
                let digest = module.digest().short();
                loaded.push(module);
                format!("ok      {path}  {}@{digest}  {file}", spec.name)
            }
            Err(error) => {
                ran = CommandOutcome::Rejected;
                format!("FAILED  {path}  {error}")
            }
        });
    }
    if let Err(error) = config.commands.read_tokens() {
        ran = CommandOutcome::Rejected;
        lines.push(format!("FAILED  {error}"));
    }
    print(&lines)?;
    Ok(ran)
}
