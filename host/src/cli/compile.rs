//! `relayer-rest compile`, which `serve` runs for a swap: compiling where it
//! can be stopped. Not for people.

use std::io::{self, Write};
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;

use super::Ran;
use crate::module;

/// What the command is called.
pub(super) const NAME: &str = "compile";

#[derive(Args)]
pub(super) struct CompileArgs {
    /// The folder for what is compiled.
    code_cache: PathBuf,
    /// The most memory, in bytes.
    memory: u64,
    /// What each memory of an instance reserves of the address space, in bytes.
    reservation: u64,
}

pub(super) fn run(args: &CompileArgs) -> Ran {
    let CompileArgs { code_cache, memory, reservation } = args;
    match module::compile(io::stdin(), code_cache, ByteSize::b(*memory), *reservation) {
        Ok(()) => Ran::Done,
        Err(reason) => {
            // Whoever reads it escapes it.
            drop(writeln!(io::stdout(), "{reason}"));
            Ran::Refused
        }
    }
}
