//! Does a running server reload its settings, all of them or none?

use std::fs;

use relayer_rest_host::config::DEFAULT;
use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program, Serving};
use rustix::process::{Pid, Signal, kill_process};

/// A folder with modules that respond with 201 and 202, one that traps and one that reads
/// the chains, and with the settings.
struct Setup {
    folder: Folder,
    settings: String,
}

const ONE: &str = "[[extension]]\nname = 'one'\nmodule = 'one.wasm'\n";
const TWO: &str = "[[extension]]\nname = 'two'\nmodule = 'two.wasm'\n";

fn responding(status: u16) -> Vec<u8> {
    component::of_response(status, &[], b"")
}

impl Setup {
    fn new(settings: &str) -> Self {
        let folder = Folder::new();
        let setup = Self { settings: folder.path("relayer-rest.toml"), folder };
        setup.write("one.wasm", &responding(201));
        setup.write("two.wasm", &responding(202));
        setup.write("trap.wasm", &component::of_handler("unreachable"));
        setup.write("reads.wasm", &component::that_imports("chains", "ids", 1));
        setup.set(settings);
        setup
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        self.folder.replace(name, bytes);
    }

    fn set(&self, settings: &str) {
        self.write("relayer-rest.toml", settings.as_bytes());
    }

    async fn serve(&self) -> Serving {
        Program::server().args(["--config", &self.settings]).start().await
    }
}

async fn reload(serving: &Serving) -> Ended {
    serving.control(&["reload"]).await
}

async fn statuses(serving: &Serving, paths: &[&str]) -> Vec<u16> {
    let mut http = serving.connect().await;
    let mut statuses = Vec::new();
    for path in paths {
        statuses.push(http.get(path).await.status.as_u16());
    }
    statuses
}

const PATHS: [&str; 4] = ["/chains", "/ext/one", "/ext/two", "/two"];

#[tokio::test]
async fn a_reload_without_settings_says_so() {
    let serving = Program::server().start().await;
    let ended = reload(&serving).await;
    let expected =
        "unchanged  /\nthere are no settings to read: the server was started without --config\n";
    assert_eq!((ended.status, &*ended.stdout), (Some(0), expected));
}

#[tokio::test]
async fn a_reload_applies_the_current_settings() {
    let setup = Setup::new(ONE);
    let serving = setup.serve().await;
    assert_eq!(statuses(&serving, &PATHS).await, [200, 201, 404, 404]);
    let ended = reload(&serving).await;
    assert_eq!((ended.status, &*ended.stdout), (Some(0), "unchanged  /, /ext/one\n"));
    // The settings have an additional extension, and one with other limits.
    setup.set(&format!("{ONE}limits.memory = '1MiB'\n{TWO}[http]\nidle = '3s'\n"));
    let ended = reload(&serving).await;
    assert_eq!(
        ended.stdout,
        "unchanged  /\nreplaced   /ext/one\nadded      /ext/two\n\
         [http] has changed; restart to apply it\n"
    );
    assert_eq!(statuses(&serving, &PATHS).await, [200, 201, 202, 404]);
    // One extension moves to another mount, and one is removed.
    setup.set(&format!("{TWO}mount = '/two'\n"));
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "unchanged  /\nadded      /two\nremoved    /ext/one, /ext/two\n");
    assert_eq!(statuses(&serving, &PATHS).await, [200, 404, 404, 202]);
    // Another module for the API.
    setup.write("api.wasm", &component::noted(DEFAULT_MODULE, "mine"));
    setup.set("[module]\nfile = 'api.wasm'\n");
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "replaced   /\nremoved    /two\n");
    assert_eq!(statuses(&serving, &PATHS).await, [200, 404, 404, 404]);
}

/// An unchanged mount stays, even if a module was swapped in since. A mount whose file
/// has changed is replaced.
#[tokio::test]
async fn unchanged_mounts_stay() {
    let setup = Setup::new(&format!("{ONE}{TWO}"));
    let serving = setup.serve().await;
    setup.write("other.wasm", &responding(203));
    let other = setup.folder.join("other.wasm");
    let swap = ["swap", "--mount", "/ext/one", other.to_str().unwrap()];
    let ended = serving.control(&swap).await;
    assert_eq!(ended.status, Some(0), "{}", ended.stdout);
    setup.write("two.wasm", &responding(204));
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "unchanged  /, /ext/one\nreplaced   /ext/two\n");
    assert_eq!(statuses(&serving, &PATHS).await, [200, 203, 204, 404]);
    // A rollback returns to the replaced module.
    let back = ["rollback", "--mount", "/ext/two"];
    let ended = serving.control(&back).await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert_eq!(statuses(&serving, &PATHS).await, [200, 203, 202, 404]);
}

