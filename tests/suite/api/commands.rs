//! Are commands executed for authorised clients only, once, and never by accident?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use relayer_rest_host::module::MODULE_1_13;
use relayer_rest_host::registry::{Candidate, Shadow, ShadowTime, SwapOutcome};
use relayer_rest_tests::client::{Client, Response, raw};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Fault, Relayer, Script};
use relayer_rest_tests::server::{TestServer, candidate, label};
use relayer_rest_tests::wait::until_async;

const TOKEN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

const CLEAR: &str = "/clear_packets?chain=ibc-0";

const SUCCESS: &str = r#"{"status":"success","result":null}"#;

/// A server in front of a relayer that executes commands.
struct Rig {
    relayer: Relayer,
    serving: Serving,
    files: Folder,
}

impl Rig {
    /// Starts a server with these lines in `[commands]`, which has read all chains, and
    /// requests nothing more from the relayer.
    async fn start(lines: &str) -> Self {
        let relayer = Relayer::start(Script::of_1_13());
        relayer.change(|script| {
            for target in [CLEAR, "/clear_packets?chain=ibc-1", "/clear_packets"] {
                script.bodies.insert(target.to_owned(), SUCCESS.as_bytes().into());
            }
        });
        let files = Folder::new();
        let tokens = files.write("tokens", "ops 0123456789abcdef\n");
        fs::set_permissions(tokens, fs::Permissions::from_mode(0o600)).unwrap();
        let config = files.write("relayer-rest.toml", format!("[commands]\n{lines}\n"));
        let args = ["--upstream", &relayer.url(), "--poll", "1h", "--max-stale", "2h"];
        let serving = Program::server().args(args).args(["--config", &config]).start().await;
        let mut client = serving.connect().await;
        for path in ["/state", "/chain/ibc-0", "/chain/ibc-1"] {
            client.get_until(path, |found| found.text().contains("success")).await;
        }
        Self { relayer, serving, files }
    }

    /// Starts a server that allows commands.
    async fn allowed() -> Self {
        Self::start("clear-packets = true\ntoken-file = 'tokens'").await
    }

    async fn post(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        self.serving.connect().await.request_with("POST", target, headers).await
    }

    /// Returns how often the relayer has received a command.
    fn received(&self, target: &str) -> u32 {
        self.relayer.seen().paths.get(&format!("POST {target}")).copied().unwrap_or(0)
    }

    /// Returns how many commands the relayer has received.
    fn received_at_all(&self) -> u32 {
        let seen = self.relayer.seen().paths;
        seen.iter()
            .filter(|(request, _)| request.starts_with("POST "))
            .map(|(_, count)| count)
            .sum()
    }

    /// Checks that a command is refused before the relayer receives it.
    #[track_caller]
    fn check_refused(&self, response: &Response, status: u16, name: &str) {
        assert_eq!((response.status.as_u16(), &*response.error_name()), (status, name));
        assert_eq!(self.received_at_all(), 0);
    }
}

#[tokio::test]
async fn an_authorised_command_is_executed_once_for_each_request() {
    let mut rig = Rig::allowed().await;
    for times in 1..=2 {
        let response = rig.post(CLEAR, &[TOKEN]).await;
        response.check(200, SUCCESS);
        assert_eq!(rig.received(CLEAR), times);
    }
    rig.post("/clear_packets?all=true", &[TOKEN]).await.check(200, SUCCESS);
    assert_eq!((rig.received("/clear_packets"), rig.received_at_all()), (1, 3));
    let headers = [TOKEN, ("x-request-id", "my-request")];
    rig.post("/clear_packets?chain=ibc-1", &headers).await.check(200, SUCCESS);
    rig.serving.logged("my-request").await;
    let log = rig.serving.log();
    let line = log.lines().find(|line| line.contains("my-request")).unwrap();
    for part in ["audit", "ops", "clear-packets of ibc-1", "executed"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!log.contains("0123456789abcdef"));
}

