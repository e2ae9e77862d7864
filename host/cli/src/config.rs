//! `relayer-rest config`: checks and prints settings, without a server.

use std::path::PathBuf;

use clap::Subcommand;
use relayer_rest_sandbox::Module;
use relayer_rest_server::config::{Config, DEFAULT};
use relayer_rest_server::reload::MountSpec;

use super::compile;
use super::{Failure, Ran, block_on, print, print_text};

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a file, and load the modules that it names
    Check {
        /// File to check
        file: PathBuf,
    },
    /// Print a file with all settings, their meanings and defaults
    Default,
}

pub(super) fn run(command: &ConfigCommand) -> Result<Ran, Failure> {
    match command {
        ConfigCommand::Default => print_text(DEFAULT.trim_end())?,
        ConfigCommand::Check { file } => return check(&Config::read(file)?),
    }
    Ok(Ran::Done)
}

/// Loads all modules, and prints the problem of each that cannot be loaded.
fn check(config: &Config) -> Result<Ran, Failure> {
    let mut ran = Ran::Done;
    let mut lines = Vec::new();
    // All of them stay in memory, as in a server.
    let mut loaded = Vec::new();
    for wanted in MountSpec::all(config, None, None) {
        let found = load(&wanted);
        let path = &wanted.path;
        let file = wanted.name_of_file();
        lines.push(match found {
            Ok(module) => {
                let digest = module.digest().short();
                loaded.push(module);
                format!("ok      {path}  {}@{digest}  {file}", wanted.name)
            }
            Err(error) => {
                ran = Ran::Refused;
                format!("FAILED  {path}  {error}")
            }
        });
    }
    print(&lines)?;
    Ok(ran)
}

fn load(wanted: &MountSpec) -> Result<Module, Failure> {
    let bytes = wanted.read()?;
    let engine = wanted.engine(None, Some(compile::compiler()))?;
    Ok(block_on(wanted.load(&engine, &bytes))??)
}
