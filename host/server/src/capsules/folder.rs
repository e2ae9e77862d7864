//! The folder with the newest capsules.
//!
//! The names of the files begin with the time, so that their order is that of their age, and have
//! the module, whose component stays as long as one of its capsules.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use relayer_rest_modules::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, MODULE_1_13};
use relayer_rest_sandbox::Digest;

use super::settings::CapsulesConfig;

/// The end of the name of each capsule.
const SUFFIX: &str = ".capsule.json";

/// The end of the name of each component, which begins with its digest.
const COMPONENT_SUFFIX: &str = ".wasm";

/// The number of digits of the digest of the module in the name of a capsule.
const DIGITS: usize = 12;

/// The name of the file that is being written. A process that is killed leaves it behind, and
/// the next one replaces it.
const UNFINISHED: &str = "unfinished.tmp";

/// The permissions of files and of a new folder: requests are for the user of the server only.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder with a bounded number of capsules. Another server may use it, too, while it takes over
/// from this one.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    max_count: usize,
    max_size: u64,
    /// The number of the next file, so that no two have the same name.
    next: u64,
}

/// A capsule that is written.
#[derive(Debug)]
pub(super) struct NewCapsule<'a> {
    /// The id of the request, which has only letters, digits and `-_.:`.
    pub(super) id: &'a str,
    pub(super) time: SystemTime,
    pub(super) module: Digest,
    /// The component of the module; `None` if a replay needs no file of it.
    pub(super) component: Option<&'a [u8]>,
    pub(super) json: &'a [u8],
}

/// The files of a folder.
#[derive(Debug, Default)]
struct Files {
    /// The names and the sizes of the capsules, the oldest first.
    capsules: VecDeque<(String, u64)>,
    /// The sizes of the components, by the digests in their names.
    components: BTreeMap<Digest, u64>,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing.
    pub(super) fn open(path: &Path, config: &CapsulesConfig) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let max_count = usize::try_from(config.count).unwrap_or(usize::MAX);
        let path = path.to_owned();
        let folder = Self { path, max_count, max_size: config.size.as_u64(), next: 0 };
        // The folder must be writable from the start.
        drop(folder.create()?);
        fs::remove_file(folder.path.join(UNFINISHED))?;
        folder.remove_oldest()?;
        Ok(folder)
    }

    /// Writes the capsule of a request, with the component of its module unless it is there.
    pub(super) fn write(&mut self, new: &NewCapsule<'_>) -> io::Result<()> {
        let NewCapsule { id, time, module, component, json } = new;
        let size = json.len() + component.map_or(0, <[u8]>::len);
        if size as u64 > self.max_size {
            return Err(io::Error::other(format!(
                "the capsule and its module have {}; the maximum is {} (capsules.size)",
                ByteSize::b(size as u64),
                ByteSize::b(self.max_size)
            )));
        }
        if let Some(component) = component {
            let path = self.path.join(component_name(*module));
            if !path.exists() {
                self.create()?.write_all(component)?;
                fs::rename(self.path.join(UNFINISHED), path)?;
            }
        }
        let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let module = &module.to_string()[..DIGITS];
        let name = format!("{millis:014}-{:06}-{module}-{id}{SUFFIX}", self.next % 1_000_000);
        self.next += 1;
        self.create()?.write_all(json)?;
        fs::rename(self.path.join(UNFINISHED), self.path.join(name))?;
        self.remove_oldest()
    }

    fn create(&self) -> io::Result<fs::File> {
        let file = self.path.join(UNFINISHED);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file)
    }

    /// Removes the oldest capsules until the others and their modules are within the bounds, and the
    /// modules without a capsule.
    fn remove_oldest(&self) -> io::Result<()> {
        let Files { mut capsules, mut components } = Files::list(&self.path)?;
        loop {
            let is_unused = |digest: &Digest, _: &mut u64| {
                let digest = digest.to_string();
                let is_of = |(name, _): &(String, u64)| module_of(name) == &digest[..DIGITS];
                !capsules.iter().any(is_of)
            };
            for (digest, _) in components.extract_if(.., is_unused) {
                // It may have been removed by someone else.
                fs::remove_file(self.path.join(component_name(digest))).ok();
            }
            let sizes = capsules.iter().map(|(_, size)| size).chain(components.values());
            if capsules.len() <= self.max_count && sizes.sum::<u64>() <= self.max_size {
                return Ok(());
            }
            let Some((oldest, _)) = capsules.pop_front() else { return Ok(()) };
            fs::remove_file(self.path.join(oldest)).ok();
        }
    }
}

