//! `relayer-rest module`: a component that comes with the command, as a file.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, Ran, print};
use crate::conformance::Dialect;
use crate::module::Digest;

#[derive(Args)]
pub(super) struct ModuleArgs {
    /// The file to write.
    file: PathBuf,
    /// The dialect that the module speaks: 0.7 or 1.13.
    #[arg(long, value_name = "NAME", default_value = "0.7")]
    dialect: Dialect,
}

pub(super) fn run(args: &ModuleArgs) -> Result<Ran, Failure> {
    if args.dialect == Dialect::Any {
        return Err("--dialect: a module speaks 0.7 or 1.13; choose one of the two".into());
    }
    let component = args.dialect.component();
    fs::write(&args.file, component).map_err(|error| {
        let file = args.file.display();
        format!("{file}: cannot be written: {error}; check the path and its permissions")
    })?;
    print(&format!("{}  {}", Digest::of(component), args.file.display()));
    Ok(Ran::Done)
}
