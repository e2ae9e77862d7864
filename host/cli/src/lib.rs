//! The command line: one file per command, and their helpers.
//!
//! | file | job |
//! |---|---|
//! | `serve.rs`, `serve_error.rs` | `serve`: from the options to a running server, and the reasons why it cannot start |
//! | `publish.rs`, `fleet.rs` | `publish`: the state of a relayer for a fleet, and the connection to the fleet |
//! | `fleet_command.rs`, `fleet_command/` | `fleet`: roll-outs of modules to the hosts of a fleet |
//! | `takeover.rs` | `serve --takeover`: the sockets and the hot requests of a running server |
//! | `explain.rs` | `explain`: the values that a response was derived from |
//! | `swap.rs`, `swap/`, `status.rs`, `rollback.rs`, `reload.rs` | `swap`, `status`, `rollback`, `reload`: requests to a running server |
//! | `top.rs`, `top/` | `top`: a live view of a running server |
//! | `watch.rs`, `watch/` | `watch`: the changes of a response |
//! | `replay.rs` | `replay`: repeats the run of a capsule |
//! | `capsule.rs` | `capsule`: writes the capsule of a recent request |
//! | `capsules.rs` | capsules as these commands use them: files, modules and runs |
//! | `check.rs`, `config.rs`, `doctor.rs`, `new.rs`, `module.rs` | the commands without a server |
//! | `pull.rs`, `push.rs`, `inspect.rs`, `registries.rs` | modules in OCI registries, and the settings for them |
//! | `completions.rs`, `man.rs`, `version.rs` | for packages: completions, manual pages and the version |
//! | `dev.rs`, `dev/` | `dev`: serves a module in development |
//! | `exercise.rs`, `exercise/` | the routes of a module and the requests of its author, for `check` and `dev` |
//! | `grant_args.rs` | the option that grants response headers, for `check` and `dev` |
//! | `compile.rs` | `compile`: the process that compiles a module |
//! | `project.rs`, `project/` | the project of a module |
//! | `settings.rs` | the options that override settings |
//! | `mounts.rs` | the mounts of the settings, loaded without a server |
//! | `code_cache.rs`, `control.rs`, `sockets.rs`, `sources.rs`, `poll.rs` | the code cache, the control socket, all sockets and the sources of the settings |
//! | `access_log.rs`, `access_log/` | the access log |
//! | `otlp.rs`, `otlp/` | traces and metrics for an OpenTelemetry collector |
//! | `progress.rs` | the progress of long steps |
//! | `log.rs`, `signals.rs`, `service_manager.rs`, `descriptors.rs`, `allocator.rs`, `huge_pages.rs`, `idle_memory.rs` | the process: its log, signals, service manager, open files and memory |

mod access_log;
mod allocator;
mod capsule;
mod capsules;
mod check;
mod code_cache;
mod compile;
mod completions;
mod config;
mod control;
mod descriptors;
mod dev;
mod doctor;
mod exercise;
mod explain;
mod fleet;
mod fleet_command;
mod grant_args;
mod huge_pages;
mod idle_memory;
mod inspect;
mod log;
mod man;
mod module;
mod mounts;
mod new;
mod otlp;
mod poll;
mod progress;
mod project;
mod publish;
mod pull;
mod push;
mod registries;
mod reload;
mod replay;
mod rollback;
mod serve;
mod serve_error;
mod service_manager;
mod settings;
mod signals;
mod sockets;
mod sources;
mod status;
mod swap;
mod takeover;
mod top;
mod version;
mod watch;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::{CommandFactory, Parser, Subcommand};
use relayer_rest_common::text::escape_control;
use relayer_rest_common::threads;
use relayer_rest_server::config::LogConfig;
use serde::Serialize;

use capsule::CapsuleArgs;
use check::CheckArgs;
use compile::CompileArgs;
use completions::CompletionsArgs;
use config::ConfigCommand;
use dev::DevArgs;
use doctor::DoctorArgs;
use explain::ExplainArgs;
use fleet_command::FleetCommand;
use inspect::InspectArgs;
use man::ManArgs;
use module::ModuleArgs;
use new::NewArgs;
use publish::PublishArgs;
use pull::PullArgs;
use push::PushArgs;
use reload::ReloadArgs;
use replay::ReplayArgs;
use rollback::RollbackArgs;
use serve::ServeArgs;
use serve_error::ServeError;
use status::StatusArgs;
use swap::SwapArgs;
use top::TopArgs;
use watch::WatchArgs;

/// The number of threads that accept connections to Unix sockets and passed ones, serve the
/// control socket, and watch files: one can do blocking work.
const RUNTIME_THREADS: usize = 2;

/// The number of threads besides those of a runtime and of the server: log, blocking work, engine,
/// files, upstream.
const FURTHER_THREADS: usize = 5;

/// The name of the command.
const NAME: &str = "relayer-rest";

