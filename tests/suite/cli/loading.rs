//! Do modules pass the same checks at the start as in a swap, and does a server listen before
//! slow extensions are loaded?

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::{children, send_signal, started_child};
use relayer_rest_tests::program::{Ended, Program, Serving};
use relayer_rest_tests::wait::until_async;
use rustix::process::Signal;

use super::admin::Admin;
use super::check_failure;

/// A module that takes a while to compile, as an extension.
const SLOW: &str = "[[extension]]\nname = 'slow'\nmodule = 'slow.wasm'\ngrants = ['version', 'chains', 'state', 'snapshot', 'telemetry', 'commands', 'request', 'query', 'mount', 'log']\n";

/// An extension whose file may be missing or unsuitable.
const TOOL: &str = "[[extension]]\nname = 'tool'\nmodule = 'tool.wasm'\n";

const ADMIN: &str = "[admin]\nlisten = '127.0.0.1:0'\n";

fn slow(note: &str) -> Vec<u8> {
    component::noted(DEFAULT_MODULE, note)
}

async fn status(serving: &Serving) -> String {
    serving.control(&["status"]).await.stdout
}

/// Returns the line of the log with this text, which may have been read already.
async fn logged(serving: &mut Serving, text: &str) -> String {
    let known = serving.log().lines().find(|line| line.contains(text)).map(ToOwned::to_owned);
    match known {
        Some(line) => line,
        None => serving.logged(text).await,
    }
}

/// Returns the lines of the metrics about the state of a mount.
async fn states(serving: &Serving, mount: &str) -> Vec<String> {
    let metrics = serving.control_client().metrics().await.unwrap();
    let start = format!("relayer_rest_mount_state{{mount=\"{mount}\"");
    metrics.lines().filter(|line| line.starts_with(&start)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn the_api_serves_while_extensions_are_loaded() {
    let files = Folder::new();
    files.write("slow.wasm", slow("1"));
    let settings = format!("{SLOW}[[extension]]\nname = 'health'\n{ADMIN}");
    let config = files.write("c.toml", settings);
    let program = Program::server().args(["--config", &config, "--no-code-cache"]);
    let starting = program.spawn();
    let compiler = started_child(starting.id()).await;
    send_signal(compiler, Signal::STOP);
    let mut serving = program.listening(starting).await.unwrap();
    let admin = Admin::of(&mut serving).await;

    let mut client = serving.connect().await;
    assert_eq!(client.get("/chains").await.status, 200);
    assert_eq!(client.get("/ext/health/livez").await.status, 200);
    let message = "the extension at /ext/slow is being loaded; try again";
    for path in ["/ext/slow", "/ext/slow/version?a=b"] {
        let response = client.get(path).await;
        response.check_error(503, "ExtensionLoading", message);
        assert_eq!(response.header("retry-after"), "1");
        let accept = [("accept", "text/event-stream")];
        let no_stream = client.request_with("GET", path, &accept).await;
        no_stream.check_error(503, "ExtensionLoading", message);
    }
    let shown = status(&serving).await;
    assert!(shown.contains("\n/ext/slow  slow\n  dialect any\n  loading: "), "{shown}");
    assert!(shown.contains("slow.wasm (step compile)"), "{shown}");
    let top = serving.control(&["top", "--once"]).await.stdout;
    assert!(top.contains("loading"), "{top}");
    let line = "[+]extension/slow not required: being loaded\n";
    let (code, text) = admin.get("/readyz").await;
    assert!(code == 200 && text.contains(line), "{text}");
    let loading = r#"relayer_rest_mount_state{mount="/ext/slow",state="loading"} 1"#;
    assert_eq!(states(&serving, "/ext/slow").await[0], loading);
    logged(&mut serving, "still compiling a module").await;
    // Another deployment there has to wait, and one elsewhere has not.
    let module = files.write("new.wasm", slow("2"));
    let swap = serving.control(&["swap", &module, "--mount", "/ext/slow"]).await;
    assert!(swap.stdout.contains("another deployment is in progress"), "{}", swap.stdout);
    assert!(swap.stdout.ends_with("\nthe mount has no module\n"), "{}", swap.stdout);
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));

    send_signal(compiler, Signal::CONT);
    logged(&mut serving, "module loaded mount=/ext/slow").await;
    // The other connection may have been idle for too long.
    assert_eq!(serving.connect().await.get("/ext/slow/version").await.status, 200);
    assert_eq!(admin.get("/readyz").await, (200, "ok".to_owned()));
    assert_ne!(states(&serving, "/ext/slow").await[0], loading);
}

