//! Do the command's sources of state work, alone and combined, and are changed files read
//! again?

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script, state};
use relayer_rest_tests::wait::until;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::{Value, json};

const CONFIG: &str = include_str!("../../fixtures/hermes-0.7.toml");

async fn serve(args: &[&str]) -> (Serving, Client) {
    let process = Program::server().args(args).start().await;
    let client = process.connect().await;
    (process, client)
}

async fn run(args: &[&str]) -> Ended {
    Program::new(args).run().await
}

fn success(result: &Value) -> String {
    json!({"status": "success", "result": result}).to_string()
}

#[tokio::test]
async fn a_running_relayer_is_served() {
    let script = Script::of_1_13();
    let relayer = Relayer::start(script);
    let (process, mut client) = serve(&["--upstream", &relayer.url(), "--poll", "10ms"]).await;
    let expected = success(&state(&["ibc-0", "ibc-1"], 2, true));
    client.get_until("/state", |response| response.text() == expected).await;
    client.get_until("/chain/ibc-1", |response| response.status == 200).await;
    // Upstream responses are processed on a thread of their own, not on clients' threads.
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let names = threads.map(|thread| thread.unwrap().path().join("comm"));
    let mut names = names.map(|comm| std::fs::read_to_string(comm).unwrap_or_default());
    assert!(names.any(|name| name.trim() == "sources"));
    process.stop().await;
}

#[tokio::test]
async fn chains_from_a_file_combine_with_the_state_of_a_relayer() {
    let relayer = Relayer::start(Script::of_0_7());
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG.replace("'ibc-1'", "'other'"));
    let args = ["--relayer-config", &config, "--upstream", &relayer.url(), "--poll", "10ms"];
    let (process, mut client) = serve(&args).await;
    client.get("/chains").await.check(200, r#"{"status":"success","result":["ibc-0","other"]}"#);
    client.get_until("/state", |response| response.status == 200).await;
    client.get_until("/version", |response| response.text().contains("0.7.0")).await;
    assert!(!relayer.seen().paths.contains_key("/chains"));
    let _gone = relayer.go().await;
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    assert_ne!(client.get("/version").await.header("warning"), "");
    assert_eq!(client.get("/chains").await.header("warning"), "", "the file is as it was");
    process.stop().await;
}

