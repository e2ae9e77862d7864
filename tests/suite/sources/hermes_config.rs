//! Is a relayer's own configuration file served with the relayer's own interpretation?

use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_tests::server::TestServer;

/// Returns the responses of `/chain/:id` for all chains, one a line.
async fn chains(config: &str) -> String {
    let server = TestServer::builder().relayer_config(config).start().await;
    let mut client = server.connect().await;
    let mut lines = Vec::new();
    for chain in HermesConfig::parse(config).unwrap().chains {
        let id = chain.id.as_str().replace('/', "%2F").replace(' ', "%20");
        let response = client.get(&format!("/chain/{id}")).await;
        assert_eq!(response.status, 200);
        lines.push(response.text().to_owned());
    }
    lines.join("\n")
}

#[tokio::test]
async fn files_of_1_13_are_read() {
    insta::assert_snapshot!(chains(include_str!("../../fixtures/hermes-1.13.toml")).await);
}

#[tokio::test]
async fn chains_of_all_kinds_are_read() {
    insta::assert_snapshot!(chains(include_str!("../../fixtures/kinds.toml")).await);
}

#[tokio::test]
async fn values_are_read_in_every_notation_of_operators() {
    insta::assert_snapshot!(chains(include_str!("../../fixtures/operator.toml")).await);
}

#[test]
fn files_of_0_7_and_1_13_agree_on_the_chains() {
    let old = HermesConfig::parse(include_str!("../../fixtures/hermes-0.7.toml")).unwrap();
    let today = HermesConfig::parse(include_str!("../../fixtures/hermes-1.13.toml")).unwrap();
    let ids = |config: &HermesConfig| {
        config.chains.iter().map(|chain| chain.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&old), ids(&today));
    assert_eq!(old.chains[0].event_source, today.chains[0].event_source);
    assert_eq!(old.rest, today.rest);
}

#[tokio::test]
async fn responses_contain_no_password_or_key() {
    let config = include_str!("../../fixtures/kinds.toml");
    assert_eq!(config.matches("hunter2").count(), 4);
    let parsed = HermesConfig::parse(config).unwrap();
    assert!(!format!("{parsed:?}").contains("hunter2"), "a secret is in the state");
    assert!(!chains(config).await.contains("hunter2"));
}
