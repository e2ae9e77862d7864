use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::entry::is_file_name;
use super::{ABANDONED, Artefact, CodeCache, Key, MAX_SIZE, TEMPORARY};
use crate::address_space::Reservation;
use crate::engine_config;

static ENGINE: LazyLock<wasmtime::Engine> = LazyLock::new(|| {
    wasmtime::Engine::new(&engine_config::compiling(Reservation::from_bytes(4 << 30))).unwrap()
});

/// Returns the code of a small component, and its key.
fn compiled(component: &str) -> (Key, Artefact) {
    let component = wat::parse_str(component).unwrap();
    (Key::new(&ENGINE, &component), Artefact::compile(&ENGINE, "test", &component).unwrap())
}

/// A cache with one entry.
struct Stored {
    _folder: TempDir,
    cache: CodeCache,
    key: Key,
    artefact: Artefact,
    file: PathBuf,
    content: Vec<u8>,
}

impl Stored {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(folder.path()).unwrap();
        let (key, artefact) = compiled("(component (core module (func (result i32) i32.const 7)))");
        assert_eq!(cache.get(key), None);
        cache.put(key, &artefact);
        let file = folder.path().join(key.file_name());
        let content = fs::read(&file).unwrap();
        Self { _folder: folder, cache, key, artefact, file, content }
    }

    /// Asserts that the present entry is not used, and is replaced.
    fn assert_is_replaced(&self, what: &str) {
        assert_eq!(self.cache.get(self.key), None, "{what}");
        self.cache.put(self.key, &self.artefact);
        assert_eq!(self.cache.get(self.key).as_ref(), Some(&self.artefact), "{what}");
    }
}

#[test]
fn an_entry_is_returned_as_it_was_stored() {
    let stored = Stored::new();
    assert_eq!(stored.cache.get(stored.key).as_ref(), Some(&stored.artefact));
    assert_eq!(fs::metadata(&stored.file).unwrap().permissions().mode() & 0o7777, 0o600);
    stored.cache.get(stored.key).unwrap().load(&ENGINE).unwrap();
    // Another process finds it, too.
    let other = CodeCache::open(stored.cache.folder()).unwrap();
    assert_eq!(other.get(stored.key).as_ref(), Some(&stored.artefact));
    let core = wat::parse_str("(module (func (result i32) i32.const 7))").unwrap();
    assert_ne!(Key::new(&ENGINE, &core), stored.key);
}

#[test]
fn each_of_more_than_1000_bit_flips_is_detected() {
    let stored = Stored::new();
    let bits = stored.content.len() * 8;
    // All bits of the header, and a sample of the others.
    let header = 0..56 * 8;
    let body = (header.end..bits).step_by((bits / 1_200) | 1);
    let mut count = 0;
    for bit in header.chain(body) {
        let mut flipped = stored.content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&stored.file, flipped).unwrap();
        assert_eq!(stored.cache.get(stored.key), None, "bit {bit}");
        count += 1;
    }
    assert!(count > 1_400, "{count}");
    stored.assert_is_replaced("a flipped bit");
}

#[test]
fn truncated_extended_and_zeroed_entries_are_detected() {
    let stored = Stored::new();
    let length = stored.content.len();
    for length in (0..100).chain((100..length).step_by(101)).chain([length - 1]) {
        fs::write(&stored.file, &stored.content[..length]).unwrap();
        assert_eq!(stored.cache.get(stored.key), None, "{length} bytes");
    }
    for start in (0..length).step_by(512) {
        let mut zeroed = stored.content.clone();
        let page = start..length.min(start + 512);
        if zeroed[page.clone()].iter().all(|byte| *byte == 0) {
            continue;
        }
        zeroed[page].fill(0);
        fs::write(&stored.file, zeroed).unwrap();
        assert_eq!(stored.cache.get(stored.key), None, "page at {start}");
    }
    let file = File::options().write(true).open(&stored.file).unwrap();
    file.set_len(MAX_SIZE + 1).unwrap();
    stored.assert_is_replaced("a large entry");
    fs::write(&stored.file, [&stored.content[..], b"x"].concat()).unwrap();
    stored.assert_is_replaced("an extended entry");
}

#[test]
fn an_entry_under_the_name_of_another_one_is_not_used() {
    let stored = Stored::new();
    let (other, artefact) = compiled("(component (core module (func (result i32) i32.const 8)))");
    assert_ne!(other, stored.key);
    stored.cache.put(other, &artefact);
    let file = stored.cache.folder().join(other.file_name());
    let content = fs::read(&file).unwrap();
    fs::write(&stored.file, content).unwrap();
    fs::write(&file, &stored.content).unwrap();
    assert_eq!(stored.cache.get(other), None);
    stored.assert_is_replaced("the entry of another component");
}

