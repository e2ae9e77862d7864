//! Are changed module files swapped in?

use std::fs;
use std::io::Write;

use relayer_rest_host::module::{DEFAULT_MODULE, Digest};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::{children, send_signal, started_child};
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::label;
use relayer_rest_tests::wait::{until, until_async};
use rustix::process::Signal;

#[tokio::test]
async fn a_changed_file_is_swapped_in_if_it_is_valid() {
    let folder = Folder::new();
    let path = folder.write("api.wasm", DEFAULT_MODULE);
    let mut serving = Program::server().args(["--module", &path, "--watch"]).start().await;
    let new = component::noted(DEFAULT_MODULE, "new");
    // Invalid files are rejected: another dialect, a truncated component, an empty file.
    for (broken, part) in [
        (component::with_response(200, "a", b"b"), "does not conform to dialect 0.7"),
        (new[..new.len() / 2].to_vec(), "not a valid component"),
        (Vec::new(), "not WebAssembly"),
    ] {
        fs::write(&path, broken).unwrap();
        serving.logged(part).await;
        assert_eq!(serving.label("/chains").await, label(DEFAULT_MODULE));
    }
    // The file is written in parts, as by a linker, and swapped in when it is complete.
    let mut file = fs::File::create(&path).unwrap();
    for part in new.chunks(new.len() / 5) {
        file.write_all(part).unwrap();
        file.flush().unwrap();
    }
    drop(file);
    serving.logged("module swapped").await;
    assert_eq!(serving.label("/chains").await, label(&new));
    // The file is replaced by a rename, as by an installer.
    let third = component::noted(DEFAULT_MODULE, "third");
    let beside = folder.join("api.wasm.tmp");
    fs::write(&beside, &third).unwrap();
    fs::rename(&beside, &path).unwrap();
    serving.logged("module swapped").await;
    assert_eq!(serving.label("/chains").await, label(&third));
}

/// A changed file must have the digest that the settings require.
#[tokio::test]
async fn a_changed_file_must_have_the_required_digest() {
    let folder = Folder::new();
    let path = folder.write("api.wasm", DEFAULT_MODULE);
    let wanted = Digest::new(DEFAULT_MODULE);
    let config = format!("[module]\nfile = 'api.wasm'\nsha256 = '{wanted}'\n");
    let config = folder.write("c.toml", config);
    let mut serving = Program::server().args(["--config", &config, "--watch"]).start().await;
    fs::write(&path, component::noted(DEFAULT_MODULE, "new")).unwrap();
    serving.logged(&format!("SHA-256 mismatch: expected {wanted}")).await;
    assert_eq!(serving.label("/chains").await, label(DEFAULT_MODULE));
}

/// The file may change right after it was read at the start.
#[tokio::test]
async fn a_file_that_changes_during_the_start_is_swapped_in() {
    let folder = Folder::new();
    let path = folder.write("api.wasm", DEFAULT_MODULE);
    let program = Program::server().args(["--module", &path, "--watch", "--no-code-cache"]);
    let starting = program.spawn();
    // The module has been read when it is compiled, and the watch has not begun.
    let compiler = started_child(starting.id()).await;
    send_signal(compiler, Signal::STOP);
    fs::write(path, component::noted(DEFAULT_MODULE, "new")).unwrap();
    send_signal(compiler, Signal::CONT);
    let serving = program.listening(starting).await.unwrap();
    let new = label(&component::noted(DEFAULT_MODULE, "new"));
    until_async("the new module serves", async || serving.label("/chains").await == new).await;
}

/// A module that was rejected for a temporary reason is tried again when its file is
/// touched.
#[tokio::test]
async fn a_file_that_took_too_long_is_tried_again_when_touched() {
    let folder = Folder::new();
    let path = folder.write("api.wasm", component::with_response(204, "a", b"b"));
    let config = folder.path("c.toml");
    let program = Program::server().args(["--module", &path, "--watch", "--config", &config]);
    // The time limit also applies to the start, which may take long on a busy machine.
    let mut seconds = 1;
    let mut serving = loop {
        let settings = format!("[module]\ndialect = 'any'\n[swap]\ntime = '{seconds}s'");
        folder.write("c.toml", settings);
        match program.clone().try_start().await {
            Ok(serving) => break serving,
            Err(ended) => assert!(ended.stderr.contains("no result within"), "{ended:?}"),
        }
        seconds *= 2;
    };
    for _ in 0..2 {
        fs::write(&path, component::hard_to_compile(16_000)).unwrap();
        // The compilation takes longer than any limit.
        send_signal(started_child(serving.id()).await, Signal::STOP);
        serving.logged(&format!("no result within {seconds}s")).await;
        until("the compiler is gone", || children(serving.id()).is_empty()).await;
    }
}

#[tokio::test]
async fn a_changed_file_is_ignored_without_watch() {
    let folder = Folder::new();
    let path = folder.write("api.wasm", DEFAULT_MODULE);
    let serving = Program::server().args(["--module", &path]).start().await;
    fs::write(&path, component::noted(DEFAULT_MODULE, "new")).unwrap();
    // Another server notices the change.
    let watching = Program::server().args(["--module", &path, "--watch"]).start().await;
    let changed = label(&component::noted(DEFAULT_MODULE, "changed"));
    fs::write(&path, component::noted(DEFAULT_MODULE, "changed")).unwrap();
    let is_noticed = async || watching.label("/chains").await == changed;
    until_async("the other server swaps", is_noticed).await;
    assert_eq!(serving.label("/chains").await, label(DEFAULT_MODULE));
}
