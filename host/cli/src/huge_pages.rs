//! Huge pages, which the system may give to all programs.
//!
//! A guest with a large memory runs faster with pages of 64 KiB, as it has fewer page faults
//! (`docs/operations.md`). With pages of 2 MiB, a slot of the engine's pool takes as much, which the
//! system clears for each guest.

use std::fs;
use std::io;
use std::path::Path;

use tracing::{debug, info};

use super::allocator;

/// The settings of the system.
const SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";

/// The maximum size of the pages that the process uses, in KiB. The memory that a slot keeps (320
/// KiB) is a multiple of it.
const MAX_SIZE: u32 = 64;

/// Lets the system give the process small pages only, unless the operator has chosen a size that it
/// uses.
pub(super) fn restrict() {
    if allocator::REFUSES_HUGE_PAGES && are_usable(Path::new(SETTINGS)).unwrap_or(false) {
        info!("guests have huge pages");
        return;
    }
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        debug!(%error, "cannot disable huge pages");
    }
}

/// Returns whether the system gives huge pages to all programs, none of them larger than
/// [`MAX_SIZE`]. If their default is `never`, the allocator does not refuse them for its memory
/// (`allocator.rs`), so they are not usable.
fn are_usable(settings: &Path) -> io::Result<bool> {
    let default = chosen(&settings.join("enabled"))?;
    let mut usable = false;
    for entry in fs::read_dir(settings)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(size) = name.to_str().and_then(size) else { continue };
        let own = match chosen(&entry.path().join("enabled")) {
            // Shared memory can have pages of sizes that others cannot have.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            own => own?,
        };
        let is_given = match own.as_str() {
            "inherit" => default == "always",
            own => own == "always",
        };
        if is_given && size > MAX_SIZE {
            return Ok(false);
        }
        usable |= is_given;
    }
    Ok(usable && default != "never")
}

/// Returns the size in KiB of the pages that a folder has settings of.
fn size(folder: &str) -> Option<u32> {
    folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()
}

/// Returns the chosen value of a setting, which is in brackets.
fn chosen(file: &Path) -> io::Result<String> {
    let values = fs::read_to_string(file)?;
    let chosen = values.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or("", |(chosen, _)| chosen).to_owned())
}

#[cfg(test)]
mod tests {
    use super::are_usable;
    use std::fs;

    /// Returns whether the huge pages of a system with these settings are usable.
    fn usable(default: &str, sizes: &[(&str, &str)]) -> Option<bool> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("enabled"), default).unwrap();
        fs::write(folder.path().join("defrag"), "always [madvise] never\n").unwrap();
        fs::create_dir(folder.path().join("hugepages-8kB")).unwrap();
        for (size, value) in sizes {
            let size = folder.path().join(format!("hugepages-{size}kB"));
            fs::create_dir(&size).unwrap();
            fs::write(size.join("enabled"), value).unwrap();
        }
        are_usable(folder.path()).ok()
    }

    #[test]
    fn only_chosen_pages_of_up_to_64_kib_are_usable() {
        let always = "[always] inherit madvise never\n";
        let never = "always inherit madvise [never]\n";
        let inherit = "always [inherit] madvise never\n";
        let on_advice = "always [madvise] never\n";
        let for_all = "[always] madvise never\n";
        assert_eq!(usable(on_advice, &[("64", always), ("2048", inherit)]), Some(true));
        assert_eq!(usable(for_all, &[("64", inherit), ("2048", never)]), Some(true));
        assert_eq!(usable(for_all, &[("64", always), ("2048", inherit)]), Some(false));
        assert_eq!(usable(on_advice, &[("64", always), ("128", always)]), Some(false));
        assert_eq!(usable(on_advice, &[("64", never), ("2048", inherit)]), Some(false));
        assert_eq!(usable("always madvise [never]\n", &[("64", always)]), Some(false));
        // Systems before Linux 6.8 have one size.
        assert_eq!(usable(for_all, &[]), Some(false));
        assert_eq!(usable("no brackets", &[("64", inherit)]), Some(false));
    }

    #[test]
    fn a_system_without_settings_has_no_usable_pages() {
        assert!(are_usable(std::path::Path::new("/nonexistent")).is_err());
    }
}