#[tokio::test]
async fn clients_need_a_known_token() {
    let mut rig = Rig::allowed().await;
    let response = rig.post(CLEAR, &[]).await;
    rig.check_refused(&response, 401, "Unauthorized");
    assert_eq!(response.header("www-authenticate"), "Bearer");
    let response = rig.post(CLEAR, &[("authorization", "Basic 0123456789abcdef")]).await;
    rig.check_refused(&response, 401, "Unauthorized");
    let response = rig.post(CLEAR, &[("authorization", "Bearer 0123456789abcdeg")]).await;
    rig.check_refused(&response, 403, "Forbidden");
    rig.serving.logged("command refused").await;
    // Another token is valid after a reload, and the old one is not.
    rig.files.write("tokens", "ops fedcba9876543210\n");
    assert_eq!(rig.serving.control(&["reload"]).await.status, Some(0));
    let response = rig.post(CLEAR, &[TOKEN]).await;
    rig.check_refused(&response, 403, "Forbidden");
    rig.post(CLEAR, &[("authorization", "Bearer fedcba9876543210")]).await.check(200, SUCCESS);
}

#[tokio::test]
async fn commands_are_disabled_by_default() {
    for settings in ["", "token-file = 'tokens'", "clear-packets = false\ntoken-file = 'tokens'"] {
        let rig = Rig::start(settings).await;
        let response = rig.post(CLEAR, &[TOKEN]).await;
        rig.check_refused(&response, 403, "CommandDisabled");
    }
}