/// Code that is cached is there when the server listens.
#[tokio::test]
async fn extensions_with_cached_code_are_loaded_before_the_server_listens() {
    let files = Folder::new();
    files.write("slow.wasm", slow("cached"));
    let config = files.write("c.toml", SLOW);
    let program = Program::server().args(["--config", &config, "--code-cache"]);
    let program = program.args([files.path("cache")]);
    program.clone().start().await.stop().await;
    let serving = program.try_start().await.unwrap();
    assert_eq!(serving.connect().await.get("/ext/slow/version").await.status, 200);
    assert_eq!(children(serving.id()), [0; 0]);
}

#[tokio::test]
async fn an_unsuitable_extension_is_disabled_until_it_is_corrected() {
    let files = Folder::new();
    let file = files.path("tool.wasm");
    let config = files.write("c.toml", format!("{TOOL}{ADMIN}"));
    let good = files.write("good.wasm", component::of_response(201, &[], b""));
    let reads = component::that_imports("chains", "ids", 1);
    for (module, reason) in [
        (None, "cannot be read: "),
        (Some(reads), "imports without a grant: relayer:rest/chains@0.1.0"),
        (Some(component::of_handler("unreachable")), "the module trapped"),
    ] {
        fs::remove_file(&file).ok();
        if let Some(module) = &module {
            files.write("tool.wasm", module);
        }
        let mut serving = Program::server().args(["--config", &config]).start().await;
        let admin = Admin::of(&mut serving).await;
        let logged = logged(&mut serving, "extension disabled").await;
        let line = |text: &str| {
            let line = text.lines().find(|line| line.contains(reason)).unwrap_or_default();
            assert!(line.contains(&format!("mount /ext/tool: module {file}: ")), "{text}");
            line.to_owned()
        };
        line(&logged);
        let mut client = serving.connect().await;
        assert_eq!(client.get("/chains").await.status, 200);
        let message = "this extension is out of service; the log of the server has the reason";
        client.get("/ext/tool/a").await.check_error(503, "ExtensionUnavailable", message);
        assert!(line(&status(&serving).await).starts_with("  DISABLED: "));
        let (code, text) = admin.get("/readyz").await;
        assert_eq!(code, 200, "{text}");
        assert!(line(&text).starts_with("[+]extension/tool not required: disabled: "), "{text}");
        assert!(text.ends_with("\nreadyz check passed\n"), "{text}");
        let disabled = r#"relayer_rest_mount_state{mount="/ext/tool",state="disabled"} 1"#;
        assert!(states(&serving, "/ext/tool").await.contains(&disabled.to_owned()));
        let top = serving.control(&["top", "--once"]).await.stdout;
        assert!(top.contains("disabled"), "{top}");
        let rolled_back = serving.control(&["rollback", "--mount", "/ext/tool"]).await;
        assert!(rolled_back.stderr.contains("it has no module yet"), "{rolled_back:?}");

        // A reload tries it again, and does not reject the rest of the settings for it.
        let reloaded = serving.control(&["reload"]).await;
        assert_eq!(reloaded.status, Some(1));
        assert!(reloaded.stdout.starts_with("unchanged  /, /ext/tool\n"), "{reloaded:?}");
        assert!(line(&reloaded.stdout).starts_with("rejected: mount /ext/tool: "));
        // It is enabled by a swap, or by a reload of the corrected file.
        if module.is_none() {
            let swapped = serving.control(&["swap", &good, "--mount", "/ext/tool"]).await;
            assert!(swapped.stdout.contains("\nenabled: "), "{swapped:?}");
        } else {
            fs::copy(&good, &file).unwrap();
            let reloaded = serving.control(&["reload"]).await;
            let expected = "unchanged  /\nreplaced   /ext/tool\n";
            assert_eq!((reloaded.status, &*reloaded.stdout), (Some(0), expected));
        }
        assert_eq!(client.get("/ext/tool/a").await.status, 201);
        assert_eq!(admin.get("/readyz").await, (200, "ok".to_owned()));
    }
}

