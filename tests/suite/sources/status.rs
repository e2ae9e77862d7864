//! Is the origin of the state visible, and are its failures?

use std::fs;

use relayer_rest_host::control::{SourceStatus, Status};
use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Fault, Relayer, Script};
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::until_async;

const CONFIG: &str = include_str!("../../fixtures/hermes-0.7.toml");

async fn status(serving: &Serving) -> Status {
    serving.control_client().status().await.unwrap()
}

async fn text(serving: &Serving) -> String {
    serving.control(&["status"]).await.stdout
}

/// Waits until the only source has failed, and returns it.
async fn failed(serving: &Serving) -> SourceStatus {
    let mut sources = Vec::new();
    until_async("the source has failed", async || {
        sources = status(serving).await.sources;
        sources[0].failure.is_some()
    })
    .await;
    sources.remove(0)
}

#[tokio::test]
async fn the_sample_is_marked() {
    let mut serving = Program::server().start().await;
    serving.logged("serving a sample, not a relayer").await;
    assert!(serving.log().contains("WARN"), "{}", serving.log());
    let response = serving.connect().await.get("/state").await;
    assert_eq!(response.header("x-relayer-source"), "sample");
    let text = text(&serving).await;
    assert!(text.contains("source: a sample, not a relayer; last response "), "{text}");
}

#[tokio::test]
async fn an_unreachable_relayer_is_shown_with_its_failure() {
    let relayer = Relayer::start(Script::of_1_13());
    let url = relayer.url();
    let serving = Program::server().args(["--upstream", &url, "--poll", "10ms"]).start().await;
    let mut client = serving.connect().await;
    let healthy = format!("upstream;location=\"{url}/\"");
    let response = client.get_until("/state", |response| response.status == 200).await;
    assert_eq!(response.header("x-relayer-source"), healthy);
    // The response is recorded after the state is published.
    until_async("the response is recorded", async || {
        status(&serving).await.sources[0].last_response.is_some()
    })
    .await;
    let before = status(&serving).await;
    assert!(before.ready && before.stale_since.is_none() && before.not_ready.is_none());
    assert_eq!(before.sources[0].failure, None);
    let known = text(&serving).await;
    assert!(known.contains("relayer state known\n"), "{known}");
    assert!(known.contains(&format!("source: upstream {url}/; last response ")), "{known}");
    let gone = relayer.go().await;
    let source = failed(&serving).await;
    let failure = source.failure.unwrap();
    assert_eq!((source.kind.as_str(), source.location), ("upstream", format!("{url}/")));
    assert!(failure.message.starts_with("/state: "), "{}", failure.message);
    assert!(source.last_response.unwrap() <= failure.since);
    let after = status(&serving).await;
    assert!(after.ready && after.stale_since.is_some());
    let stale = text(&serving).await;
    assert!(stale.contains("relayer state stale, confirmed "), "{stale}");
    assert!(stale.contains(", FAILED since 20"), "{stale}");
    let response = client.get("/state").await;
    let failing = format!("{healthy};failing-since=@{}", failure.since);
    assert_eq!(response.header("x-relayer-source"), failing);
    // The header belongs to errors and to 304, too.
    assert_eq!(client.get("/unknown").await.header("x-relayer-source"), failing);
    let headers = [("if-none-match", response.header("etag"))];
    let unchanged = client.request_with("GET", "/state", &headers).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.header("x-relayer-source")), (304, &*failing));
    let _relayer = gone.come_back();
    client.get_until("/state", |response| response.header("x-relayer-source") == healthy).await;
    assert_eq!(status(&serving).await.sources[0].failure, None);
}

#[tokio::test]
async fn a_relayer_that_hangs_is_shown_with_the_time_limit() {
    let relayer = Relayer::start(Script::of_1_13());
    let args = ["--upstream", &relayer.url(), "--poll", "10ms", "--upstream-timeout", "50ms"];
    let serving = Program::server().args(args).start().await;
    serving.connect().await.get_until("/state", |response| response.status == 200).await;
    relayer.change(|script| script.fault = Some(Fault::Hangs));
    let failure = failed(&serving).await.failure.unwrap();
    assert_eq!(failure.message, "/state: no response within 50ms");
}

