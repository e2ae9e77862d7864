//! `relayer-rest module`: writes a bundled component to a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::Digest;

use super::{CommandOutcome, Failure, print};

#[derive(Args)]
pub(super) struct ModuleArgs {
    /// File to write
    file: PathBuf,
    /// Dialect of the API: 0.7 or 1.13
    #[arg(long, value_name = "NAME", default_value = "0.7")]
    dialect: Dialect,
}

pub(super) fn run(args: &ModuleArgs) -> Result<CommandOutcome, Failure> {
    if args.dialect == Dialect::Any {
        return Err("--dialect: no module is bundled for any; choose 0.7 or 1.13".into());
    }
    let component = args.dialect.component();
    write_new(&args.file, component)?;
    print(&[format!("{}  {}", Digest::new(component), args.file.display())])?;
    Ok(CommandOutcome::Done)
}

/// Writes a component to a file that does not exist yet.
pub(super) fn write_new(path: &Path, component: &[u8]) -> Result<(), String> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(component));
    written.map_err(|error| {
        let file = path.display();
        if error.kind() == io::ErrorKind::AlreadyExists {
            return format!("{file}: already exists; choose another name, or remove it");
        }
        format!("{file}: cannot be written: {error}; check the path and its permissions")
    })
}