#[tokio::test]
async fn a_watched_file_enables_a_disabled_extension() {
    let files = Folder::new();
    let config = files.write("c.toml", TOOL);
    let serving = Program::server().args(["--watch", "--config", &config]).start().await;
    let mut client = serving.connect().await;
    assert_eq!(client.get("/ext/tool").await.status, 503);
    files.replace("tool.wasm", component::of_response(201, &[], b""));
    client.get_until("/ext/tool", |response| response.status == 201).await;
}

#[tokio::test]
async fn a_server_does_not_start_without_a_required_extension() {
    let files = Folder::new();
    let config = files.write("c.toml", format!("{TOOL}required = true\n"));
    let start = || Program::server().args(["--config", &config, "--no-code-cache"]);
    let message = format!("mount /ext/tool: module {}: ", files.path("tool.wasm"));
    check_failure(&start().run().await, 2, &format!("{message}cannot be read: "));
    files.write("tool.wasm", "text");
    check_failure(&start().run().await, 2, &format!("{message}not WebAssembly; "));
    // The server listens when it is loaded.
    files.write("tool.wasm", slow("required"));
    files.write("c.toml", format!("{TOOL}required = true\n{}", SLOW.lines().last().unwrap()));
    let program = start();
    let starting = program.spawn();
    let compiler = started_child(starting.id()).await;
    send_signal(compiler, Signal::STOP);
    assert!(!program.socket_path().exists());
    send_signal(compiler, Signal::CONT);
    let serving = program.listening(starting).await.unwrap();
    assert_eq!(serving.connect().await.get("/ext/tool/version").await.status, 200);
}

/// The message is the same, too.
#[tokio::test]
async fn a_start_and_config_check_reject_each_module_that_a_swap_rejects() {
    let files = Folder::new();
    let file = files.path("api.wasm");
    let config = files.write("c.toml", "[module]\nfile = 'api.wasm'\n");
    let serving = Program::server().start().await;
    for module in [
        component::with_response(200, "a", b"b"),
        component::of_handler("unreachable"),
        component::with_response(99, "a", b"b"),
        wat::parse_str("(component)").unwrap(),
        b"text".to_vec(),
    ] {
        files.write("api.wasm", module);
        let swapped = serving.control(&["swap", &file]).await.stdout;
        let rejected = swapped.lines().find_map(|line| line.strip_prefix("rejected: ")).unwrap();
        check_failure(&Program::server().args(["--module", &file]).run().await, 2, rejected);
        let checked = Program::new(["config", "check", &config]).run().await;
        assert_eq!((checked.status, checked.stdout), (Some(1), format!("FAILED  /  {rejected}\n")));
    }
}

/// An extension that the server must have is rejected as the module of the API is.
#[tokio::test]
async fn a_start_and_config_check_reject_each_required_extension_that_a_swap_rejects() {
    let files = Folder::new();
    let good = files.write("tool.wasm", component::of_response(201, &[], b"good"));
    let optional = files.write("optional.toml", TOOL);
    let serving = Program::server().args(["--config", &optional]).start().await;
    let required = files.write("required.toml", format!("{TOOL}required = true\n"));
    for module in [
        component::of_handler("unreachable"),
        component::with_response(99, "a", b"b"),
        component::that_counts_chains(1, 200),
        wat::parse_str("(component)").unwrap(),
        b"text".to_vec(),
    ] {
        fs::write(&good, module).unwrap();
        let swap = ["swap", &good, "--mount", "/ext/tool"];
        let swapped = serving.control(&swap).await.stdout;
        let rejected = swapped.lines().find_map(|line| line.strip_prefix("rejected: ")).unwrap();
        let started = Program::server().args(["--config", &required]).run().await;
        check_failure(&started, 2, rejected);
        let checked = Program::new(["config", "check", &required]).run().await;
        let failed = format!("FAILED  /ext/tool  {rejected}\n");
        assert_eq!(checked.status, Some(1));
        assert!(checked.stdout.contains(&failed), "{failed}{}", checked.stdout);
    }
}