#[tokio::test]
async fn credentials_of_an_upstream_are_not_shown() {
    let relayer = Relayer::start(Script::of_1_13());
    let url = format!("http://user:secret@{}", relayer.address);
    let mut serving = Program::server().args(["--upstream", &url]).start().await;
    let mut client = serving.connect().await;
    let response = client.get_until("/state", |response| response.status == 200).await;
    let text = text(&serving).await + response.header("x-relayer-source");
    assert!(text.contains(&format!("upstream http://{}", relayer.address)), "{text}");
    serving.logged("listening").await;
    assert!(!text.contains("secret") && !serving.log().contains("secret"));
}

#[tokio::test]
async fn invalid_files_are_shown_and_fail_a_reload() {
    let files = Folder::new();
    let config = files.write("config.toml", CONFIG);
    let state = files.write("state.json", r#"{"chains":["ibc-0"],"workers":{}}"#);
    let args = ["--relayer-config", &config, "--state", &state];
    let mut serving = Program::server().args(args).start().await;
    let mut client = serving.connect().await;
    let healthy = r#"relayer-config;location="config.toml", state-file;location="state.json""#;
    assert_eq!(client.get("/chains").await.header("x-relayer-source"), healthy);
    files.write("config.toml", CONFIG.replace("[[chains]]", "[[chains"));
    files.write("state.json", r#"{"chains":["#);
    for _ in 0..2 {
        let ended = serving.control(&["reload"]).await;
        assert_eq!(ended.status, Some(1), "{ended:?}");
        for (file, problem) in [(&config, "TOML"), (&state, "EOF")] {
            let mut lines = ended.stdout.lines().filter(|line| line.contains(file.as_str()));
            let line = lines.next().unwrap();
            assert!(line.starts_with("rejected: ") && line.contains(problem), "{line}");
            assert!(line.ends_with("; the previous content stays in effect"), "{line}");
        }
        serving.logged("file rejected by reload").await;
    }
    let sources = status(&serving).await.sources;
    let kinds: Vec<_> = sources.iter().map(|source| source.kind.as_str()).collect();
    assert_eq!(kinds, ["relayer-config", "state-file"]);
    assert!(sources.iter().all(|source| source.failure.is_some()), "{sources:?}");
    let header = client.get("/chains").await.header("x-relayer-source").to_owned();
    assert_eq!(header.matches(";failing-since=@").count(), 2, "{header}");
    files.write("config.toml", CONFIG);
    files.write("state.json", r#"{"chains":["ibc-0"],"workers":{}}"#);
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    assert_eq!(client.get("/chains").await.header("x-relayer-source"), healthy);
}

#[tokio::test]
async fn a_rejected_watched_module_fails_a_reload() {
    let files = Folder::new();
    let module = files.write("api.wasm", DEFAULT_MODULE);
    let mut serving = Program::server().args(["--module", &module, "--watch"]).start().await;
    fs::write(&module, component::with_response(200, "a", b"b")).unwrap();
    serving.logged("does not conform to dialect 0.7").await;
    let mut ended = serving.control(&["reload"]).await;
    until_async("the rejection is recorded", async || {
        ended = serving.control(&["reload"]).await;
        ended.status == Some(1)
    })
    .await;
    let line = ended.stdout.lines().find(|line| line.starts_with("rejected: /: ")).unwrap();
    assert!(line.contains(&module) && line.contains("does not conform to dialect 0.7"), "{line}");
    assert!(line.ends_with("; the previous module stays active"), "{line}");
    fs::write(&module, DEFAULT_MODULE).unwrap();
    until_async("the file is the active module", async || {
        serving.control(&["reload"]).await.status == Some(0)
    })
    .await;
}

#[tokio::test]
async fn a_module_cannot_set_the_source() {
    let component = component::with_response(200, "x-relayer-source", b"mine");
    let server = TestServer::builder().component(&component).start().await;
    let response = server.connect().await.get("/").await;
    assert_eq!(response.header("x-relayer-source"), "sample");
    assert_eq!(response.headers.get_all("x-relayer-source").iter().count(), 1);
}