#[test]
fn only_private_files_are_used() {
    let stored = Stored::new();
    let chmod = |mode| fs::set_permissions(&stored.file, Permissions::from_mode(mode)).unwrap();
    for mode in [0o620, 0o602] {
        chmod(mode);
        stored.assert_is_replaced("an entry that others can write to");
    }
    let elsewhere = stored.cache.folder().join("elsewhere");
    fs::rename(&stored.file, &elsewhere).unwrap();
    symlink(&elsewhere, &stored.file).unwrap();
    stored.assert_is_replaced("a symbolic link");
    fs::remove_file(&stored.file).unwrap();
    mkfifoat(CWD, &stored.file, Mode::RUSR | Mode::WUSR).unwrap();
    stored.assert_is_replaced("a pipe");
    if geteuid().is_root() {
        chown(&stored.file, Some(65_534), None).unwrap();
        stored.assert_is_replaced("an entry of another user");
    } else {
        eprintln!("skipped in part: only root can give files to other users");
    }
    fs::remove_file(&stored.file).unwrap();
    fs::create_dir(&stored.file).unwrap();
    assert_eq!(stored.cache.get(stored.key), None);
    stored.cache.put(stored.key, &stored.artefact);
    assert_eq!(names(stored.cache.folder()).len(), 2, "nothing is left behind");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns incompressible bytes, the same each time.
fn random(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// Sets the age of a file.
fn age(file: &Path, age: Duration) {
    let file = File::options().append(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn the_least_recently_used_entries_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let artefact = Artefact { code: random(10_000), ..Artefact::default() };
    // There is room for three.
    let cache = CodeCache::with_max_size(folder.path(), 35_000).unwrap();
    let keys: Vec<_> = (0..4).map(|number: u8| Key::new(&ENGINE, &[number])).collect();
    let file = |key: Key| folder.path().join(key.file_name());
    for (key, minutes) in keys.iter().zip([3, 2, 1]) {
        cache.put(*key, &artefact);
        age(&file(*key), Duration::from_mins(minutes));
    }
    assert_eq!(names(folder.path()).len(), 3);
    // The oldest one is used.
    cache.get(keys[0]).unwrap();
    cache.put(keys[3], &artefact);
    let is_there: Vec<_> = keys.iter().map(|key| file(*key).exists()).collect();
    assert_eq!(is_there, [true, false, true, true]);
    // An entry that is larger than the cache evicts nothing.
    let large = Artefact { code: random(35_000), ..Artefact::default() };
    cache.put(Key::new(&ENGINE, b"large"), &large);
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn leftovers_of_killed_writers_are_removed() {
    let stored = Stored::new();
    let path = |name: &str| stored.cache.folder().join(name);
    let old = path(&format!("{TEMPORARY}old"));
    let new = path(&format!("{TEMPORARY}new"));
    let other = path("other");
    for file in [&old, &new, &other] {
        fs::write(file, "text").unwrap();
    }
    for file in [&old, &other] {
        age(file, ABANDONED + Duration::from_mins(1));
    }
    stored.cache.put(stored.key, &stored.artefact);
    // Another process may still write the new file, and the other file is not the
    // cache's.
    assert_eq!([&old, &new, &other].map(|file| file.exists()), [false, true, true]);
}

#[test]
fn concurrent_users_never_see_part_of_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    // There is room for one entry: each user evicts the other one's.
    let open = || CodeCache::with_max_size(folder.path(), 150_000).unwrap();
    let uses = |number: u8| {
        let cache = open();
        let key = Key::new(&ENGINE, &[number % 2]);
        let artefact = Artefact {
            encoded: random(50_000),
            code: random(50_001 + usize::from(number % 2)),
            sources: random(10),
        };
        for _ in 0..200 {
            cache.0.write(key, &artefact).unwrap();
            cache.0.evict(key).unwrap();
            match cache.0.read(key) {
                Ok(found) => assert_eq!(found, artefact),
                Err(super::Damage::Io(error)) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                }
                Err(damage) => panic!("{damage}"),
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || uses(number));
        }
    });
    let names = names(folder.path());
    assert!(names.iter().all(|name| is_file_name(name)), "{names:?}");
}