/// The file's present content counts, not an earlier one.
#[tokio::test]
async fn a_file_with_its_earlier_content_is_reloaded() {
    let setup = Setup::new(ONE);
    let serving = setup.serve().await;
    setup.write("other.wasm", &responding(203));
    let other = setup.folder.join("other.wasm");
    let swap = ["swap", "--mount", "/ext/one", other.to_str().unwrap()];
    serving.control(&swap).await;
    setup.write("one.wasm", &responding(203));
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "unchanged  /, /ext/one\n");
    setup.write("one.wasm", &responding(201));
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "unchanged  /\nreplaced   /ext/one\n");
    assert_eq!(statuses(&serving, &["/ext/one"]).await, [201]);
}

/// The message is the same at the start, for `config check` and for a reload.
#[tokio::test]
async fn oversized_modules_are_rejected_with_the_same_message() {
    let setup = Setup::new(&format!("[swap]\nsize = '2KiB'\n{ONE}"));
    setup.write("large.wasm", &component::of_response(201, &[], &[b'a'; 4096]));
    let settings = &setup.settings;
    let large = format!("[swap]\nsize = '2KiB'\n{}", ONE.replace("one.wasm", "large.wasm"));
    let serving = setup.serve().await;
    setup.set(&large);
    let hint = "larger than 2.0 KiB; raise swap.size";
    let ended = reload(&serving).await;
    assert!(ended.status == Some(1) && ended.stdout.contains(hint), "{ended:?}");
    let check = ["config", "check", settings];
    let ended = Program::new(&check).run().await;
    assert!(ended.status == Some(1) && ended.stdout.contains(hint), "{ended:?}");
    setup.set(&format!("{large}required = true\n"));
    let start = ["--listen", "127.0.0.1:0", "--config", settings];
    let ended = Program::new(&start).run().await;
    assert!(ended.status == Some(2) && ended.stderr.contains(hint), "{ended:?}");
}

#[tokio::test]
async fn invalid_settings_change_nothing() {
    let setup = Setup::new(ONE);
    let serving = setup.serve().await;
    let other = responding(203);
    let digest = Digest::new(&other);
    let one = Digest::new(&responding(201));
    let wanted = "0".repeat(64);
    let folder = setup.folder.as_path().display();
    for (settings, reason) in [
        ("[[extension", format!("configuration {folder}/relayer-rest.toml: line 5, column 12: ")),
        (
            "[[extension]]\nname = 'two'\nmodule = 'two.wasm'\nmemory = '1MiB'\n",
            format!(
                "configuration {folder}/relayer-rest.toml: line 8, column 1: extension[1].memory: unknown field"
            ),
        ),
        (
            "[[extension]]\nname = 'two'\nmodule = 'none.wasm'\n",
            format!("mount /ext/two: module {folder}/none.wasm: cannot be read: "),
        ),
        (
            "[[extension]]\nname = 'two'\nmodule = 'trap.wasm'\n",
            format!(
                "mount /ext/two: module {folder}/trap.wasm: on the state 'sample': GET /version: "
            ),
        ),
        (
            "[[extension]]\nname = 'two'\nmodule = 'reads.wasm'\n",
            format!(
                "mount /ext/two: module {folder}/reads.wasm: imports without a grant: relayer:rest/chains@0.1.0 (granted: nothing); to grant them, set grants = [\"chains\"] in its [[extension]]\n"
            ),
        ),
        (
            "[[extension]]\nname = 'two'\nmount = '/ext/one/two'\nmodule = 'two.wasm'\n",
            format!("configuration {folder}/relayer-rest.toml: line 7, column 9: "),
        ),
        (
            "[module]\nfile = 'one.wasm'\n",
            format!("mount /: module {folder}/one.wasm: does not conform to dialect 0.7: rule "),
        ),
    ] {
        // The valid extension of the same settings is not loaded either.
        setup.write("one.wasm", &other);
        setup.set(&format!("{ONE}sha256 = '{digest}'\n{settings}"));
        let ended = reload(&serving).await;
        let start = format!("rejected, nothing has changed: {reason}");
        assert!(ended.stdout.starts_with(&start), "{settings}: {}", ended.stdout);
        assert_eq!(ended.status, Some(1));
        assert_eq!(statuses(&serving, &PATHS).await, [200, 201, 404, 404], "{settings}");
    }
    setup.set(&format!("{ONE}sha256 = '{wanted}'\n"));
    let ended = reload(&serving).await;
    let reason = format!(
        "one.wasm: SHA-256 mismatch: expected {wanted}, found {digest}; \
         give the expected file, or the digest of this one\n"
    );
    assert!(ended.stdout.ends_with(&reason), "{}", ended.stdout);
    assert_ne!(one, digest);
}

