//! Does the command behave as documented?

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use relayer_rest_tests::client::Client;
use relayer_rest_tests::command::{self, Ended, Serving};
use relayer_rest_tests::component;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_relayer-rest-under-test"))
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_code_cache_that_is_no_folder_is_rejected() {
    let folder = folder();
    let bad = file(&folder, "no-folder", "text");
    let ended = command::run(program(), &["--listen", "127.0.0.1:0", "--code-cache", &bad]).await;
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("choose a folder of your own"), "{}", ended.stderr);
}

const CONFIG: &str = include_str!("../../fixtures/hermes-0.7.toml");

async fn serve(args: &[&str]) -> Serving {
    command::serve(program(), args).await
}

async fn run(args: &[&str]) -> Ended {
    command::run(program(), args).await
}

fn signal(process: &Serving, signal: Signal) {
    kill_process(Pid::from_raw(process.id()).unwrap(), signal).unwrap();
}

/// Checks the status, and the message, which is the last line on stderr.
#[track_caller]
fn check_failure(ended: &Ended, status: i32, message: &str) {
    assert_eq!(ended.status, Some(status), "{ended:?}");
    assert_eq!(ended.stdout, "", "nothing is served");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with(&format!("relayer-rest: {message}")), "{last}");
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[tokio::test]
async fn without_a_configuration_the_sample_is_served() {
    for args in [&["--listen", "127.0.0.1:0"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let process = serve(args).await;
        let mut client = Client::http1(process.address()).await;
        client
            .get("/chains")
            .await
            .check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
        assert!(client.get("/state").await.text().contains("07-tendermint-1"));
        signal(&process, Signal::TERM);
        let ended = process.ended().await;
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_relayers_configuration_is_served_where_it_says() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = folder();
    let config =
        file(&folder, "config.toml", CONFIG.replace("port = 3000", &format!("port = {free}")));
    let process = serve(&["serve", "--relayer-config", &config]).await;
    assert_eq!(process.line, format!("http://127.0.0.1:{free}"));
    let mut client = Client::http1(process.address()).await;
    assert_eq!(client.get("/chain/ibc-1").await.status, 200);
    signal(&process, Signal::TERM);
    assert_eq!(process.ended().await.status, Some(0));
}

#[tokio::test]
async fn listen_overrides_the_relayers_host_and_port() {
    let folder = folder();
    let config = file(
        &folder,
        "config.toml",
        CONFIG.replace("'127.0.0.1'\nport = 3000", "'192.0.2.1'\nport = 1"),
    );
    // The test uses IPv6 if the machine has it.
    let host = TcpListener::bind("[::1]:0").map_or("127.0.0.1", |_| "[::1]");
    let process = serve(&["--relayer-config", &config, "--listen", &format!("{host}:0")]).await;
    assert!(process.line.starts_with(&format!("http://{host}:")), "{}", process.line);
    assert_ne!(process.address().port(), 0);
    assert_eq!(Client::http1(process.address()).await.get("/chains").await.status, 200);
}

#[tokio::test]
async fn with_a_configuration_alone_the_state_is_not_ready() {
    let folder = folder();
    let config = file(&folder, "config.toml", CONFIG);
    let process = serve(&["--relayer-config", &config, "--listen", "127.0.0.1:0"]).await;
    let answer = Client::http1(process.address()).await.get("/state").await;
    let msg = "the relayer's state is not known: its configuration file tells the chains, not the \
        workers; start with --upstream URL or --state FILE to give them";
    answer.check_error(503, "NotReady", msg);
    assert_eq!(answer.header("retry-after"), "60");
    signal(&process, Signal::TERM);
    let ended = process.ended().await;
    assert!(ended.stderr.contains("/state answers 503 NotReady: "), "{}", ended.stderr);
}

#[tokio::test]
async fn an_api_that_is_switched_off_ends_with_3() {
    let folder = folder();
    for (name, text, state) in [
        ("false.toml", "[rest]\nenabled = false", "`enabled` in the section [rest] is false"),
        ("missing.toml", "[rest]\nport = 1", "`enabled` in the section [rest] is missing"),
        ("no-rest.toml", "[[chains]]\nid = 'a'", "`enabled` in the section [rest] is missing"),
        ("empty.toml", "", "`enabled` in the section [rest] is missing"),
    ] {
        let config = file(&folder, name, text);
        for listen in [None, Some("127.0.0.1:0")] {
            let mut args = vec!["--relayer-config", &config];
            args.extend(listen.iter().flat_map(|address| ["--listen", address]));
            let message = format!(
                "relayer configuration {config}: {state}; set `enabled = true` in the section [rest] to serve the API"
            );
            check_failure(&run(&args).await, 3, &message);
        }
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_ends_with_2() {
    let folder = folder();
    let chain = "[rest]\nenabled = true\n[[chains]]\nid = 'ibc-0'\n";
    let missing = folder.path().join("missing.toml");
    for (text, message) in [
        (include_str!("../../fixtures/malformed.toml").to_owned(), "line 9, column "),
        (
            "[rest]\nenabled = true\nport = 70000".to_owned(),
            "line 3, column 8: rest.port: invalid value: integer `70000`",
        ),
        (
            "[rest]\nenabled = 'yes'".to_owned(),
            "line 2, column 11: rest.enabled: invalid type: string \"yes\"",
        ),
        (
            format!("{chain}max_gas = 'lots'"),
            "line 5, column 11: chain 'ibc-0': max_gas: invalid type: string \"lots\", expected u64",
        ),
        (
            format!("{chain}max_gas = -1"),
            "line 5, column 11: chain 'ibc-0': max_gas: invalid value: integer `-1`, expected u64",
        ),
        (
            format!("{chain}gas_price = {{ price = 'x', denom = 'a' }}"),
            "line 5, column 23: chain 'ibc-0': gas_price.price: invalid type",
        ),
        (
            format!("{chain}rpc_timeout = '10 parsecs'"),
            "line 5, column 15: chain 'ibc-0': rpc_timeout: '10 parsecs' is not a duration",
        ),
        (
            format!("{chain}rpc_addr = 'hunter2'"),
            "line 5, column 12: chain 'ibc-0': rpc_addr: not a URL (relative URL without a base); expected",
        ),
        (
            format!("{chain}trust_threshold = '2/0'"),
            "line 5, column 19: chain 'ibc-0': trust_threshold: the denominator is 0",
        ),
        (
            format!("{chain}gas_multiplier = nan"),
            "line 5, column 18: chain 'ibc-0': gas_multiplier: invalid value: floating point `NaN`, expected a finite number",
        ),
        (
            format!("{chain}[[chains]]\nid = 'ibc-0'"),
            "line 6, column 6: chain 'ibc-0' is already configured in line 4; remove one of the two",
        ),
        (
            "[rest]\nenabled = true\n[[chains]]\nmax_gas = 1".to_owned(),
            "line 3, column 1: chains[0]: missing field `id`",
        ),
    ] {
        let config = file(&folder, "config.toml", &text);
        let ended = run(&["--relayer-config", &config, "--listen", "127.0.0.1:0"]).await;
        check_failure(&ended, 2, &format!("relayer configuration {config}: {message}"));
        assert!(!ended.stderr.contains("hunter2"), "a URL may hold a password");
    }
    let ended = run(&["--relayer-config", missing.to_str().unwrap()]).await;
    check_failure(
        &ended,
        2,
        &format!("relayer configuration {}: cannot be read: ", missing.display()),
    );
    let config = file(&folder, "latin1.toml", b"a = 1\nb = '\xe9'");
    let ended = run(&["--relayer-config", &config]).await;
    check_failure(&ended, 2, &format!("relayer configuration {config}: line 2 is not UTF-8 text"));
}

#[tokio::test]
async fn an_address_in_use_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["--listen", &address]).await;
    check_failure(&ended, 2, &format!("cannot listen on {address}: "));
    assert!(ended.stderr.contains("another program listens there"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_address_that_is_none_ends_with_2() {
    for listen in ["127.0.0.1", "127.0.0.1:port", ":3000"] {
        let ended = run(&["--listen", listen]).await;
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("--listen <HOST:PORT>"), "{}", ended.stderr);
    }
    check_failure(&run(&["--listen", "192.0.2.1:0"]).await, 2, "cannot listen on 192.0.2.1:0: ");
}

#[tokio::test]
async fn a_module_in_a_file_is_served() {
    let folder = folder();
    let module = file(&folder, "api.wasm", component::of_answer(299, "x-made-by", b"hand"));
    let process = serve(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    assert_eq!(Client::http1(process.address()).await.get("/").await.status, 299);
}

#[tokio::test]
async fn a_module_that_is_refused_ends_with_2() {
    let folder = folder();
    let module = file(&folder, "api.wasm", "not wasm");
    let ended = run(&["--listen", "127.0.0.1:0", "--module", &module]).await;
    check_failure(&ended, 2, &format!("module {module}: is not WebAssembly"));
}

#[tokio::test]
async fn the_settings_name_the_module_and_its_limits() {
    let folder = folder();
    file(&folder, "api.wasm", component::of_handler("(loop br 0) unreachable"));
    let text = "[module]\nfile = 'api.wasm'\n[module.limits]\ntime = '20ms'\n";
    let config = file(&folder, "relayer-rest.toml", text);
    let process = serve(&["--listen", "127.0.0.1:0", "--config", &config]).await;
    let answer = Client::http1(process.address()).await.get("/").await;
    answer.check_error(504, "Timeout", "the request took too long to handle");
}

#[tokio::test]
async fn settings_that_cannot_be_used_end_with_2() {
    let folder = folder();
    let config = file(&folder, "relayer-rest.toml", "[module]\npath = 'x'");
    let ended = run(&["--config", &config]).await;
    check_failure(
        &ended,
        2,
        &format!("configuration {config}: line 2, column 1: module.path: unknown field `path`"),
    );
}

/// Endless files are rejected, too.
#[tokio::test]
async fn settings_that_are_no_text_end_with_2() {
    let folder = folder();
    let latin = file(&folder, "latin.toml", b"[module]\n# \xe9");
    for (config, message) in [
        (latin.as_str(), "line 2, column 3: it is not UTF-8; save it as such"),
        ("/dev/zero", "cannot be read: it is larger than 4.0 MiB; "),
    ] {
        let ended = run(&["--config", config]).await;
        check_failure(&ended, 2, &format!("configuration {config}: {message}"));
    }
}

#[tokio::test]
async fn options_that_say_two_things_are_refused() {
    for options in [["--control=c", "--no-control"], ["--code-cache=c", "--no-code-cache"]] {
        let ended = run(&options).await;
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn help_and_version_are_shown() {
    let help = run(&["--help"]).await;
    assert_eq!(help.status, Some(0));
    for option in [
        "serve",
        "--relayer-config <FILE>",
        "--listen <HOST:PORT>",
        "--module <FILE.wasm>",
        "--config <FILE>",
    ] {
        assert!(help.stdout.contains(option), "{option}: {}", help.stdout);
    }
    let version = run(&["--version"]).await;
    assert_eq!(version.stdout, format!("relayer-rest {}\n", env!("CARGO_PKG_VERSION")));
}