#[tokio::test]
async fn an_unreadable_field_is_reported_once() {
    let relayer = Relayer::start(Script::of_0_7());
    relayer.change(|script| {
        script.chains[0]["max_gas"] = "lots".into();
        script.state["workers"]["Client"][0]["object"]["new"] = 1.into();
    });
    let (process, mut client) = serve(&["--upstream", &relayer.url(), "--poll", "1ms"]).await;
    let request_count = |path: &str| relayer.seen().paths.get(path).copied().unwrap_or_default();
    client
        .get_until("/chain/ibc-0", |response| {
            response.text().contains(r#""max_gas":null"#) && request_count("/state") > 20
        })
        .await;
    let log = process.stop().await.stderr;
    let lines = |wanted: &[&str]| {
        log.lines().filter(|line| wanted.iter().all(|text| line.contains(text))).count()
    };
    assert_eq!(lines(&["WARN", "endpoint=\"/chain/ibc-0\"", "field=\"max_gas\""]), 1, "{log}");
    assert_eq!(
        lines(&["WARN", "endpoint=\"/state\"", "field=\"workers.Client.object.new\""]),
        1,
        "{log}"
    );
}

/// Each poll returns a different long name, and a different long error.
#[tokio::test]
async fn responses_of_a_relayer_cannot_fill_the_log() {
    let relayer = Relayer::start(Script::of_0_7());
    let (process, mut client) = serve(&["--upstream", &relayer.url(), "--poll", "1ms"]).await;
    client.get_until("/chains", |response| response.status == 200).await;
    for turn in 0..30 {
        let evil = format!("{turn}\u{202e}\u{2028}\u{1b}[1m{}", "x".repeat(900));
        let state = state(&[&evil], 1, false);
        let request_count =
            |path: &str| relayer.seen().paths.get(path).copied().unwrap_or_default();
        let long = json!({"status": "error", "result": {"name": evil, "msg": "y".repeat(60_000)}});
        relayer.change(|script| {
            script.state = state;
            script.state["workers"]["Client"][0]["object"][&evil] = 1.into();
            script.bodies.insert("/chains".to_owned(), long.to_string().into_bytes().into());
        });
        let before = request_count("/state");
        client.get_until("/version", |_| request_count("/state") > before + 1).await;
    }
    let log = process.stop().await.stderr;
    assert!(log.contains(r"\u{202e}"), "{log}");
    let is_plain = |character: char| character == '\n' || !character.is_control();
    assert!(
        log.chars().all(|character| is_plain(character) && !"\u{202e}\u{2028}".contains(character))
    );
    assert!(log.lines().all(|line| line.len() < 8_000), "{log}");
    assert!(log.len() < 500_000, "{}", log.len());
}

#[tokio::test]
async fn an_unreachable_relayer_is_reported_once_and_at_its_return() {
    let relayer = Relayer::start(Script::of_0_7());
    let (mut process, mut client) =
        serve(&["--upstream", &relayer.url(), "--poll", "1ms", "--max-stale", "50ms"]).await;
    client.get_until("/state", |response| response.status == 200).await;
    let gone = relayer.go().await;
    // On a busy machine, the state may have expired before.
    process.logged("polling the relayer failed").await;
    client.get_until("/state", |response| response.status == 503).await;
    let relayer = gone.come_back();
    client.get_until("/state", |response| response.status == 200).await;
    // The return is logged before the next poll.
    let polls = || relayer.seen().paths.get("/state").copied().unwrap_or_default();
    let before = polls();
    client.get_until("/version", |_| polls() > before + 1).await;
    let log = process.stop().await.stderr;
    assert!(log.matches("polling the relayer failed; retrying error=\"/").count() <= 2, "{log}");
    assert!(log.contains("state expired max_stale=50ms"), "{log}");
    assert!(log.contains("relayer reachable"), "{log}");
}

#[tokio::test]
async fn a_state_file_is_reread_when_it_changes() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let first = state(&["ibc-0", "ibc-1"], 1, true);
    let file = files.write("state.json", first.to_string());
    let (mut process, mut client) = serve(&["--relayer-config", &config, "--state", &file]).await;
    let shown = |clients| success(&state(&["ibc-0", "ibc-1"], clients, false));
    client.get("/state").await.check(200, &shown(1));

    files.write("state.json", state(&["ibc-0", "ibc-1"], 2, true).to_string());
    client.get_until("/state", |response| response.text() == shown(2)).await;

    // A response that was saved from a relayer, with its envelope.
    files.replace("state.json", success(&state(&["ibc-0", "ibc-1"], 3, true)));
    client.get_until("/state", |response| response.text() == shown(3)).await;

    files.write("state.json", "{\"chains\": [],\n  \"workers\": [1]}");
    process.logged(&format!("state file {file}: line 2, column 13: workers: invalid type")).await;
    client.get("/state").await.check(200, &shown(3));

    files.replace("state.json", state(&["ibc-0", "ibc-1"], 4, true).to_string());
    client.get_until("/state", |response| response.text() == shown(4)).await;

    fs::remove_file(&file).unwrap();
    process.logged(&format!("state file {file}: cannot be read: ")).await;
    client.get("/state").await.check(200, &shown(4));
    process.stop().await;
}

/// Clients can exhaust the file descriptors. A change must not be lost by that.
#[tokio::test]
async fn a_change_during_a_shortage_of_descriptors_is_read_later() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let file = files.write("state.json", state(&["ibc-0"], 1, true).to_string());
    let (mut process, mut client) = serve(&["--relayer-config", &config, "--state", &file]).await;
    let pid = Some(Pid::from_raw(process.id()).unwrap());
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), ..limit };
    prlimit(pid, Resource::Nofile, none).unwrap();
    files.replace("state.json", state(&["ibc-0"], 2, true).to_string());
    process.logged("cannot read the file for now; retrying").await;
    prlimit(pid, Resource::Nofile, limit).unwrap();
    let shown = success(&state(&["ibc-0"], 2, false));
    client.get_until("/state", |response| response.text() == shown).await;
    process.stop().await;
}

