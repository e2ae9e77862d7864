//! `relayer-rest config`: checks and prints settings, without a server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use relayer_rest_server::Listener;
use relayer_rest_server::config::{Config, DEFAULT, Origin, Setting};
use relayer_rest_server::control::EffectiveConfig;
use relayer_rest_server::reload::MountSpec;
use relayer_rest_server::tokens::Tokens;
use relayer_rest_sources::hermes_config::{HermesConfig, Rest};

use super::mounts::{self, CheckedMount};
use super::settings::SettingArgs;
use super::sources::derive;
use super::{CommandOutcome, Failure, code_cache, print, print_json, print_text};

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Check a file, and the modules, tokens and certificates that it names
    Check {
        /// File to check
        file: PathBuf,
    },
    /// Print a file with all settings, their meanings and defaults
    Default,
    /// Print the settings of a server with these options, and the origin of each
    Show(Box<ShowArgs>),
}

#[derive(Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print the defaults, too
    #[arg(long)]
    effective: bool,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &ConfigCommand) -> Result<CommandOutcome, Failure> {
    match command {
        ConfigCommand::Default => print_text(DEFAULT.trim_end())?,
        ConfigCommand::Show(args) => show(args)?,
        ConfigCommand::Check { file } => return check(&Config::read(file)?),
    }
    Ok(CommandOutcome::Done)
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let mut settings = args.settings.layers()?.read()?;
    let relayer = settings.config.relayer.config.as_deref().map(HermesConfig::read).transpose()?;
    let telemetry_url = relayer.as_ref().and_then(|relayer| relayer.telemetry.url());
    let rest = relayer.map_or_else(Rest::default, |relayer| relayer.rest);
    derive(&mut settings, &rest, telemetry_url.as_deref());
    let mut settings = settings.list();
    settings.retain(|setting| args.effective || setting.origin != Origin::Default);
    if args.json {
        print_json(&EffectiveConfig { settings })?;
    } else {
        print(&lines(&settings))?;
    }
    Ok(())
}

/// Returns the lines of a file with these settings. Comments name their origins.
fn lines(settings: &[Setting]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut previous = None;
    for setting in settings {
        let (section, name) = setting.section();
        if section != previous {
            let Some(section) = section else { continue };
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(match section.split_once(['[', ']']) {
                None => format!("[{section}]"),
                Some((list, rest)) => match rest.split_once("].") {
                    None => format!("[[{list}]]"),
                    Some((_, inner)) => format!("[{list}.{inner}]"),
                },
            });
            previous = Some(section);
        }
        let origin = &setting.origin;
        lines.push(match setting.toml() {
            Some(value) => format!("{name} = {value}  # {origin}"),
            None => format!("# {name} is not set  # {origin}"),
        });
    }
    lines
}

/// Checks all modules as a server does at its start, and the tokens, and prints the problem of
/// each that is rejected.
fn check(config: &Config) -> Result<CommandOutcome, Failure> {
    let mut ran = CommandOutcome::Done;
    let mut lines = Vec::new();
    let code_cache = code_cache::open(&config.code_cache).unwrap_or_else(|error| {
        ran = CommandOutcome::Rejected;
        lines.push(format!("FAILED  {error}"));
        None
    });
    for CheckedMount { spec, result, .. } in &mounts::check(config, code_cache.as_ref()) {
        let MountSpec { path, name, .. } = spec;
        lines.push(match result {
            Ok(digest) => {
                format!("ok      {path}  {name}@{}  {}", digest.short(), spec.name_of_file())
            }
            Err(error) => {
                ran = CommandOutcome::Rejected;
                format!("FAILED  {path}  {error}")
            }
        });
    }
    for problem in file_problems(config) {
        ran = CommandOutcome::Rejected;
        lines.push(format!("FAILED  {problem}"));
    }
    print(&lines)?;
    Ok(ran)
}

/// Returns the problems of the files of tokens and of TLS.
fn file_problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    problems.extend(config.commands.read_tokens().err().map(|error| error.to_string()));
    if let Some(Err(error)) = config.admin.token_file.as_deref().map(Tokens::read) {
        problems.push(format!("admin.token-file: {error}"));
    }
    for listen in &config.listen.0 {
        if let Err(error) = Listener::check_files(listen) {
            problems.push(format!("listen {}: tls: {error}", listen.address));
        }
    }
    problems
}
