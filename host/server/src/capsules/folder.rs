//! The folder with the newest capsules.
//!
//! The names of the files begin with the time, so that their order is that of their age.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use relayer_rest_modules::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, MODULE_1_13};
use relayer_rest_sandbox::{Digest, Module};

use super::settings::CapsulesConfig;

/// The end of the name of each capsule.
const SUFFIX: &str = ".capsule.json";

/// The name of the file that is being written. A process that is killed leaves it behind, and
/// the next one replaces it.
const UNFINISHED: &str = "unfinished.tmp";

/// The permissions of files and of a new folder: requests are for the user of the server only.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder with a bounded number of capsules.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    max_count: usize,
    max_size: ByteSize,
    /// The names and the sizes of the files, the oldest first.
    files: VecDeque<(String, u64)>,
    /// The number of the next file, so that no two have the same name.
    next: u64,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing.
    pub(super) fn open(path: &Path, config: &CapsulesConfig) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && name.ends_with(SUFFIX)
            {
                files.push((name, entry.metadata()?.len()));
            }
        }
        files.sort();
        let max_count = usize::try_from(config.count).unwrap_or(usize::MAX);
        let path = path.to_owned();
        let mut folder =
            Self { path, max_count, max_size: config.size, files: files.into(), next: 0 };
        // The folder must be writable from the start.
        drop(folder.create()?);
        fs::remove_file(folder.path.join(UNFINISHED))?;
        folder.remove_oldest();
        Ok(folder)
    }

    /// Writes the capsule of a request, whose id has only letters, digits and `-_.:`.
    pub(super) fn write(&mut self, id: &str, time: SystemTime, json: &[u8]) -> io::Result<()> {
        let size = ByteSize::b(json.len() as u64);
        if size > self.max_size {
            return Err(io::Error::other(format!(
                "the capsule has {size}; the maximum is {} (capsules.size)",
                self.max_size
            )));
        }
        let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let name = format!("{millis:014}-{:06}-{id}{SUFFIX}", self.next % 1_000_000);
        self.next += 1;
        let mut file = self.create()?;
        file.write_all(json)?;
        drop(file);
        fs::rename(self.path.join(UNFINISHED), self.path.join(&name))?;
        self.files.push_back((name, size.as_u64()));
        self.remove_oldest();
        Ok(())
    }

    /// Writes the component of a module, `SHA256.wasm`, unless it is there or bundled. It stays
    /// when its capsules are removed: the next ones need it again.
    pub(super) fn write_component(&mut self, module: &Module) -> io::Result<()> {
        let Some(component) = module.component() else { return Ok(()) };
        let name = format!("{}.wasm", module.digest());
        let path = self.path.join(name);
        if is_bundled(module.digest()) || path.exists() {
            return Ok(());
        }
        let mut file = self.create()?;
        file.write_all(component)?;
        drop(file);
        fs::rename(self.path.join(UNFINISHED), path)
    }

    fn create(&self) -> io::Result<fs::File> {
        let file = self.path.join(UNFINISHED);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file)
    }

    /// Removes the oldest capsules until the others are within the bounds.
    fn remove_oldest(&mut self) {
        let mut size: u64 = self.files.iter().map(|(_, size)| size).sum();
        while self.files.len() > self.max_count || size > self.max_size.as_u64() {
            let Some((name, oldest)) = self.files.pop_front() else { return };
            size -= oldest;
            // It may have been removed by someone else.
            fs::remove_file(self.path.join(name)).ok();
        }
    }
}

/// Returns whether the command has a module, so that a replay needs no file.
fn is_bundled(digest: Digest) -> bool {
    static BUNDLED: LazyLock<Vec<Digest>> = LazyLock::new(|| {
        let extensions = BUNDLED_EXTENSIONS.iter().map(|bundled| bundled.component);
        [DEFAULT_MODULE, MODULE_1_13].into_iter().chain(extensions).map(Digest::new).collect()
    });
    BUNDLED.contains(&digest)
}

#[cfg(test)]
mod tests {
    use super::{CapsulesConfig, FILE_MODE, Folder};
    use bytesize::ByteSize;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::{Duration, UNIX_EPOCH};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_capsules_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let config =
            CapsulesConfig { count: 2, size: ByteSize::b(10), ..CapsulesConfig::default() };
        let mut folder = Folder::open(&path, &config).unwrap();
        let mut write = |id: &str, second, json: &[u8]| {
            folder.write(id, UNIX_EPOCH + Duration::from_secs(second), json)
        };
        for (second, id) in [(1, "a"), (2, "b"), (3, "c")] {
            write(id, second, b"1234").unwrap();
        }
        let ids = || -> Vec<_> {
            let id = |name: &String| name.rsplit('-').next().unwrap()[..1].to_owned();
            names(&path).iter().map(id).collect()
        };
        assert_eq!(ids(), ["b", "c"]);
        write("d", 4, b"1234567").unwrap();
        assert_eq!(ids(), ["d"]);
        let error = write("e", 5, b"12345678901").unwrap_err().to_string();
        assert_eq!(error, "the capsule has 11 B; the maximum is 10 B (capsules.size)");
        let mode = fs::metadata(path.join(&names(&path)[0])).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
        fs::write(path.join("0.capsule.json"), "1").unwrap();
        fs::write(path.join("other"), "1234567890").unwrap();
        Folder::open(&path, &CapsulesConfig { count: 1, ..config }).unwrap();
        assert_eq!(names(&path).len(), 2);
        assert!(names(&path)[0].ends_with("-d.capsule.json"));
    }
}