#[tokio::test]
async fn a_relayer_configuration_is_reread_when_it_changes() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let (mut process, mut client) = serve(&["--relayer-config", &config]).await;
    let new = "[[chains]]\nid = 'new'\n";
    files.write("config.toml", format!("{CONFIG}\n{new}"));
    client.get_until("/chains", |response| response.text().contains("new")).await;
    assert_eq!(client.get("/chain/new").await.status, 200);

    files.write("config.toml", CONFIG.replace("max_gas = 3000000", "max_gas = 'lots'"));
    process.logged("chain 'ibc-0': max_gas: invalid type: string \"lots\"").await;
    assert_eq!(client.get("/chain/new").await.status, 200);
    files.replace("config.toml", CONFIG.replace("max_gas = 3000000", "max_gas = 7"));
    client.get_until("/chain/ibc-0", |response| response.text().contains(r#""max_gas":7,"#)).await;
    assert_eq!(client.get("/chain/new").await.status, 404);
    process.stop().await;
}

#[tokio::test]
async fn a_partial_configuration_changes_nothing() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let (mut process, mut client) = serve(&["--relayer-config", &config]).await;
    for half in ["", "[rest]\nenabled = false", &CONFIG[..CONFIG.find("[rest]").unwrap()]] {
        files.write("config.toml", half);
        process.logged("`enabled` in the section [rest] is no longer true").await;
        client
            .get("/chains")
            .await
            .check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
        files.write("config.toml", format!("{CONFIG}\n"));
        files.write("config.toml", CONFIG);
    }
    process.stop().await;
}

#[tokio::test]
async fn other_files_in_the_folder_are_ignored() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let unread = r#"{"chains":[],"workers":{"Wallet":[{"id":1,"object":{"type":"Wallet","chain_id":"a","new":1}}]}}"#;
    let file = files.write("state.json", unread);
    let (mut process, _) = serve(&["--relayer-config", &config, "--state", &file]).await;
    files.write("other.txt", "x");
    files.write("config.toml", CONFIG.replace("'ibc-1'", "'new'"));
    process.logged("file reloaded").await;
    let log = process.stop().await.stderr;
    assert_eq!(log.matches("file reloaded").count(), 1, "{log}");
    assert_eq!(log.matches("fields omitted").count(), 1, "{log}");
}

#[tokio::test]
async fn sighup_rereads_files_that_cannot_be_watched() {
    let files = Folder::new();
    let elsewhere = Folder::new();
    let target = elsewhere.write("target.toml", CONFIG);
    let config = files.path("config.toml");
    std::os::unix::fs::symlink(&target, &config).unwrap();
    let (process, mut client) = serve(&["--relayer-config", &config]).await;

    elsewhere.write("target.toml", "[[chains]]\nid = 7");
    process.signal(Signal::HUP);
    elsewhere.write("target.toml", CONFIG.replace("'ibc-1'", "'new'"));
    process.signal(Signal::HUP);
    client
        .get_until("/chains", |response| {
            // Both signals may have been delivered as one, before the file was repaired.
            process.signal(Signal::HUP);
            response.text() == r#"{"status":"success","result":["ibc-0","new"]}"#
        })
        .await;
    process.stop().await;
}

