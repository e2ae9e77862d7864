//! Does the command behave as documented?

use std::net::TcpListener;

use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use rustix::process::Signal;

use super::check_failure;

#[tokio::test]
async fn a_code_cache_that_is_not_a_folder_is_rejected() {
    let folder = Folder::new();
    let bad = folder.write("no-folder", "text");
    let ended = Program::server().args(["--code-cache", &bad]).run().await;
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("choose another folder"), "{}", ended.stderr);
}

const CONFIG: &str = include_str!("../../fixtures/hermes-0.7.toml");

#[tokio::test]
async fn the_sample_is_served_without_a_configuration() {
    for args in [&["--listen", "127.0.0.1:0"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let process = Program::new(args).start().await;
        let mut client = process.connect().await;
        client
            .get("/chains")
            .await
            .check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
        assert!(client.get("/state").await.text().contains("07-tendermint-1"));
        process.signal(Signal::TERM);
        let ended = process.ended().await;
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn the_address_comes_from_the_relayers_configuration() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = Folder::new();
    let config =
        folder.write("config.toml", CONFIG.replace("port = 3000", &format!("port = {free}")));
    let process = Program::new(["serve", "--relayer-config", &config]).start().await;
    assert_eq!(process.line, format!("http://127.0.0.1:{free}"));
    let mut client = process.connect().await;
    assert_eq!(client.get("/chain/ibc-1").await.status, 200);
    process.signal(Signal::TERM);
    assert_eq!(process.ended().await.status, Some(0));
}

#[tokio::test]
async fn listen_overrides_the_relayers_host_and_port() {
    let folder = Folder::new();
    let config = folder
        .write("config.toml", CONFIG.replace("'127.0.0.1'\nport = 3000", "'192.0.2.1'\nport = 1"));
    // The test uses IPv6 if the machine has it.
    let host = TcpListener::bind("[::1]:0").map_or("127.0.0.1", |_| "[::1]");
    let process =
        Program::new(["--relayer-config", &config, "--listen", &format!("{host}:0")]).start().await;
    assert!(process.line.starts_with(&format!("http://{host}:")), "{}", process.line);
    assert_ne!(process.address().port(), 0);
    assert_eq!(process.connect().await.get("/chains").await.status, 200);
}

#[tokio::test]
async fn the_state_is_not_ready_with_a_configuration_alone() {
    let folder = Folder::new();
    let config = folder.write("config.toml", CONFIG);
    let process =
        Program::new(["--relayer-config", &config, "--listen", "127.0.0.1:0"]).start().await;
    let response = process.connect().await.get("/state").await;
    let msg = "the relayer's state is not known: its configuration file has the chains, not the \
        workers; start with --upstream URL or --state FILE";
    response.check_error(503, "NotReady", msg);
    assert_eq!(response.header("retry-after"), "60");
    process.signal(Signal::TERM);
    let ended = process.ended().await;
    assert!(ended.stderr.contains("state unavailable"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_disabled_api_ends_with_3() {
    let folder = Folder::new();
    for (name, text, state) in [
        ("false.toml", "[rest]\nenabled = false", "`enabled` in the section [rest] is false"),
        ("missing.toml", "[rest]\nport = 1", "`enabled` in the section [rest] is missing"),
        ("no-rest.toml", "[[chains]]\nid = 'a'", "`enabled` in the section [rest] is missing"),
        ("empty.toml", "", "`enabled` in the section [rest] is missing"),
    ] {
        let config = folder.write(name, text);
        for listen in [None, Some("127.0.0.1:0")] {
            let mut args = vec!["--relayer-config", &config];
            args.extend(listen.iter().flat_map(|address| ["--listen", address]));
            let message = format!(
                "relayer configuration {config}: {state}; set `enabled = true` in the section [rest] to serve the API, or start with --enable"
            );
            check_failure(&Program::new(&args).run().await, 3, &message);
        }
        let args = ["--relayer-config", &config, "--enable"];
        let serving = Program::server().args(args).start().await;
        assert_eq!(serving.connect().await.get("/chains").await.status, 200, "{name}");
        // A change of the file does not disable it either.
        folder.write(name, "[rest]\nenabled = false\n# changed");
        assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    }
}

#[tokio::test]
async fn an_invalid_relayer_configuration_ends_with_2() {
    let folder = Folder::new();
    let chain = "[rest]\nenabled = true\n[[chains]]\nid = 'ibc-0'\n";
    let missing = folder.join("missing.toml");
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
        let config = folder.write("config.toml", &text);
        let ended =
            Program::new(["--relayer-config", &config, "--listen", "127.0.0.1:0"]).run().await;
        check_failure(&ended, 2, &format!("relayer configuration {config}: {message}"));
        assert!(!ended.stderr.contains("hunter2"), "a URL may hold a password");
    }
    let ended = Program::new(["--relayer-config", missing.to_str().unwrap()]).run().await;
    check_failure(
        &ended,
        2,
        &format!("relayer configuration {}: cannot be read: ", missing.display()),
    );
    let config = folder.write("latin1.toml", b"a = 1\nb = '\xe9'");
    let ended = Program::new(["--relayer-config", &config]).run().await;
    check_failure(&ended, 2, &format!("relayer configuration {config}: line 2 is not UTF-8 text"));
}

#[tokio::test]
async fn an_address_in_use_ends_with_2() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Program::new(["--listen", &address]).run().await;
    check_failure(&ended, 2, &format!("address {address}: cannot listen: "));
    assert!(ended.stderr.contains("stop the program that listens there"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_invalid_address_ends_with_2() {
    for listen in ["127.0.0.1", "127.0.0.1:port", ":3000"] {
        let ended = Program::new(["--listen", listen]).run().await;
        assert_eq!(ended.status, Some(2), "{ended:?}");
        let start = format!("relayer-rest: --listen: {listen:?}: ");
        assert!(ended.stderr.starts_with(&start), "{}", ended.stderr);
    }
    check_failure(
        &Program::new(["--listen", "192.0.2.1:0"]).run().await,
        2,
        "address 192.0.2.1:0: cannot listen: ",
    );
}

#[tokio::test]
async fn a_module_in_a_file_is_served() {
    let folder = Folder::new();
    let module = folder.write("api.wasm", component::with_response(299, "x-made-by", b"hand"));
    let args = ["--module", &module, "--dialect", "any"];
    let process = Program::server().args(args).start().await;
    assert_eq!(process.connect().await.get("/").await.status, 299);
}

#[tokio::test]
async fn an_invalid_module_ends_with_2() {
    let folder = Folder::new();
    let module = folder.write("api.wasm", "not wasm");
    let ended = Program::server().args(["--module", &module]).run().await;
    check_failure(&ended, 2, &format!("mount /: module {module}: not WebAssembly"));
}

#[tokio::test]
async fn the_settings_name_the_module_and_its_limits() {
    let folder = Folder::new();
    let spins = format!("{} (loop br 0) unreachable", component::only_for(component::TRAP));
    folder.write("api.wasm", component::of_handler(&spins));
    let text = "[module]\nfile = 'api.wasm'\ndialect = 'any'\n[module.limits]\ntime = '20ms'\n";
    let config = folder.write("relayer-rest.toml", text);
    let process = Program::server().args(["--config", &config]).start().await;
    let response = process.connect().await.get(component::TRAP).await;
    response.check_error(504, "Timeout", "the request took too long to handle");
}

#[tokio::test]
async fn invalid_settings_end_with_2() {
    let folder = Folder::new();
    let config = folder.write("relayer-rest.toml", "[module]\npath = 'x'");
    let ended = Program::new(["--config", &config]).run().await;
    check_failure(
        &ended,
        2,
        &format!("configuration {config}: line 2, column 1: module.path: unknown field `path`"),
    );
}

/// Endless files are rejected, too.
#[tokio::test]
async fn settings_that_are_not_text_end_with_2() {
    let folder = Folder::new();
    let latin = folder.write("latin.toml", b"[module]\n# \xe9");
    for (config, message) in [
        (latin.as_str(), "line 2, column 3: not UTF-8; save the file as UTF-8"),
        ("/dev/zero", "cannot be read: larger than 4.0 MiB; "),
    ] {
        let ended = Program::new(["--config", config]).run().await;
        check_failure(&ended, 2, &format!("configuration {config}: {message}"));
    }
}

#[tokio::test]
async fn contradictory_options_are_rejected() {
    for options in [["--control=c", "--no-control"], ["--code-cache=c", "--no-code-cache"]] {
        let ended = Program::new(&options).run().await;
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn help_and_version_are_shown() {
    let help = Program::new(["--help"]).run().await;
    assert_eq!(help.status, Some(0));
    for option in [
        "serve",
        "--relayer-config <FILE>",
        "--listen <ADDRESS>",
        "--module <MODULE>",
        "--config <FILE>",
    ] {
        assert!(help.stdout.contains(option), "{option}: {}", help.stdout);
    }
    let version = Program::new(["-V"]).run().await;
    assert_eq!(version.stdout, format!("relayer-rest {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn help_is_wrapped_at_the_width_of_the_terminal() {
    for width in [60, 90] {
        let help = Program::new(["serve", "--help"]).env("COLUMNS", width.to_string()).run().await;
        assert_eq!(help.status, Some(0));
        let longest = help.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        // No word of the texts is longer than 30 characters.
        assert!((width - 30..=width).contains(&longest), "{width}: {longest}: {}", help.stdout);
    }
}

#[tokio::test]
async fn misspelt_commands_and_options_have_a_suggestion() {
    for (args, suggestion) in [
        (&["stauts"][..], "tip: a similar subcommand exists: 'status'"),
        (&["--listn", "127.0.0.1:0"], "tip: a similar argument exists: '--listen'"),
        (&["serve", "--no-contrl"], "tip: a similar argument exists: '--no-control'"),
        (&["swap", "--dryrun", "m.wasm"], "tip: a similar argument exists: '--dry-run'"),
    ] {
        let ended = Program::new(args).run().await;
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(suggestion), "{ended:?}");
    }
}
