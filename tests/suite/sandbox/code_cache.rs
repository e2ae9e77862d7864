//! Is compiled code used only if it is the compiler's unchanged output, and is
//! compilation bounded in any case?

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::registry::{Candidate, Rejection, SwapOutcome};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::namespace::{OWN_MOUNTS, has_own_mounts};
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::candidate;
use relayer_rest_tests::{component, measure};
use rustix::process::geteuid;

/// The settings of a server with a module that is not bundled.
const SETTINGS: &str =
    "[swap]\ntime = '10min'\nmemory = '64MiB'\n[[extension]]\nname = 'a'\nmodule = 'a.wasm'\n";

/// The message about an entry that is not used.
const NOT_USED: &str = "cached code rejected; recompiling";

async fn get(serving: &Serving, path: &str) -> (u16, String) {
    let response = Client::http1(serving.address()).await.get(path).await;
    (response.status.as_u16(), String::from_utf8_lossy(&response.body).into_owned())
}

/// Creates a folder with the settings and the module.
fn folder() -> (Folder, String) {
    let folder = Folder::new();
    folder.write("a.wasm", component::with_response(201, "a", b"b"));
    let config = folder.write("c.toml", SETTINGS);
    (folder, config)
}

fn entries(cache: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    let mut entries: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    entries.sort();
    entries
}

/// Changes the bytes of an entry.
type Damage = Box<dyn Fn(&mut Vec<u8>)>;

#[tokio::test]
async fn compiled_code_is_reused_by_the_next_start() {
    let (folder, config) = folder();
    let cache = folder.join("cache");
    let program = Program::server().args(["--config", &config, "--code-cache"]).args([&cache]);
    program.clone().start().await.stop().await;
    let stored = entries(&cache);
    assert_eq!(stored.len(), 2, "the API and the extension");
    // The entries must still be the same files, since recompiled code would replace them.
    let inodes = || {
        let inode = |(path, _): &(PathBuf, _)| {
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
        };
        stored.iter().map(inode).collect::<Vec<_>>()
    };
    let before = inodes();
    let serving = program.clone().start().await;
    assert_eq!(get(&serving, "/ext/a").await.0, 201);
    let ended = serving.stop().await;
    assert!(!ended.stderr.contains(NOT_USED), "{}", ended.stderr);
    assert_eq!(entries(&cache), stored);
    assert_eq!(inodes(), before);
}

#[tokio::test]
async fn damaged_entries_are_compiled_again() {
    let (folder, config) = folder();
    let cache = folder.join("cache");
    let program = Program::server().args(["--config", &config, "--code-cache"]).args([&cache]);
    let serving = program.clone().start().await;
    let chains = get(&serving, "/chains").await;
    serving.stop().await;
    let stored = entries(&cache);
    let flip = |number: usize| {
        move |code: &mut Vec<u8>| {
            let at = number * 97 % code.len();
            code[at] ^= 1 << (number % 8);
        }
    };
    let damages: Vec<Damage> = vec![
        Box::new(flip(7)),
        Box::new(flip(401)),
        Box::new(flip(8_009)),
        Box::new(flip(60_013)),
        Box::new(|code| code.truncate(code.len() / 2)),
        Box::new(|code| {
            let middle = code.len() / 2;
            code[middle..].iter_mut().take(4096).for_each(|byte| *byte = !*byte);
        }),
        Box::new(|code| *code = b"nonsense".to_vec()),
        Box::new(Vec::clear),
    ];
    for damage in damages {
        for (path, code) in &stored {
            let mut code = code.clone();
            damage(&mut code);
            fs::write(path, code).unwrap();
        }
        let serving = program.clone().start().await;
        assert_eq!(get(&serving, "/chains").await, chains);
        assert_eq!(get(&serving, "/ext/a").await.0, 201);
        let ended = serving.stop().await;
        assert_eq!(ended.stderr.matches(NOT_USED).count(), 2, "{}", ended.stderr);
        assert_eq!(entries(&cache), stored);
    }
    // An entry of another component is not used.
    fs::write(&stored[0].0, &stored[1].1).unwrap();
    fs::write(&stored[1].0, &stored[0].1).unwrap();
    let serving = program.clone().start().await;
    assert_eq!(get(&serving, "/chains").await, chains);
    assert_eq!(get(&serving, "/ext/a").await.0, 201);
    assert_eq!(serving.stop().await.stderr.matches(NOT_USED).count(), 2);
    assert_eq!(entries(&cache), stored);
}

/// Asserts that a server compiles modules, but not in its own process.
async fn assert_compiles_apart(what: &str, mut serving: Serving, message: Option<&str>) {
    if let Some(message) = message {
        serving.logged(message).await;
    }
    assert_eq!(get(&serving, "/ext/a").await.0, 201, "{what}");
    fs::write(format!("/proc/{}/clear_refs", serving.id()), "5").unwrap();
    let before = measure::peak_memory_of(serving.id());
    let client = serving.control_client();
    let any = |component| Candidate { dialect: Some(Dialect::Any), ..candidate(component) };
    // It takes more than 200 MB.
    let report = client.swap("/", any(component::hard_to_compile(6_000))).await.unwrap();
    let SwapOutcome::Rejected { reason: Rejection::Invalid, message } = report.outcome else {
        panic!("{what}: {report:?}")
    };
    assert!(message.contains("failed with at most 64.0 MiB"), "{what}: {message}");
    // The peak may be less if memory was returned meanwhile.
    let more = measure::peak_memory_of(serving.id()).saturating_sub(before);
    assert!(more < 50 << 20, "{what}: {more} bytes more");
    let report = client.swap("/", any(component::with_response(202, "a", b"c"))).await.unwrap();
    assert_eq!(report.outcome, SwapOutcome::Swapped, "{what}");
    assert_eq!(get(&serving, "/").await.0, 202, "{what}");
    assert_eq!(serving.stop().await.status, Some(0), "{what}");
}