/// Neither a failure nor a command rolls back to other limits than those in the settings.
#[tokio::test]
async fn a_rollback_never_restores_other_limits() {
    let setup = Setup::new("[[extension]]\nname = 'one'\nmodule = 'later.wasm'\n");
    setup.write("later.wasm", &component::that_traps_later("1"));
    let serving = setup.serve().await;
    let other = component::noted(&component::that_traps_later("1"), "other");
    setup.write("later.wasm", &other);
    setup.set("[[extension]]\nname = 'one'\nmodule = 'later.wasm'\nlimits.memory = '2MiB'\n");
    let ended = reload(&serving).await;
    assert_eq!(ended.stdout, "unchanged  /\nreplaced   /ext/one\n");
    let trap = format!("/ext/one{}", component::TRAP);
    assert_eq!(statuses(&serving, &[&trap]).await, [500]);
    let status = serving.control(&["status"]).await.stdout;
    let label = format!("/ext/one  one@{}", Digest::new(&other).short());
    assert!(status.contains(&label) && !status.contains("previous"), "{status}");
    let back = ["rollback", "--mount", "/ext/one"];
    let ended = serving.control(&back).await;
    assert_eq!(ended.status, Some(2), "{}", ended.stdout);
}

/// A reload does not load a quarantined module.
#[tokio::test]
async fn quarantined_modules_are_not_reloaded() {
    let old = component::that_traps_later("1");
    let setup = Setup::new(ONE);
    let serving = setup.serve().await;
    setup.write("one.wasm", &component::noted(&old, "new"));
    assert_eq!(reload(&serving).await.status, Some(0));
    let trap = format!("/ext/one{}", component::TRAP);
    // The previous module serves the request instead.
    assert_eq!(statuses(&serving, &[&trap, "/ext/one"]).await, [201, 201]);
    setup.set(&format!("{ONE}limits.queue = 1\n"));
    let ended = reload(&serving).await;
    assert_eq!(ended.status, Some(1));
    assert!(ended.stdout.contains("quarantined: "), "{}", ended.stdout);
    assert_eq!(statuses(&serving, &["/ext/one"]).await, [201]);
}

#[tokio::test]
async fn extensions_can_exchange_their_mounts() {
    let setup = Setup::new(&format!("{ONE}mount = '/x'\n{TWO}mount = '/y'\n"));
    let serving = setup.serve().await;
    setup.set(&format!("{ONE}mount = '/y'\n{TWO}mount = '/x'\n"));
    assert_eq!(reload(&serving).await.stdout, "unchanged  /\nreplaced   /y, /x\n");
    assert_eq!(statuses(&serving, &["/x", "/y"]).await, [202, 201]);
    assert_eq!(reload(&serving).await.stdout, "unchanged  /, /y, /x\n");
}

/// A file that cannot be read does not block a reload.
#[tokio::test]
async fn settings_that_are_not_a_regular_file_are_rejected() {
    let setup = Setup::new(ONE);
    let serving = setup.serve().await;
    fs::remove_file(&setup.settings).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&setup.settings).status().unwrap();
    assert!(made.success());
    for _ in 0..2 {
        let ended = reload(&serving).await;
        assert!(ended.stdout.contains("not a regular file"), "{}", ended.stdout);
    }
    fs::remove_file(&setup.settings).unwrap();
    setup.set(TWO);
    assert_eq!(reload(&serving).await.status, Some(0));
    assert_eq!(statuses(&serving, &PATHS).await, [200, 404, 202, 404]);
}

/// The relayer's own file is separate, and its errors are reported.
#[tokio::test]
async fn errors_in_other_files_are_reported() {
    let setup = Setup::new("");
    let relayer = include_str!("../../fixtures/hermes-1.13.toml");
    setup.write("hermes.toml", relayer.as_bytes());
    let hermes = setup.folder.join("hermes.toml");
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--config",
        &setup.settings,
        "--relayer-config",
        hermes.to_str().unwrap(),
    ];
    let serving = Program::new(&args).start().await;
    fs::write(&hermes, "[rest").unwrap();
    for _ in 0..2 {
        let ended = reload(&serving).await;
        assert_eq!(ended.status, Some(1), "{}", ended.stdout);
        let start = "unchanged  /\nrejected: relayer configuration ";
        assert!(ended.stdout.starts_with(start), "{}", ended.stdout);
        assert!(
            ended.stdout.ends_with("; the previous content stays in effect\n"),
            "{}",
            ended.stdout
        );
    }
}

