//! The command line: one file a command.

mod address;
mod log;
mod reload;
mod serve;
mod signals;
mod sources;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use serve::ServeArgs;

/// Serves a relayer's REST API from a sandboxed WebAssembly module.
#[derive(Parser)]
#[command(name = "relayer-rest", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API. This is what is done without a subcommand.
    Serve(ServeArgs),
}

/// Does what the command line says. The status is 0 where it is done, 2 where
/// it cannot be, and 3 where the relayer's file has the API switched off.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    log::start();
    let result = match cli.command {
        None => serve::run(&cli.serve),
        Some(Command::Serve(args)) => serve::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // One line, whatever is in a file's name or keys; and where nobody
            // reads stderr, the status has to do.
            let message = one_line(&failure.to_string());
            drop(writeln!(io::stderr(), "relayer-rest: {message}"));
            ExitCode::from(failure.status())
        }
    }
}

/// The text with its control characters escaped.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}