impl Files {
    fn list(folder: &Path) -> io::Result<Self> {
        let mut capsules = Vec::new();
        let mut components = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // It may have been removed by someone else.
            let (Ok(name), Ok(meta)) = (entry.file_name().into_string(), entry.metadata()) else {
                continue;
            };
            if name.ends_with(SUFFIX) {
                capsules.push((name, meta.len()));
            } else if let Some(digest) = name.strip_suffix(COMPONENT_SUFFIX)
                && let Ok(digest) = digest.parse()
            {
                components.insert(digest, meta.len());
            }
        }
        capsules.sort();
        Ok(Self { capsules: capsules.into(), components })
    }
}

/// Returns the digits of the module in the name of a capsule.
fn module_of(capsule: &str) -> &str {
    capsule.split('-').nth(2).unwrap_or_default()
}

fn component_name(digest: Digest) -> String {
    format!("{digest}{COMPONENT_SUFFIX}")
}

/// Returns whether the command has a module, so that a replay needs no file.
pub(super) fn is_bundled(digest: Digest) -> bool {
    static BUNDLED: LazyLock<Vec<Digest>> = LazyLock::new(|| {
        let extensions = BUNDLED_EXTENSIONS.iter().map(|bundled| bundled.component);
        [DEFAULT_MODULE, MODULE_1_13].into_iter().chain(extensions).map(Digest::new).collect()
    });
    BUNDLED.contains(&digest)
}

#[cfg(test)]
mod tests {
    use super::{CapsulesConfig, FILE_MODE, Folder, NewCapsule, component_name};
    use bytesize::ByteSize;
    use relayer_rest_sandbox::Digest;
    use std::fs;
    use std::io;
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

    /// Writes a capsule of a module, at a second.
    fn write(folder: &mut Folder, id: &str, second: u64, json: &[u8]) -> io::Result<()> {
        let time = UNIX_EPOCH + Duration::from_secs(second);
        let module = Digest::new(b"module");
        folder.write(&NewCapsule { id, time, module, component: None, json })
    }

    #[test]
    fn the_oldest_capsules_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let config =
            CapsulesConfig { count: 2, size: ByteSize::b(10), ..CapsulesConfig::default() };
        let mut folder = Folder::open(&path, &config).unwrap();
        for (second, id) in [(1, "a"), (2, "b"), (3, "c")] {
            write(&mut folder, id, second, b"1234").unwrap();
        }
        let ids = || -> Vec<_> {
            let id = |name: &String| name.rsplit('-').next().unwrap()[..1].to_owned();
            names(&path).iter().map(id).collect()
        };
        assert_eq!(ids(), ["b", "c"]);
        write(&mut folder, "d", 4, b"1234567").unwrap();
        assert_eq!(ids(), ["d"]);
        let error = write(&mut folder, "e", 5, b"12345678901").unwrap_err().to_string();
        let message = "the capsule and its module have 11 B; the maximum is 10 B (capsules.size)";
        assert_eq!(error, message);
        let mode = fs::metadata(path.join(&names(&path)[0])).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
        fs::write(path.join("0.capsule.json"), "1").unwrap();
        fs::write(path.join("other"), "1234567890").unwrap();
        fs::write(path.join("other.wasm"), "1234567890").unwrap();
        Folder::open(&path, &CapsulesConfig { count: 1, ..config }).unwrap();
        assert_eq!(names(&path).len(), 3);
        assert!(names(&path)[0].ends_with("-d.capsule.json"));
    }

    #[test]
    fn a_component_stays_as_long_as_one_of_its_capsules() {
        let path = tempfile::tempdir().unwrap();
        let config =
            CapsulesConfig { count: 3, size: ByteSize::b(30), ..CapsulesConfig::default() };
        let mut folder = Folder::open(path.path(), &config).unwrap();
        let mut write = |second, component: &'static [u8]| {
            let time = UNIX_EPOCH + Duration::from_secs(second);
            let module = Digest::new(component);
            let component = Some(component);
            folder.write(&NewCapsule { id: "a-b", time, module, component, json: b"1234" })
        };
        let components = || -> Vec<_> {
            let names = names(path.path()).into_iter();
            names.filter(|name| name.ends_with(".wasm")).collect()
        };
        let [first, second, third] = [&b"1"[..], b"22", b"1234567890123456789"];
        let named = |components: &[&[u8]]| {
            let digests = components.iter().map(|it| component_name(Digest::new(it)));
            let mut named: Vec<_> = digests.collect();
            named.sort();
            named
        };
        for (at, component) in [(1, first), (2, second), (3, second)] {
            write(at, component).unwrap();
        }
        assert_eq!(components(), named(&[first, second]));
        // The capsule of the first module is one too many.
        write(4, second).unwrap();
        assert_eq!(components(), named(&[second]));
        // The component is too large for more than two capsules and both modules.
        write(5, third).unwrap();
        assert_eq!((components(), names(path.path()).len()), (named(&[second, third]), 4));
        let large = &b"123456789012345678901234567"[..];
        let error = write(6, large).unwrap_err().to_string();
        assert!(error.contains("have 31 B; the maximum is 30 B"), "{error}");
        assert_eq!(components(), named(&[second, third]));
    }
}
