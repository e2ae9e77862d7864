//! Does the API speak the dialect of the relayer?

use relayer_rest_host::module::{DEFAULT_MODULE, MODULE_1_13};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script};
use relayer_rest_tests::server::label;
use relayer_rest_tests::wait::until_async;

async fn serve(relayer: &Relayer, args: &[&str]) -> Serving {
    let url = relayer.url();
    let source = ["--upstream", &url, "--poll", "10ms"];
    Program::server().args(source).args(args).start().await
}

/// Waits until the API is in the dialect, and checks that its responses are.
async fn check(serving: &Serving, dialect: &str) {
    until_async(dialect, async || {
        let status = serving.control_client().status().await.unwrap();
        status.mounts[0].dialect.to_string() == dialect
    })
    .await;
    let mut client = serving.connect().await;
    let version = client.get_until("/version", |response| response.status == 200).await;
    let chain = client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    let is_0_7 = dialect == "0.7";
    assert_eq!(version.text().starts_with('['), is_0_7, "{}", version.text());
    assert_eq!(chain.text().contains(r#""websocket_addr":"#), is_0_7, "{}", chain.text());
    let module = if is_0_7 { DEFAULT_MODULE } else { MODULE_1_13 };
    assert_eq!(serving.label("/chains").await, label(module));
}

#[tokio::test]
async fn the_api_speaks_the_dialect_of_the_relayer() {
    for (script, dialect) in [(Script::of_0_7(), "0.7"), (Script::of_1_13(), "1.13")] {
        let relayer = Relayer::start(script);
        let mut serving = serve(&relayer, &[]).await;
        serving.logged(&format!("dialect of the relayer detected dialect={dialect}")).await;
        check(&serving, dialect).await;
        let text = serving.control(&["status"]).await.stdout;
        assert!(text.contains(&format!("  dialect {dialect}\n")), "{text}");
    }
}

#[tokio::test]
async fn a_relayer_of_another_version_changes_the_dialect() {
    let relayer = Relayer::start(Script::of_0_7());
    let serving = serve(&relayer, &[]).await;
    check(&serving, "0.7").await;
    let gone = relayer.go().await;
    let mut client = serving.connect().await;
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    let relayer = gone.come_back();
    relayer.change(|script| *script = Script::of_1_13());
    check(&serving, "1.13").await;
    // A reload does not change it.
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    check(&serving, "1.13").await;
}

#[tokio::test]
async fn a_dialect_of_the_settings_or_the_command_line_stays() {
    let relayer = Relayer::start(Script::of_1_13());
    let folder = Folder::new();
    let config = folder.write("relayer-rest.toml", "[module]\ndialect = '0.7'\n");
    for args in [["--dialect", "0.7"], ["--config", &config]] {
        let mut serving = serve(&relayer, &args).await;
        serving.logged("dialect of the relayer detected dialect=1.13").await;
        check(&serving, "0.7").await;
    }
    // A relayer's dialect applies as soon as the settings name none.
    let mut serving = serve(&relayer, &["--config", &config]).await;
    serving.logged("dialect of the relayer detected dialect=1.13").await;
    folder.write("relayer-rest.toml", "");
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    check(&serving, "1.13").await;
}

#[tokio::test]
async fn a_module_from_a_file_stays() {
    let relayer = Relayer::start(Script::of_1_13());
    let folder = Folder::new();
    let module = component::noted(DEFAULT_MODULE, "mine");
    let file = folder.write("api.wasm", &module);
    let mut serving = serve(&relayer, &["--module", &file]).await;
    serving.logged("dialect of the relayer detected dialect=1.13").await;
    assert_eq!(serving.label("/chains").await, label(&module));
    let status = serving.control_client().status().await.unwrap();
    assert_eq!(status.mounts[0].dialect.to_string(), "0.7");
}

#[tokio::test]
async fn a_swapped_in_module_outlives_a_restart_of_the_relayer() {
    let relayer = Relayer::start(Script::of_1_13());
    let serving = serve(&relayer, &[]).await;
    check(&serving, "1.13").await;
    let folder = Folder::new();
    let module = component::noted(MODULE_1_13, "mine");
    let file = folder.write("api.wasm", &module);
    let swapped = serving.control(&["swap", &file]).await;
    assert_eq!(swapped.status, Some(0), "{}", swapped.stdout);
    let gone = relayer.go().await;
    let mut client = serving.connect().await;
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    let relayer = gone.come_back();
    let before = relayer.seen().paths["/version"];
    until_async("the version is requested again", async || {
        relayer.seen().paths["/version"] > before
    })
    .await;
    client.get_until("/state", |response| !response.headers.contains_key("age")).await;
    assert_eq!(serving.label("/chains").await, label(&module));
}
