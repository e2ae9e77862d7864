//! `relayer-rest man`: writes the manual pages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use super::{CommandOutcome, Failure, NAME, command, print, print_text};

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for the pages of all commands; without it, the first page is printed
    folder: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> Result<CommandOutcome, Failure> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command()).render(&mut page)?;
        print_text(String::from_utf8(page)?.trim_end())?;
        return Ok(CommandOutcome::Done);
    };
    let unwritable = |error| {
        format!("manual pages {}: {error}; choose a folder that you can write to", folder.display())
    };
    fs::create_dir_all(folder).map_err(unwritable)?;
    clap_mangen::generate_to(command(), folder).map_err(unwritable)?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).map_err(unwritable)? {
        let name = entry.map_err(unwritable)?.file_name();
        if name.to_string_lossy().starts_with(NAME) {
            pages.push(folder.join(name).display().to_string());
        }
    }
    pages.sort_unstable();
    print(&pages)?;
    Ok(CommandOutcome::Done)
}
