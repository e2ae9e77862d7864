//! The folder with the newest capsules, and the components of their modules.
//!
//! The names of capsules begin with the time, so that their order is that of their age, and contain
//! the first digits of the module's digest. Files with other names are not touched.

use std::collections::{BTreeMap, HashMap, VecDeque};
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

/// The file that is locked.
const LOCK: &str = "lock";

/// The permissions of files and of a new folder: requests are for the user of the server only.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder with a bounded number of capsules. Another server may use it, too, while it takes over
/// from this one, so each change is made under a lock.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    max_count: usize,
    /// The maximum size of all capsules, and of all components.
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
    /// Whether there are capsules that an operator has named, whose modules are not known.
    has_others: bool,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing.
    pub(super) fn open(path: &Path, config: &CapsulesConfig) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let max_count = usize::try_from(config.count).unwrap_or(usize::MAX);
        let path = path.to_owned();
        let folder = Self { path, max_count, max_size: config.size.as_u64(), next: 0 };
        let _lock = folder.lock()?;
        // The folder must be writable from the start.
        drop(folder.create()?);
        fs::remove_file(folder.path.join(UNFINISHED))?;
        folder.remove_oldest(None)?;
        Ok(folder)
    }

    /// Writes the capsule of a request, with the component of its module unless it is there or too
    /// large.
    pub(super) fn write(&mut self, new: &NewCapsule<'_>) -> io::Result<()> {
        let NewCapsule { id, time, module, component, json } = new;
        if json.len() as u64 > self.max_size {
            return Err(io::Error::other(format!(
                "the capsule has {}; the maximum is {} (capsules.size)",
                ByteSize::b(json.len() as u64),
                ByteSize::b(self.max_size)
            )));
        }
        let _lock = self.lock()?;
        let millis = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let name = format!(
            "{millis:014}-{:06}-{}-{id}{SUFFIX}",
            self.next % 1_000_000,
            &module.to_string()[..DIGITS]
        );
        self.next += 1;
        let component = component.filter(|component| component.len() as u64 <= self.max_size);
        let component_path = self.path.join(component_name(*module));
        let written = match component {
            Some(component) if !component_path.exists() => self.replace(&component_path, component),
            _ => Ok(()),
        };
        let written = written.and_then(|()| self.replace(&self.path.join(&name), json));
        // Also if the disk is full. The capsule is there if the others cannot be listed.
        self.remove_oldest(Some(&name)).ok();
        written
    }

    /// Locks the folder until the file is dropped.
    fn lock(&self) -> io::Result<fs::File> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(self.path.join(LOCK))?;
        file.lock()?;
        Ok(file)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.create()?.write_all(content)?;
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

    /// Removes the oldest capsules until the others are within the bounds, and then the components
    /// without a capsule, and those that exceed their bound. A new capsule stays, and its component.
    fn remove_oldest(&self, new: Option<&str>) -> io::Result<()> {
        let Files { mut capsules, components, has_others } = Files::list(&self.path)?;
        // A clock that was set back makes the new one the oldest.
        let new = new.and_then(|new| {
            let place = capsules.iter().position(|(name, _)| name == new)?;
            capsules.remove(place)
        });
        capsules.extend(new);
        let mut size: u64 = capsules.iter().map(|(_, size)| size).sum();
        while capsules.len() > self.max_count || size > self.max_size {
            let Some((oldest, removed)) = capsules.pop_front() else { break };
            size -= removed;
            // It may have been removed by someone else.
            fs::remove_file(self.path.join(oldest)).ok();
        }
        // The place of the newest capsule of each module.
        let places = capsules.iter().enumerate().map(|(place, (name, _))| (module_of(name), place));
        let newest: HashMap<_, _> = places.collect();
        let mut components: Vec<_> = components
            .into_iter()
            .map(|(digest, size)| (newest.get(&digest.to_string()[..DIGITS]), digest, size))
            .collect();
        components.sort();
        let mut size: u64 = components.iter().map(|(.., size)| size).sum();
        for (place, digest, removed) in components {
            let is_unused = place.is_none() && !has_others;
            if is_unused || size > self.max_size {
                size -= removed;
                fs::remove_file(self.path.join(component_name(digest))).ok();
            }
        }
        Ok(())
    }
}

impl Files {
    fn list(folder: &Path) -> io::Result<Self> {
        let mut capsules = Vec::new();
        let mut files = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // It may have been removed by someone else.
            let (Ok(name), Ok(meta)) = (entry.file_name().into_string(), entry.metadata()) else {
                continue;
            };
            if name.ends_with(SUFFIX) {
                if module_of(&name).is_empty() {
                    files.has_others = true;
                } else {
                    capsules.push((name, meta.len()));
                }
            } else if let Some(digest) = name.strip_suffix(COMPONENT_SUFFIX)
                && let Ok(digest) = digest.parse()
            {
                files.components.insert(digest, meta.len());
            }
        }
        capsules.sort();
        Ok(Self { capsules: capsules.into(), ..files })
    }
}