#[tokio::test]
async fn nothing_is_cleared_by_accident() {
    let rig = Rig::allowed().await;
    for (target, status, name) in [
        ("/clear_packets", 400, "InvalidCommand"),
        ("/clear_packets?all=yes", 400, "InvalidCommand"),
        ("/clear_packets?chain=ibc-0&channel=channel-0", 400, "InvalidCommand"),
        ("/clear_packets?chain=ibc-9", 404, "ChainConfigNotFound"),
    ] {
        let response = rig.post(target, &[TOKEN]).await;
        rig.check_refused(&response, status, name);
    }
    let (name, value) = TOKEN;
    let body = r#"{"chain":"ibc-0","channel":"channel-0"}"#;
    let length = body.len();
    let request = format!(
        "POST /clear_packets?all=true HTTP/1.1\r\nhost: h\r\n{name}: {value}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let response = raw(rig.serving.address(), request.as_bytes()).await;
    assert!(
        response.starts_with("HTTP/1.1 400 ") && response.contains("CommandHasBody"),
        "{response}"
    );
    assert_eq!(rig.received_at_all(), 0);
    let refused = rig.serving.connect().await.get(CLEAR).await;
    assert_eq!((refused.status.as_u16(), refused.header("allow")), (405, "POST"));
}

#[tokio::test]
async fn a_refusal_of_the_relayer_is_not_a_success() {
    let rig = Rig::allowed().await;
    let refusal = r#"{"status":"error","result":{"name":"Busy","msg":"try again"}}"#;
    for body in [refusal, "not JSON", "{}"] {
        rig.relayer
            .change(|script| drop(script.bodies.insert(CLEAR.into(), body.as_bytes().into())));
        let response = rig.post(CLEAR, &[TOKEN]).await;
        assert_eq!((response.status.as_u16(), &*response.error_name()), (502, "CommandFailed"));
    }
    rig.relayer.change(|script| {
        script.bodies.clear();
        script.fault = Some(Fault::Status500);
    });
    assert_eq!(rig.post(CLEAR, &[TOKEN]).await.status, 502);
    let Rig { relayer, serving, files: _files } = rig;
    let _gone = relayer.go().await;
    let response = serving.connect().await.request_with("POST", CLEAR, &[TOKEN]).await;
    assert_eq!((response.status.as_u16(), &*response.error_name()), (502, "CommandFailed"));
}

#[tokio::test]
async fn a_relayer_that_does_not_respond_is_not_a_success() {
    let rig = Rig::start("clear-packets = true\ntoken-file = 'tokens'\ntime = '100ms'").await;
    rig.relayer.change(|script| script.fault = Some(Fault::Hangs));
    let response = rig.post(CLEAR, &[TOKEN]).await;
    assert_eq!((response.status.as_u16(), &*response.error_name()), (504, "CommandTimeout"));
    // The next command is accepted.
    rig.relayer.change(|script| script.fault = None);
    rig.post(CLEAR, &[TOKEN]).await.check(200, SUCCESS);
}

#[tokio::test]
async fn a_chain_has_one_command_at_a_time() {
    let rig = Rig::start("clear-packets = true\ntoken-file = 'tokens'\ntime = '10min'").await;
    rig.relayer.change(|script| script.tick = Duration::from_secs(3600));
    let mut client = rig.serving.connect().await;
    let first = tokio::spawn(async move { client.request_with("POST", CLEAR, &[TOKEN]).await });
    until_async("the relayer has received it", async || rig.received(CLEAR) == 1).await;
    for target in [CLEAR, "/clear_packets?all=true"] {
        let response = rig.post(target, &[TOKEN]).await;
        assert_eq!((response.status.as_u16(), &*response.error_name()), (429, "CommandInProgress"));
        assert_eq!(response.header("retry-after"), "1");
    }
    // Reads do not wait for it.
    assert_eq!(rig.serving.connect().await.get("/chains").await.status, 200);
    rig.relayer.permit();
    first.await.unwrap().check(200, SUCCESS);
    assert_eq!(rig.received_at_all(), 1);
}

/// The command of a client that disconnects is completed, and its chain is free afterwards.
#[tokio::test]
async fn a_command_outlives_its_client() {
    let mut rig = Rig::start("clear-packets = true\ntoken-file = 'tokens'\ntime = '10min'").await;
    rig.relayer.change(|script| script.tick = Duration::from_secs(3600));
    let mut client = rig.serving.connect().await;
    let first = tokio::spawn(async move { client.request_with("POST", CLEAR, &[TOKEN]).await });
    until_async("the relayer has received it", async || rig.received(CLEAR) == 1).await;
    first.abort();
    assert!(first.await.is_err());
    rig.relayer.permit();
    rig.serving.logged("command executed").await;
    rig.relayer.change(|script| script.tick = Duration::ZERO);
    let is_free = async || rig.post(CLEAR, &[TOKEN]).await.status == 200;
    until_async("the chain is free", is_free).await;
}

#[tokio::test]
async fn checks_of_a_module_execute_nothing() {
    let rig = Rig::allowed().await;
    rig.post("/clear_packets?chain=ibc-1", &[TOKEN]).await.check(200, SUCCESS);
    // Another file with the same behaviour: a custom section at the end has no effect.
    let module = rig.files.write("api.wasm", [MODULE_1_13, &[0, 3, 1, b'x', 0]].concat());
    for args in [&["swap", &module, "--dry-run"][..], &["swap", &module]] {
        let swap = rig.serving.control(args).await;
        assert_eq!(swap.status, Some(0), "{}{}", swap.stdout, swap.stderr);
    }
    assert_eq!(rig.received_at_all(), 1);
    rig.post(CLEAR, &[TOKEN]).await.check(200, SUCCESS);
}

#[tokio::test]
async fn a_relayer_is_needed() {
    let files = Folder::new();
    let tokens = files.write("tokens", "ops 0123456789abcdef\n");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = "[commands]\nclear-packets = true\ntoken-file = 'tokens'\n";
    let config = files.write("relayer-rest.toml", settings);
    let args = ["--dialect", "1.13", "--config", &config];
    let mut serving = Program::server().args(args).start().await;
    serving.logged("no relayer that executes them").await;
    let mut client: Client = serving.connect().await;
    let response = client.request_with("POST", CLEAR, &[TOKEN]).await;
    assert_eq!((response.status.as_u16(), &*response.error_name()), (503, "NoRelayer"));
    drop(serving);
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).unwrap();
    let checked = Program::new(["config", "check", &config]).run().await;
    assert_eq!(checked.status, Some(1));
    assert!(checked.stdout.contains("FAILED  tokens "), "{}", checked.stdout);
    let ended = Program::server().args(args).run().await;
    assert_eq!(ended.status, Some(2));
    let message = format!(
        "tokens {tokens}: other users may read or change it; make it your own file, with `chmod 600`\n"
    );
    assert!(ended.stderr.ends_with(&message), "{}", ended.stderr);
}