/// Serve a relayer's REST API from a sandboxed WebAssembly module
#[derive(Parser)]
#[command(
    name = NAME,
    version,
    long_version = version::LONG.as_str(),
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default command)
    Serve(Box<ServeArgs>),
    /// Swap the module of a running server
    Swap(SwapArgs),
    /// Publish the state of a relayer to a fleet of servers
    Publish(Box<PublishArgs>),
    /// Deploy modules to the hosts of a fleet, in stages
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Show the sources, modules and connections of a running server
    Status(StatusArgs),
    /// Show the requests of a running server, live
    Top(TopArgs),
    /// Print the changes of a response of any server, as lines of JSON
    Watch(WatchArgs),
    /// Explain on which values a response depends, and why it is or is not cached
    Explain(ExplainArgs),
    /// Roll back to the previous module
    Rollback(RollbackArgs),
    /// Reload the settings and files of a running server
    Reload(ReloadArgs),
    /// Check settings, or print the defaults
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check whether a server with these options would work well on this machine
    Doctor(Box<DoctorArgs>),
    /// Check a module without a server
    Check(CheckArgs),
    /// Write the capsule of a recent request of a running server
    Capsule(CapsuleArgs),
    /// Repeat a failed request from its capsule
    Replay(ReplayArgs),
    /// Serve a module in development: rebuild, check and swap it after each change
    Dev(DevArgs),
    /// Create a folder with the source of a new module
    New(NewArgs),
    /// Write the bundled module to a file
    Module(ModuleArgs),
    /// Pull a module from an OCI registry to a file
    Pull(PullArgs),
    /// Push a module to an OCI registry
    Push(PushArgs),
    /// Describe a module in an OCI registry or in a file
    Inspect(InspectArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Compile a module for the parent process
    #[command(name = compile::NAME, hide = true)]
    Compile(CompileArgs),
}

/// The result of a command that could be run.
enum CommandOutcome {
    Done,
    /// The input was rejected, and the reason was printed.
    Rejected,
}

/// The reason why a command could not be run.
type Failure = Box<dyn Error>;

/// Runs the command line. The exit status is 0 on success, 1 if a module or a reload is
/// refused, 2 if the command cannot be run, and 3 if the relayer's configuration has the
/// API switched off.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = cli.ensure_threads() {
        return cannot(&Failure::from(format!(
            "cannot start: no thread can be created: {error}; raise the limit of processes (ulimit -u, or pids.max of its control group)"
        )));
    }
    let result = match &cli.command {
        None => serve::run(&cli.serve),
        Some(command) => command.run(),
    };
    match result {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Rejected) => ExitCode::from(1),
        Err(failure) => cannot(&failure),
    }
}

impl Command {
    /// Runs a command, with the default log but for `serve`.
    fn run(&self) -> Result<CommandOutcome, Failure> {
        // The last message comes after all log lines.
        let _log = match self {
            // It starts with the settings.
            Self::Serve(_) | Self::Publish(_) => None,
            Self::Dev(_) => Some(log::start(&dev::log_config())?),
            Self::Fleet(_) => Some(log::start(&fleet_command::log_config())?),
            _ => Some(log::start(&LogConfig::default())?),
        };
        match self {
            Self::Serve(args) => serve::run(args),
            Self::Swap(args) => swap::run(args),
            Self::Publish(args) => publish::run(args),
            Self::Fleet(command) => fleet_command::run(command),
            Self::Status(args) => status::run(args),
            Self::Top(args) => top::run(args),
            Self::Watch(args) => watch::run(args),
            Self::Explain(args) => explain::run(args),
            Self::Rollback(args) => rollback::run(args),
            Self::Reload(args) => reload::run(args),
            Self::Config(command) => config::run(command),
            Self::Doctor(args) => doctor::run(args),
            Self::Check(args) => check::run(args),
            Self::Capsule(args) => capsule::run(args),
            Self::Replay(args) => replay::run(args),
            Self::Dev(args) => dev::run(args),
            Self::New(args) => new::run(args),
            Self::Module(args) => module::run(args),
            Self::Pull(args) => pull::run(args),
            Self::Push(args) => push::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
            Self::Compile(args) => compile::run(args),
        }
    }
}

impl Cli {
    /// Checks that the threads can be created which are needed from the start: for the
    /// log, for a runtime with its workers, for engines and for files.
    fn ensure_threads(&self) -> io::Result<()> {
        let count = match self.command {
            None | Some(Command::Serve(_) | Command::Dev(_)) => server_threads(),
            _ => FURTHER_THREADS,
        };
        threads::ensure(count)
    }
}

/// Prints the reason why a command could not be run, and returns the exit status.
fn cannot(failure: &Failure) -> ExitCode {
    // The message is one line, even if a file's name or keys have line breaks. If stderr
    // is closed, the status must suffice.
    let message = escape_control(&failure.to_string());
    drop(writeln!(io::stderr(), "relayer-rest: {message}"));
    let of_serve = failure.downcast_ref::<ServeError>();
    ExitCode::from(of_serve.map_or(2, ServeError::status))
}

/// Returns the number of threads that a server needs at its start.
fn server_threads() -> usize {
    available_parallelism().map_or(1, usize::from) + RUNTIME_THREADS + FURTHER_THREADS
}

/// Returns the commands and options.
fn command() -> clap::Command {
    Cli::command()
}

/// Returns a path from the environment, if the variable is set and not empty.
fn path_from_env(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Runs a future to completion.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

/// Prints lines, with their control characters escaped.
fn print(lines: &[impl AsRef<str>]) -> io::Result<()> {
    let lines: Vec<_> = lines.iter().map(|line| escape_control(line.as_ref())).collect();
    print_text(&lines.join("\n"))
}

fn print_json(value: &impl Serialize) -> io::Result<()> {
    print_text(&serde_json::to_string_pretty(value).expect("its keys are texts"))
}

/// Prints text. A closed stdout is not an error; any other failure to write is.
fn print_text(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(io::Error::new(
            error.kind(),
            format!("stdout: {error}; free some space, or redirect the output"),
        )),
        _ => Ok(()),
    }
}
