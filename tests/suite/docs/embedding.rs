//! Do the example of a relayer that serves its own state, and the code in
//! docs/embedding.md and README.md, compile and run?

use std::error::Error;
use std::fs;
use std::future::ready;
use std::process::Command;

use relayer_rest_host::Server;
use relayer_rest_host::module::{Engine, Limits, Module};
use relayer_rest_host::state::{ChainConfig, ChainKind, RelayerState, StatePublisher};
use relayer_rest_tests::cargo::root;
use tokio::net::TcpListener;

use super::page::Page;

/// Contains the code of the pages.
async fn embedded() -> Result<(), Box<dyn Error>> {
    let chains = vec![ChainConfig::new("ibc-0", ChainKind::CosmosSdk)];
    let ids = vec!["ibc-0".into()];
    let workers = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let shutdown = ready(());

    let publisher = StatePublisher::new(); // cheap to clone, usable from any thread
    publisher.set_chains(chains)?; // until then, /chains is 503 NotReady
    publisher.set_state(RelayerState { chains: ids, workers });
    let engine = Engine::new(&Limits::default())?;
    let server = Server::new(Module::embedded(&engine)?, publisher.reader());
    server.serve(listener, shutdown).await;
    Ok(())
}

#[tokio::test]
async fn the_code_runs() {
    embedded().await.unwrap();
}

#[test]
fn the_code_is_that_of_the_pages() {
    let code = include_str!("embedding.rs");
    for (path, language) in [("README.md", "rust,ignore"), ("docs/embedding.md", "rust")] {
        let page = Page::read(path);
        let lines = page.block(language, "StatePublisher").lines();
        let lines: Vec<_> = lines.map(|line| format!("    {line}\n")).collect();
        assert!(code.contains(&lines.concat()), "{path}");
    }
}

/// The package must have the version that Hermes requires, or cargo ignores it.
#[test]
fn the_package_for_hermes_is_that_of_the_pages() {
    for path in ["README.md", "docs/embedding.md"] {
        let page = Page::read(path);
        let block = page.block("toml", "[patch.crates-io]");
        let path = block.split('"').nth(1).unwrap().strip_prefix("../relayer-rest/").unwrap();
        let manifest = fs::read_to_string(root().join(path).join("Cargo.toml")).unwrap();
        let lock = fs::read_to_string(root().join("host/hermes/Cargo.lock")).unwrap();
        let name = block.lines().nth(1).unwrap().split(' ').next().unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{manifest}");
        let version = lock.split("name = \"ibc-relayer\"\nversion = ").nth(1).unwrap();
        let version = version.lines().next().unwrap();
        assert!(manifest.contains(&format!("version = {version}\n")), "{manifest}");
    }
}

#[test]
fn the_example_shows_the_relayers_state() {
    let output = Command::new(env!("CARGO_BIN_EXE_embedded-under-test")).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let bodies: Vec<_> =
        stdout.lines().skip(1).map(|line| &line[line.find('{').unwrap()..]).collect();
    let packet = r#""Packet":[{"id":2,"object":{"type":"Packet","dst_chain_id":"ibc-1","src_chain_id":"ibc-0","src_channel_id":"channel-0","src_port_id":"transfer"}}]"#;
    let client = r#""Client":[{"id":1,"object":{"type":"Client","dst_chain_id":"ibc-1","dst_client_id":"07-tendermint-0","src_chain_id":"ibc-0"}}]"#;
    let state = |workers: &str| {
        format!(
            r#"{{"status":"success","result":{{"chains":["ibc-0","ibc-1"],"workers":{{{workers}}}}}}}"#
        )
    };
    assert_eq!(
        bodies,
        [
            r#"{"status":"error","result":{"name":"NotReady","msg":"the relayer's state is not known yet"}}"#.to_owned(),
            state(&format!("{client},{packet}")),
            state(packet),
        ]
    );
}