#[tokio::test]
async fn compilation_is_bounded_without_a_code_cache() {
    let (_folder, config) = folder();
    let program = Program::server().args(["--config", &config]);
    let uncached = program.clone().args(["--no-code-cache"]);
    assert_compiles_apart("no cache", uncached.start().await, None).await;
    let homeless = program.after("unset HOME XDG_CACHE_HOME RELAYER_REST_CODE_CACHE");
    assert_compiles_apart(
        "no home",
        homeless.start().await,
        Some("neither XDG_CACHE_HOME nor HOME"),
    )
    .await;
}

#[tokio::test]
async fn compilation_is_bounded_if_code_cannot_be_stored() {
    let (folder, config) = folder();
    let cache = folder.join("cache");
    let program = Program::server().args(["--config", &config, "--code-cache"]).args([&cache]);
    let not_stored = Some("compiled code not stored");
    // The limit has room for the extension's code, and for memory images.
    let limited = program.clone().after("prlimit --pid $$ --fsize=100000:100000");
    assert_compiles_apart("small files only", limited.start().await, not_stored).await;
    assert!(entries(&cache).iter().all(|(_, code)| code.len() <= 100_000));
    if geteuid().is_root() {
        let mount = format!("mount -t tmpfs -o mode=700,size=16k none '{}'", cache.display());
        for (what, script) in [
            ("a full disk", mount.clone()),
            ("a read-only disk", format!("{mount}\nmount -o remount,ro '{}'", cache.display())),
        ] {
            if !has_own_mounts().await {
                return;
            }
            let program = program.clone().after(&script).launched_by(OWN_MOUNTS);
            assert_compiles_apart(what, program.start().await, not_stored).await;
        }
    } else {
        fs::set_permissions(&cache, Permissions::from_mode(0o500)).unwrap();
        assert_compiles_apart("a read-only folder", program.start().await, not_stored).await;
    }
}

/// A module that cannot be compiled in a separate process is not compiled at all.
#[tokio::test]
async fn modules_are_rejected_if_the_compiler_cannot_start() {
    if !has_own_mounts().await {
        return;
    }
    let (folder, _) = folder();
    let config = folder.write("c.toml", format!("{SETTINGS}required = true\n"));
    let program = Program::server().args(["--no-code-cache", "--config", &config]);
    let program = program.after("mount -t tmpfs none /proc").launched_by(OWN_MOUNTS);
    let ended = program.run().await;
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    for part in [
        "a.wasm: cannot be compiled: cannot start the compiler ",
        ": No such file",
        "mounted /proc",
    ] {
        assert!(ended.stderr.contains(part), "{part} is not in: {}", ended.stderr);
    }
}

#[tokio::test]
async fn folders_writable_by_others_are_rejected() {
    let folder = Folder::new();
    let caches = folder.join("caches");
    let cache = caches.join("relayer-rest");
    fs::create_dir_all(&cache).unwrap();
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let assert_is_rejected = async |message: &str| {
        let path = cache.to_str().unwrap();
        let by_variable = format!("export RELAYER_REST_CODE_CACHE='{path}'");
        for (script, args) in [("", &["--code-cache", path][..]), (&by_variable, &[])] {
            let ended = Program::server().args(args).after(script).run().await;
            assert_eq!(ended.status, Some(2), "{}", ended.stderr);
            for part in ["relayer-rest: code cache ", message, "choose another folder"] {
                assert!(ended.stderr.contains(part), "{part} is not in: {}", ended.stderr);
            }
        }
        // The default folder was not requested, so the server runs without it.
        let caches = caches.display();
        let default = format!("unset RELAYER_REST_CODE_CACHE; export XDG_CACHE_HOME='{caches}'");
        let mut serving = Program::server().after(&default).start().await;
        serving.logged("no code cache error=code cache ").await;
        assert_eq!(get(&serving, "/chains").await.0, 200);
        let ended = serving.stop().await;
        assert!(ended.stderr.contains(message), "{message} is not in: {}", ended.stderr);
        assert_eq!(entries(&cache), []);
    };
    for (parent, mode) in [(0o755, 0o770), (0o755, 0o757), (0o777, 0o700)] {
        chmod(&caches, parent);
        chmod(&cache, mode);
        assert_is_rejected("other users can write to ").await;
    }
    chmod(&caches, 0o755);
    if geteuid().is_root() {
        chown(&cache, Some(65_534), None).unwrap();
        assert_is_rejected(" belongs to user 65534").await;
    } else {
        eprintln!("skipped in part: only root can give folders to other users");
    }
}