#[tokio::test]
async fn files_change_under_load_without_a_wrong_response() {
    let files = Folder::new();
    let configs = [CONFIG.to_owned(), CONFIG.replace("'ibc-1'", "'new'")];
    let states = [1, 50].map(|clients| state(&["ibc-0", "ibc-1"], clients, false));
    let config = files.write("config.toml", &configs[0]);
    let file = files.write("state.json", states[0].to_string());
    let (process, _) = serve(&["--relayer-config", &config, "--state", &file]).await;

    let (stop, stopped) = tokio::sync::watch::channel(false);
    let expected = [
        ("/state", states.each_ref().map(success)),
        (
            "/chains",
            [
                r#"{"status":"success","result":["ibc-0","ibc-1"]}"#,
                r#"{"status":"success","result":["ibc-0","new"]}"#,
            ]
            .map(str::to_owned),
        ),
    ];
    let seen: Vec<_> = (0..4).map(|_| Arc::new([const { AtomicBool::new(false) }; 2])).collect();
    let clients: Vec<_> = expected
        .into_iter()
        .cycle()
        .zip(seen.clone())
        .map(|((path, bodies), seen)| {
            let address = process.address();
            let stopped = stopped.clone();
            tokio::spawn(async move {
                let mut client = Client::http1(address).await;
                while !*stopped.borrow() {
                    let response = client.get(path).await;
                    let place = bodies.iter().position(|body| response.text() == body);
                    seen[place.unwrap_or_else(|| panic!("{response:?}"))].store(true, Relaxed);
                }
            })
        })
        .collect();

    for turn in 1..10 {
        let new = turn % 2;
        let broken = turn % 3;
        for seen in &seen {
            seen[new].store(false, Relaxed);
        }
        files.write("config.toml", ["[[chains", "[[chains]]", ""][broken]);
        files.write("state.json", ["{", "{}", ""][broken]);
        files.replace("config.toml", &configs[new]);
        files.write("state.json", states[new].to_string());
        let is_seen = || seen.iter().all(|seen| seen[new].load(Relaxed));
        until("all clients see the change", is_seen).await;
    }
    stop.send(true).unwrap();
    for client in clients {
        client.await.unwrap();
    }
    process.stop().await;
}

#[tokio::test]
async fn unusable_sources_end_with_2() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let broken = files.write("state.json", "{\"chains\":[],\n\"workers\":7}");
    for (args, message) in [
        (vec!["--upstream", "https://127.0.0.1:1"], "relayer-rest: --upstream: not the URL of a relayer's REST API: unsupported scheme https; expected one such as http://127.0.0.1:3000".to_owned()),
        (vec!["--upstream", "http://localhost:7", "--listen", "127.0.0.1:7"], "relayer-rest: --upstream: 127.0.0.1:7 is the address of this server itself; choose another with --listen".to_owned()),
        (vec!["--upstream", "http://h", "--poll", "10min"], "relayer-rest: --max-stale: not longer than --poll".to_owned()),
        (vec!["--upstream", "127.0.0.1:3000"], "relayer-rest: --upstream: not the URL of a relayer's REST API: ".to_owned()),
        (vec!["--relayer-config", &config, "--state", &broken], format!("relayer-rest: state file {broken}: line 2, column 11: workers: invalid type: integer `7`")),
        (vec!["--relayer-config", &config, "--state", "/nowhere.json"], "relayer-rest: state file /nowhere.json: cannot be read: ".to_owned()),
        (vec!["--state", &broken], "relayer-rest: --state (relayer.state) needs the relayer's configuration file; add --relayer-config (relayer.config)".to_owned()),
        (vec!["--enable"], "relayer-rest: --enable (relayer.enable) needs the relayer's configuration file".to_owned()),
        (vec!["--upstream", "http://h", "--relayer-config", &config, "--state", &broken], "relayer-rest: --upstream (upstream.url) and --state (relayer.state) are two sources of the state; give one".to_owned()),
        (vec!["--poll", "5s"], "relayer-rest: --poll has no effect without --upstream (upstream.url)".to_owned()),
        (vec!["--upstream", "http://h", "--poll", "0s"], "relayer-rest: --poll: 0ns is out of range; expected 1ms to 24h".to_owned()),
        (vec!["--upstream", "http://h", "--max-stale", "soon"], "relayer-rest: --max-stale: 'soon' is not a duration ".to_owned()),
    ] {
        let ended = run(&args).await;
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(&message), "{message}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn the_server_ends_while_a_relayer_hangs() {
    let fault = Some(relayer_rest_tests::relayer::Fault::Hangs);
    let relayer = Relayer::start(Script { fault, ..Script::of_0_7() });
    let (process, mut client) = serve(&["--upstream", &relayer.url()]).await;
    client.get_until("/version", |_| !relayer.seen().paths.is_empty()).await;
    process.stop().await;
}