/// Compilation is the most expensive step.
#[tokio::test]
async fn a_module_whose_imports_are_not_granted_is_not_compiled() {
    let files = Folder::new();
    files.write("tool.wasm", component::of_response(201, &[], b"good"));
    let config = files.write("c.toml", TOOL);
    let cache = files.join("cache");
    let args = ["--config", &config, "--code-cache", cache.to_str().unwrap()];
    let serving = Program::server().args(args).start().await;
    let before = entries(&cache);
    let swapped = async |module| {
        let file = files.write("other.wasm", module);
        serving.control(&["swap", &file, "--mount", "/ext/tool"]).await.stdout
    };
    let rejected = swapped(component::that_counts_chains(1, 200)).await;
    assert!(rejected.contains("grants = [\"chains\"]"), "{rejected}");
    assert_eq!(entries(&cache), before);
    let accepted = swapped(component::of_response(202, &[], b"other")).await;
    assert!(!accepted.contains("rejected: "), "{accepted}");
    assert_ne!(entries(&cache), before);
}

/// Returns the files of a code cache, which are other ones after a compilation.
fn entries(cache: &Path) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(cache).unwrap();
    let inode = |entry: fs::DirEntry| {
        let meta = entry.metadata().unwrap();
        (meta.ino(), meta.size())
    };
    let mut entries: Vec<_> = entries.map(|entry| inode(entry.unwrap())).collect();
    entries.sort_unstable();
    entries
}

#[tokio::test]
async fn the_code_of_a_checked_module_is_not_compiled_again() {
    let files = Folder::new();
    let module = files.write("tool.wasm", component::of_response(201, &[], b"checked"));
    let other = files.write("other.wasm", component::of_response(202, &[], b"checked"));
    let config = files.write("c.toml", TOOL);
    let cache = files.join("cache");
    let cached = |program: Program| program.env("RELAYER_REST_CODE_CACHE", &cache);
    for module in [&module, &other] {
        let checked = cached(Program::new(["check", "--dialect", "any", module])).run().await;
        assert_eq!(checked.status, Some(0), "{checked:?}");
    }
    let checked = cached(Program::new(["config", "check", &config])).run().await;
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let kept = entries(&cache);
    // The server finds the code of the extension before it listens.
    let program = cached(Program::server().args(["--config", &config]));
    let serving = program.try_start().await.unwrap();
    let mut client = serving.connect().await;
    assert_eq!(client.get("/ext/tool").await.status, 201);
    let swapped = serving.control(&["swap", &other, "--mount", "/ext/tool"]).await;
    assert_eq!(swapped.status, Some(0), "{swapped:?}");
    assert_eq!(client.get("/ext/tool").await.status, 202);
    assert_eq!(entries(&cache), kept);
}

#[tokio::test]
async fn a_takeover_waits_for_all_extensions() {
    let files = Folder::new();
    files.write("slow.wasm", slow("taken over"));
    let config = files.write("c.toml", SLOW);
    let program = Program::server().args(["--config", &config, "--no-code-cache"]);
    let old = program.clone().start().await;
    let address = old.address();
    let taking = program.clone().args(["--takeover"]);
    let starting = taking.spawn();
    let compiler = started_child(starting.id()).await;
    send_signal(compiler, Signal::STOP);
    assert_eq!(old.connect().await.get("/ext/slow/version").await.status, 200);
    assert_eq!(old.control_client().status().await.unwrap().pid.cast_signed(), old.id());
    send_signal(compiler, Signal::CONT);
    let new = taking.listening(starting).await.unwrap();
    assert_eq!(new.address(), address);
    assert_eq!(Client::http1(address).await.get("/ext/slow/version").await.status, 200);
    assert_eq!(old.ended().await.status, Some(0));

    // An extension is not lost by a takeover.
    files.write("slow.wasm", "text");
    let ended: Ended = program.args(["--takeover"]).run().await;
    let message = format!("--takeover: mount /ext/slow: module {}: ", files.path("slow.wasm"));
    check_failure(&ended, 2, &message);
    until_async("the old server serves", async || {
        Client::http1(address).await.get("/ext/slow/version").await.status == 200
    })
    .await;
}