#[tokio::test]
async fn sighup_reloads_the_settings() {
    let setup = Setup::new(ONE);
    let mut serving = setup.serve().await;
    let pid = Pid::from_raw(serving.id()).unwrap();
    setup.set("[[extension");
    kill_process(pid, Signal::HUP).unwrap();
    serving.logged("reload rejected").await;
    assert_eq!(statuses(&serving, &PATHS).await, [200, 201, 404, 404]);
    setup.set(TWO);
    kill_process(pid, Signal::HUP).unwrap();
    serving.logged("settings reloaded").await;
    assert_eq!(statuses(&serving, &PATHS).await, [200, 404, 202, 404]);
}

/// The watched files are those of the current settings.
#[tokio::test]
async fn files_are_watched_after_a_reload() {
    let setup = Setup::new(ONE);
    let settings = &setup.settings;
    let program = Program::server().args(["--watch", "--config", settings]);
    let mut serving = program.env("RUST_LOG", "relayer_rest_server=debug,info").start().await;
    setup.set(TWO);
    assert_eq!(reload(&serving).await.status, Some(0));
    setup.write("two.wasm", &responding(204));
    let mut http = serving.connect().await;
    http.get_until("/ext/two", |response| response.status == 204).await;
    // A reload without a change does not undo a swap.
    setup.write("other.wasm", &responding(203));
    let other = setup.folder.join("other.wasm");
    let swap = ["swap", "--mount", "/ext/two", other.to_str().unwrap()];
    let ended = serving.control(&swap).await;
    assert_eq!(ended.status, Some(0), "{}", ended.stdout);
    assert_eq!(reload(&serving).await.stdout, "unchanged  /, /ext/two\n");
    // The watcher handles its file again, which has the same content as before.
    setup.write("two.wasm", &responding(204));
    serving.logged("module file unchanged").await;
    assert_eq!(statuses(&serving, &PATHS).await, [200, 404, 203, 404]);
}

/// The watched candidate spins until it has used its time.
#[tokio::test]
async fn a_reload_during_the_preflight_of_a_watched_module_fails_at_once() {
    let setup = Setup::new(
        "[swap]\ntime = '1h'\n[[extension]]\nname = 'one'\nmodule = 'one.wasm'\nlimits.time = '1h'\n",
    );
    let settings = &setup.settings;
    let serving = Program::server().args(["--watch", "--config", settings]).start().await;
    setup.write("one.wasm", &component::of_handler("(loop br 0) unreachable"));
    let client = serving.control_client();
    while client.status().await.unwrap().mounts[1].candidate.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let ended = reload(&serving).await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(
        ended.stdout.contains("/ext/one: another deployment is in progress"),
        "{}",
        ended.stdout
    );
}

#[tokio::test]
async fn config_check_reports_the_same_errors_as_a_reload() {
    let setup = Setup::new(&format!("{ONE}{TWO}"));
    let settings = &setup.settings;
    let check = async || Program::new(["config", "check", settings]).run().await;
    let ended = check().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let lines: Vec<_> = ended.stdout.lines().collect();
    let short = Digest::new(&responding(201)).short();
    assert!(lines[1].starts_with(&format!("ok      /ext/one  one@{short}  ")), "{lines:?}");
    assert_eq!(lines.len(), 3);
    setup.set(&format!("{ONE}[[extension]]\nname = 'two'\nmodule = 'reads.wasm'\n"));
    let ended = check().await;
    assert_eq!(ended.status, Some(1));
    let wrong = ended.stdout.lines().last().unwrap();
    assert!(wrong.starts_with("FAILED  /ext/two  mount /ext/two: module "), "{wrong}");
    assert!(wrong.ends_with("set grants = [\"chains\"] in its [[extension]]"), "{wrong}");
    setup.set("[http]\nidle = '1ms'\n");
    let ended = check().await;
    assert_eq!(ended.status, Some(2));
    let message = "line 2, column 8: http.idle: 1ms is out of range; expected 1s to 1h\n";
    assert!(ended.stderr.ends_with(message), "{}", ended.stderr);
    // The printed default settings are valid, too.
    let ended = Program::new(["config", "default"]).run().await;
    assert_eq!((ended.status, &*ended.stdout), (Some(0), DEFAULT.as_str()));
    setup.set(&ended.stdout);
    assert_eq!(check().await.status, Some(0));
}