/// Returns the digits of the module in the name of a capsule; none if the server has not given the
/// name.
fn module_of(name: &str) -> &str {
    let mut parts = name.splitn(4, '-');
    let mut digits = |count, is_digit: fn(&u8) -> bool| {
        parts.next().filter(|part| part.len() >= count && part.as_bytes().iter().all(is_digit))
    };
    let numbers = digits(14, u8::is_ascii_digit).and(digits(6, u8::is_ascii_digit));
    let module = numbers.and_then(|_| digits(DIGITS, u8::is_ascii_hexdigit));
    module.filter(|module| module.len() == DIGITS && parts.next().is_some()).unwrap_or_default()
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
    use super::{
        COMPONENT_SUFFIX, CapsulesConfig, FILE_MODE, Folder, LOCK, NewCapsule, component_name,
        module_of,
    };
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
        names.retain(|name| name != LOCK);
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
        assert_eq!(error, "the capsule has 11 B; the maximum is 10 B (capsules.size)");
        let mode = fs::metadata(path.join(&names(&path)[0])).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
        // The clock was set back.
        write(&mut folder, "f", 1, b"1234567").unwrap();
        assert_eq!(ids(), ["f"]);
        write(&mut folder, "g", 1, b"123").unwrap();
        for other in ["0.capsule.json", "seven-a-b-c.capsule.json", "other", "other.wasm"] {
            fs::write(path.join(other), "1234567890").unwrap();
        }
        Folder::open(&path, &CapsulesConfig { count: 1, ..config }).unwrap();
        assert_eq!(names(&path).len(), 5);
        assert!(names(&path)[1].ends_with("-g.capsule.json"), "{:?}", names(&path));
    }

    #[test]
    fn a_component_stays_as_long_as_one_of_its_capsules() {
        let path = tempfile::tempdir().unwrap();
        let config =
            CapsulesConfig { count: 3, size: ByteSize::b(20), ..CapsulesConfig::default() };
        let mut folder = Folder::open(path.path(), &config).unwrap();
        let mut write = |second, component: &'static [u8]| {
            let time = UNIX_EPOCH + Duration::from_secs(second);
            let module = Digest::new(component);
            let component = Some(component);
            folder
                .write(&NewCapsule { id: "a-b", time, module, component, json: b"1234" })
                .unwrap();
        };
        let [first, second, third] = [&b"1"[..], b"22", b"1234567890123456789"];
        let check = |components: &[&[u8]], capsules| {
            let digests = components.iter().map(|it| component_name(Digest::new(it)));
            let mut expected: Vec<_> = digests.collect();
            expected.sort();
            let (mut there, others): (Vec<_>, Vec<_>) =
                names(path.path()).into_iter().partition(|name| name.ends_with(COMPONENT_SUFFIX));
            there.sort();
            assert_eq!((there, others.len()), (expected, capsules));
        };
        for (at, component) in [(1, first), (2, second), (3, second)] {
            write(at, component);
        }
        check(&[first, second], 3);
        // The capsule of the first module is one too many.
        write(4, second);
        check(&[second], 3);
        // Not all components fit: the one of the older capsules is removed.
        write(5, third);
        check(&[third], 3);
        write(6, b"123456789012345678901");
        check(&[third], 3);
        write(7, second);
        check(&[second], 3);
        // The module of a capsule that an operator has named is not known.
        fs::write(path.path().join("mine.capsule.json"), "").unwrap();
        for at in [8, 9, 10] {
            write(at, first);
        }
        check(&[first, second], 4);
    }

    /// During a takeover, two servers write to the folder.
    #[test]
    fn each_capsule_of_two_servers_has_its_component() {
        const COUNT: u64 = 200;
        let path = tempfile::tempdir().unwrap();
        let config = CapsulesConfig { count: 4, ..CapsulesConfig::default() };
        std::thread::scope(|scope| {
            for server in 0..2 {
                let config = &config;
                let path = path.path();
                scope.spawn(move || {
                    let mut folder = Folder::open(path, config).unwrap();
                    for number in 0..COUNT {
                        let component = [b'0' + u8::try_from(number % 3).unwrap(); 4_096];
                        let module = Digest::new(&component);
                        let component = Some(&component[..]);
                        let time = UNIX_EPOCH + Duration::from_millis(number);
                        let id = if server == 0 { "a" } else { "b" };
                        let new = NewCapsule { id, time, module, component, json: b"1234" };
                        folder.write(&new).unwrap();
                    }
                });
            }
        });
        let (components, capsules): (Vec<_>, Vec<_>) =
            names(path.path()).into_iter().partition(|name| name.ends_with(COMPONENT_SUFFIX));
        assert_eq!(capsules.len(), 4);
        for name in &components {
            let content = fs::read(path.path().join(name)).unwrap();
            assert_eq!(*name, component_name(Digest::new(&content)));
        }
        for capsule in capsules {
            let module = module_of(&capsule);
            assert!(components.iter().any(|name| name.starts_with(module)), "{capsule}");
        }
    }
}
