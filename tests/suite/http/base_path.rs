//! Are requests served below the path of a proxy?

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use serde_json::{Value, json};

use crate::cli::check_failure;

#[tokio::test]
async fn requests_are_served_with_the_path_and_without() {
    let files = Folder::new();
    let settings =
        files.write("c.toml", "[http]\nbase-path = '/relayer/'\n[[extension]]\nname = 'health'\n");
    let program = Program::new(["--listen", "127.0.0.1:0", "--config", &settings]);
    let serving = program.start().await;
    let mut client = serving.connect().await;
    for path in ["/version", "/chains", "/ext/health/livez", "/chain/unknown?a=b", "/openapi.json"]
    {
        let direct = client.get(path).await;
        let proxied = client.get(&format!("/relayer{path}")).await;
        assert_eq!((proxied.status, proxied.text()), (direct.status, direct.text()), "{path}");
        assert_eq!(proxied.header("x-content-type-options"), "nosniff", "{path}");
    }
    for path in ["/relayerx/version", "/relayer/relayer/version"] {
        assert_eq!(client.get(path).await.status, 404, "{path}");
    }
    let document: Value =
        serde_json::from_str(client.get("/relayer/openapi.json").await.text()).unwrap();
    assert_eq!(document["servers"], json!([{"url": "/relayer"}]));
    assert!(document["paths"]["/chains"].is_object());
    serving.stop().await;
}

#[tokio::test]
async fn an_invalid_path_is_named() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[http]\nbase-path = 'relayer'\n");
    let ended = Program::new(["--config", &settings]).run().await;
    check_failure(
        &ended,
        2,
        &format!(
            "configuration {settings}: line 2, column 13: http.base-path: \"relayer\" is not a path; expected segments of letters, digits and -._~, such as \"/relayer\""
        ),
    );
}
