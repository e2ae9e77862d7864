//! `relayer-rest compile`: compiles a module in a process that can be stopped. Other
//! commands start it; it is not for people.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use clap::Args;
use relayer_rest_sandbox as module;
use relayer_rest_sandbox::Compiler;

use super::{CommandOutcome, Failure, allocator};

/// The name of the command.
pub(super) const NAME: &str = "compile";

/// The executable of this process, even if its file was replaced.
const RUNNING: &str = "/proc/self/exe";

#[derive(Args)]
pub(super) struct CompileArgs {
    /// The maximum amount of memory, in bytes.
    memory: u64,
    /// The address space that each memory of an instance reserves, in bytes.
    reservation: u64,
}

pub(super) fn run(args: &CompileArgs) -> Result<CommandOutcome, Failure> {
    let CompileArgs { memory, reservation } = *args;
    let memory = ByteSize::b(memory);
    let is_compiled = module::compile(io::stdin(), io::stdout(), memory, reservation)?;
    Ok(if is_compiled { CommandOutcome::Done } else { CommandOutcome::Rejected })
}

/// Returns the compiler of untrusted modules: this program. If its file is not known,
/// starting the compiler fails with that reason.
pub(super) fn compiler() -> Compiler {
    let running = PathBuf::from(RUNNING);
    let program = if Path::new(RUNNING).exists() { None } else { env::current_exe().ok() };
    Compiler::new(program.unwrap_or(running), vec![NAME.into()]).with_env(allocator::BOUNDED)
}
