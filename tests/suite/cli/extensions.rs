//! Are extensions mounted by the settings?

use std::fs;

use relayer_rest_tests::client::Response;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

#[tokio::test]
async fn extensions_are_mounted_by_the_settings() {
    let folder = Folder::new();
    folder.write("one.wasm", component::of_response(201, &[], b"one"));
    folder.write("two.wasm", component::of_response(202, &[], b"two"));
    let config = folder.write("relayer-rest.toml",
        "[[extension]]\nname = 'one'\nmodule = 'one.wasm'\n\
         [[extension]]\nname = 'two'\nmount = '/two'\nmodule = 'two.wasm'\nlimits.memory = '1MiB'\n",
    );
    let serving = Program::server().args(["--config", &config]).start().await;
    let mut http = serving.connect().await;
    assert_eq!(http.get("/ext/one/x").await.text(), "one");
    assert_eq!(http.get("/two").await.text(), "two");
    assert_eq!(http.get("/chains").await.status, 200);
    let new = folder.write("new.wasm", component::of_response(203, &[], b"new"));
    let swap = serving.control(&["swap", &new, "--mount", "/two"]).await;
    assert_eq!(swap.status, Some(0), "{}", swap.stdout);
    assert_eq!(http.get("/two").await.text(), "new");
    let status = serving.control_client().status().await.unwrap();
    let mounts: Vec<_> = status.mounts.iter().map(|mount| mount.mount.as_str()).collect();
    assert_eq!(mounts, ["/", "/ext/one", "/two"]);
    let bad = folder.write(
        "bad.toml",
        "[[extension]]\nname = 'one'\nmodule = 'one.wasm'\n\
         [[extension]]\nname = 'two'\nmount = '/ext/one/two'\nmodule = 'two.wasm'\n",
    );
    let ended = Program::server().args(["--config", &bad]).run().await;
    let message = "mounts /ext/one and /ext/one/two overlap; mount one of them elsewhere\n";
    assert!(ended.stderr.ends_with(message), "{}", ended.stderr);
}

/// Each bundled extension takes a line at the beginning of the settings.
#[tokio::test]
async fn bundled_extensions_are_mounted_by_their_names() {
    let folder = Folder::new();
    let config = folder.join("rest.toml");
    let defaults = Program::new(["config", "default"]).run().await.stdout;
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(line) if line.starts_with("extension = [") || line.starts_with("    { name = ") => {
            line.to_owned()
        }
        Some("]") => "]".to_owned(),
        _ => line.to_owned(),
    };
    let settings: Vec<_> = defaults.lines().map(uncommented).collect();
    fs::write(&config, settings.join("\n")).unwrap();
    let checked = Program::new(["config", "check", config.to_str().unwrap()]).run().await;
    assert_eq!(checked.status, Some(0), "{}{}", checked.stdout, checked.stderr);
    let args = ["--config", config.to_str().unwrap()];
    let serving = Program::server().args(args).start().await;
    let mut http = serving.connect().await;
    let found = |response: &Response| {
        (response.status.as_u16(), response.header("content-type").to_owned())
    };
    let page = http.get("/ext/dashboard").await;
    assert_eq!(found(&page), (200, "text/html; charset=utf-8".to_owned()));
    assert!(page.text().starts_with("<!doctype html>"), "{}", page.text());
    let data = http.get("/ext/dashboard/data").await;
    assert_eq!(found(&data), (200, "application/json".to_owned()));
    assert!(data.text().contains("07-tendermint-1"), "{}", data.text());
    let health = http.get("/ext/health/readyz?chain=ibc-0").await;
    assert_eq!((health.status.as_u16(), health.text()), (200, "ok"));
    let health = http.get("/ext/health/readyz?chain=ibc-2").await;
    assert_eq!(health.status, 503);
    assert!(health.text().contains("[-]chain/ibc-2 failed: not configured\n"), "{}", health.text());
    let metrics = http.get("/ext/metrics").await;
    assert_eq!(found(&metrics), (200, "text/plain; version=0.0.4; charset=utf-8".to_owned()));
    let workers = "\nrelayer_workers{kind=\"Client\",src_chain=\"ibc-0\",dst_chain=\"ibc-1\"} 2\n";
    assert!(metrics.text().contains(workers), "{}", metrics.text());
    let label = metrics.header("x-relayer-module");
    assert!(label.starts_with("metrics@"), "{label}");
}