/// Their permissions are an access list for the user of the service.
#[tokio::test]
async fn credentials_of_the_service_manager_can_be_tokens() {
    let files = Folder::new();
    let tokens = files.write("tokens", "ops 0123456789abcdef\n");
    let settings = "[commands]\nclear-packets = true\ntoken-file = 'tokens'\n";
    let config = files.write("c.toml", settings);
    let folder = files.join("");
    let other = files.join("other");
    for (mode, folder, status) in [
        (0o440, Some(&folder), 0),
        (0o440, Some(&other), 1),
        (0o440, None, 1),
        (0o460, Some(&folder), 1),
        (0o444, Some(&folder), 1),
    ] {
        fs::set_permissions(&tokens, fs::Permissions::from_mode(mode)).unwrap();
        let check = Program::new(["config", "check", &config]);
        let check = match folder {
            Some(folder) => check.env("CREDENTIALS_DIRECTORY", folder),
            None => check,
        };
        let ended = check.run().await;
        assert_eq!(ended.status, Some(status), "{mode:o} {folder:?}: {ended:?}");
    }
}

/// Without a relayer, each run that records a command ends with this error.
const DISABLED: &str = "CommandDisabled";

#[tokio::test]
async fn a_response_with_a_command_is_neither_cached_nor_shared() {
    let component = component::that_clears_packets(16);
    let server = TestServer::builder().component(&component).start().await;
    let runs = || server.registry.at("/").unwrap().status().module().unwrap().runs;
    for count in 1..=3 {
        assert_eq!(server.get("/a").await.error_name(), DISABLED);
        assert_eq!(runs(), count);
    }
    let responses = futures_util::future::join_all((0..10).map(|_| server.get("/b"))).await;
    assert!(responses.iter().all(|response| response.error_name() == DISABLED));
    assert_eq!(runs(), 13);
}

#[tokio::test]
async fn the_number_of_commands_is_limited() {
    let component = component::that_clears_packets(17);
    let server = TestServer::builder().component(&component).start().await;
    let response = server.get("/a").await;
    assert_eq!((response.status.as_u16(), &*response.error_name()), (502, "BadModuleResponse"));
}

/// The client gets the failure of the new module, not the command of the previous one.
#[tokio::test]
async fn a_command_is_not_given_again_after_a_rollback() {
    let old = component::that_clears_packets(1);
    let server = TestServer::builder().component(&old).start().await;
    let new = component::that_traps_later("\"new\"");
    assert_eq!(server.swap(new.clone()).await.outcome, SwapOutcome::Swapped);
    assert_eq!(server.get("/a").await.header("x-relayer-module"), label(&new));
    let failed = server.get(TRAP).await;
    assert_eq!((failed.status.as_u16(), &*failed.error_name()), (500, "Internal"));
    let next = server.get("/a").await;
    assert_eq!((&*next.error_name(), next.header("x-relayer-module")), (DISABLED, &*label(&old)));
}

#[tokio::test]
async fn commands_of_a_candidate_in_a_shadow_are_not_executed() {
    let rig = Rig::allowed().await;
    let client = rig.serving.control_client();
    let shadow_status = async || {
        let status = client.status().await.unwrap();
        status.mounts[0].candidate.as_ref().and_then(|candidate| candidate.shadow)
    };
    let swapping = tokio::spawn({
        let client = client.clone();
        let shadow = Some(Shadow::new(ShadowTime::MAX));
        let new = Candidate { shadow, ..candidate(component::noted(MODULE_1_13, "new")) };
        async move { client.swap("/", new).await.unwrap() }
    });
    until_async("the shadow begins", async || shadow_status().await.is_some()).await;
    rig.post(CLEAR, &[TOKEN]).await.check(200, SUCCESS);
    let is_compared =
        async || shadow_status().await.is_some_and(|shadow| shadow.tally.requests == 1);
    until_async("the command is compared", is_compared).await;
    client.cancel_shadow("/").await.unwrap();
    let shadow = swapping.await.unwrap().shadow.unwrap();
    assert_eq!((shadow.requests, shadow.unexpected, shadow.candidate.runs), (1, 0, 1));
    assert_eq!(rig.received(CLEAR), 1);
}
