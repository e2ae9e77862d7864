//! Is a module with WASI as confined as one without it?

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use relayer_rest_host::module::{Engine, EngineOptions, Grants, Limits, Module};
use relayer_rest_host::state::{ChainConfig, ChainKind};
use relayer_rest_tests::cargo::WASI_GUEST;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{TestServer, engine, extension, patient};
use relayer_rest_tests::watcher::Watcher;

/// Creates an engine with WASI, whose modules may import nothing of the contract.
fn with_wasi() -> Engine {
    let limits = Limits { time: Duration::from_millis(500), ..patient() };
    let grants = Grants::none();
    Engine::with(EngineOptions { wasi: true, grants, ..EngineOptions::from(&limits) }).unwrap()
}

async fn server() -> TestServer {
    let guest = extension("/ext/guest", &with_wasi(), WASI_GUEST);
    TestServer::builder().extension(guest).without_state().start().await
}

#[test]
fn wasi_is_rejected_unless_the_mount_enables_it() {
    let refused = Module::from_bytes(&engine(&patient()), "guest", WASI_GUEST);
    let message = refused.unwrap_err().to_string();
    let start = "module guest: forbidden imports (to allow WASI, set wasi = true in its \
        [[extension]], or in [module]): wasi:";
    assert!(message.starts_with(start), "{message}");
    assert!(message.contains("wasi:filesystem/preopens@0.2.") && message.contains(" (WASI), "));
}

/// WASI is only provided in one version: others are rejected.
#[test]
fn other_wasi_interfaces_are_rejected() {
    let importing =
        |name: &str| wat::parse_str(format!("(component (import \"{name}\" (instance)))")).unwrap();
    let later = " (the host has WASI 0.2: build it for that version): ";
    for (component, expected, advice) in [
        (importing("wasi:cli/stdout@0.3.0"), "wasi:cli/stdout@0.3.0 (not in the contract)", later),
        (
            importing("wasi:keyvalue/store@0.2.0"),
            "wasi:keyvalue/store@0.2.0 (not in the contract)",
            "",
        ),
        (
            component::that_imports("chains", "ids", 1),
            "imports without a grant: relayer:rest/chains@0.1.0",
            "",
        ),
    ] {
        let message = Module::from_bytes(&with_wasi(), "m", &component).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.contains(advice), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wasi_gives_no_access_to_the_system() {
    let server = server().await;
    let watcher = Watcher::start(server.address);
    let mut http = server.connect().await;
    for (path, expected) in [
        ("environment", "0 0"),
        ("stdin", "Ok(0)"),
        ("files", "refused, refused, refused, refused"),
        ("sockets", "refused, refused, refused, refused"),
        // The module would wait for an hour.
        ("wait", "0ns"),
        ("print", "printed"),
    ] {
        let response = http.get(&format!("/ext/guest/{path}")).await;
        assert_eq!((response.status.as_u16(), response.text()), (200, expected), "{path}");
    }
    for (path, status, name) in
        [("exit", 500, "Internal"), ("hoard", 500, "Internal"), ("flood", 504, "Timeout")]
    {
        let response = http.get(&format!("/ext/guest/{path}")).await;
        assert_eq!((response.status.as_u16(), &*response.error_name()), (status, name), "{path}");
    }
    watcher.stop().await;
}

/// The clock stands still, and reading it counts as a read: a response is valid until the
/// state changes.
#[tokio::test]
async fn the_clock_is_the_time_of_the_last_change() {
    let server = server().await;
    let runs = || server.registry.at("/ext/guest").unwrap().status().module().unwrap().runs;
    let now = || {
        let time = server.publisher.reader().snapshot().changed().time;
        time.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string()
    };
    let mut http = server.connect().await;
    let first = now();
    assert_eq!(http.get("/ext/guest/time").await.text(), first);
    assert_eq!(http.get("/ext/guest/time").await.text(), first);
    assert_eq!(http.get("/ext/guest/nothing").await.text(), "nothing");
    assert_eq!(runs(), 2);
    server.publisher.set_chain(ChainConfig::new("a", ChainKind::CosmosSdk));
    assert_ne!(now(), first);
    assert_eq!(http.get("/ext/guest/time").await.text(), now());
    // A response whose run did not read the clock does not depend on it.
    assert_eq!(http.get("/ext/guest/nothing").await.text(), "nothing");
    assert_eq!(runs(), 3);
}

#[tokio::test]
async fn random_numbers_are_the_same_for_each_request() {
    let server = server().await;
    let mut http = server.connect().await;
    let first = http.get("/ext/guest/random/1").await.text().to_owned();
    assert_eq!(http.get("/ext/guest/random/2").await.text(), first);
    let (one, other) = first.trim_matches(['[', ']']).split_once(", ").unwrap();
    assert!(one.len() > 8 && one != other, "{first}");
}

/// WASI is enabled in the settings, and output is written to the log.
#[tokio::test]
async fn output_is_logged() {
    let folder = Folder::new();
    let module = folder.join("guest.wasm");
    let config = folder.join("rest.toml");
    fs::write(&module, WASI_GUEST).unwrap();
    let settings = "[[extension]]\nname = 'guest'\nmodule = 'guest.wasm'\n";
    fs::write(&config, settings).unwrap();
    let checked = ["config", "check", config.to_str().unwrap()];
    let ended = Program::new(&checked).run().await;
    assert_eq!(ended.status, Some(1));
    assert!(ended.stdout.contains("set wasi = true in"), "{}", ended.stdout);
    let needs = ["check", "--dialect", "any", module.to_str().unwrap()];
    let ended = Program::new(&needs).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    let line = "\nneeds    grants = [], wasi = true (as an extension)\n";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);

    fs::write(
        &config,
        format!("{settings}wasi = true\nlimits.log = '4KiB'\nlimits.queue-wait = '10min'\n"),
    )
    .unwrap();
    let args = ["--config", config.to_str().unwrap()];
    let mut serving = Program::server().args(args).start().await;
    let mut http = Client::http1(serving.address()).await;
    // The pool for slow guests is covered, too.
    for number in 0..4 {
        let printed = http.get(&format!("/ext/guest/print/{number}")).await;
        assert_eq!(printed.text(), "printed");
        let id = printed.header("x-request-id").to_owned();
        serving.logged("three, and no end module=\"guest@").await;
        let of_it =
            serving.log().lines().filter(|line| line.contains(&id) && line.contains("module: "));
        assert_eq!(of_it.count(), 3, "{}", serving.log());
    }
    let lines: Vec<_> = serving.log().lines().filter(|line| line.contains("guest@")).collect();
    let told = |level: &str, text: &str| {
        let is_told = |line: &&str| {
            line.contains(level) && line.contains(&format!(": module: {text} module="))
        };
        assert_eq!(lines.iter().filter(|line| is_told(line)).count(), 4, "{text}: {lines:?}");
    };
    told(" INFO ", "one");
    told(" INFO ", r"two \u{1b}[2K");
    told(" WARN ", "three, and no end");
    // The API's module may use WASI, too.
    fs::write(&config, "[module]\nfile = 'guest.wasm'\nwasi = true\ndialect = 'any'\n").unwrap();
    let ended = Program::new(&checked).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    // Output has the same bounds as other log lines.
    assert_eq!(http.get("/ext/guest/flood").await.status, 504);
    serving.logged("log of a request truncated").await;
}
