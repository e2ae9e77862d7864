//! The `relayer-rest` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    relayer_rest_cli::run()
}
