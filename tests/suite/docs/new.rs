//! Can an author get from nothing to a mounted module?

use std::fs;
use std::path::Path;

use relayer_rest_tests::cargo;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

use super::author::prepare;
use super::page::Page;

/// Runs cargo in an author's folder.
fn cargo(folder: &Path, args: &[&str]) {
    cargo::cargo(folder, &folder.join("target"), args);
}

#[tokio::test]
#[ignore = "slow: builds a module with its dependencies"]
async fn a_new_module_passes_its_tests_and_serves_when_mounted() {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let new = ["new", mine.to_str().unwrap()];
    let ended = Program::new(&new).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let module = "target/wasm32-unknown-unknown/release/my_tool.wasm";
    let last = "  # relayer-rest dev repeats these after each change\n";
    assert!(ended.stdout.ends_with(last), "{}", ended.stdout);
    let again = Program::new(&new).run().await;
    assert_eq!(again.status, Some(2));
    assert!(again.stderr.contains("my-tool: already exists"), "{}", again.stderr);

    prepare(&mine);
    cargo(&mine, &["test"]);
    cargo(&mine, &["module"]);
    let module = mine.join(module);
    let check = ["check", "--mount", "/ext/my-tool", mine.to_str().unwrap()];
    let ended = Program::new(&check).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    // It imports no more interfaces than it calls.
    let imports = ended.stdout.lines().find(|line| line.starts_with("imports")).unwrap();
    assert!(imports.contains("relayer:rest/chains@"), "{imports}");
    assert!(!imports.contains("/state@") && !imports.contains("/request@"), "{imports}");
    assert!(ended.stdout.contains("\nneeds    grants = [\"chains\"] (as an extension)\n"));
    // Its requests get their expected responses.
    assert_eq!(ended.stdout.matches("requests.http:").count(), 3, "{}", ended.stdout);
    assert!(!ended.stdout.contains("not exercised"), "{}", ended.stdout);

    // Mounts it as its README says.
    let readme = fs::read_to_string(mine.join("README.md")).unwrap();
    let settings = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(mine.join("relayer-rest.toml"), settings).unwrap();
    let config = mine.join("relayer-rest.toml");
    let args = ["--config", config.to_str().unwrap()];
    let serving = Program::server().args(args).start().await;
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 chains: ibc-0, ibc-1\n");
    assert_eq!(http.get("/ext/my-tool/chain/ibc%2D0").await.status, 200);
    assert_eq!(http.get("/ext/my-tool/other").await.error_name(), "NotFound");
    let document = http.get("/openapi.json").await;
    assert!(document.text().contains("/ext/my-tool/chain/{id}"), "{}", document.text());
    // Swaps in the next version.
    let source = fs::read_to_string(mine.join("src/lib.rs")).unwrap();
    fs::write(mine.join("src/lib.rs"), source.replace("{} chains: ", "{} of them: ")).unwrap();
    cargo(&mine, &["module"]);
    let swap = ["swap", "--mount", "/ext/my-tool", module.to_str().unwrap()];
    let ended = serving.control(&swap).await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 of them: ibc-0, ibc-1\n");

    // A panic is shown with its location and the functions on the stack, by `check` and by `swap`.
    let panicking = source.replacen("Response::text(", "Response::text(no_text() + &", 1);
    let function = "\nfn no_text() -> String {\n    panic!(\"no text\")\n}\n\n#[cfg(test)]";
    let panicking = panicking.replace("\n#[cfg(test)]", function);
    let line = |text: &str| 1 + panicking.lines().position(|line| line.contains(text)).unwrap();
    let (panics, calls) = (line("panic!("), line("no_text() + &"));
    fs::write(mine.join("src/lib.rs"), &panicking).unwrap();
    cargo(&mine, &["module"]);
    let message = format!("panicked at src/lib.rs:{panics}:5: no text; in no_text (");
    let caller = format!("src/lib.rs:{calls})");
    for ended in [Program::new(&check).run().await, serving.control(&swap).await] {
        assert_eq!(ended.status, Some(1), "{}{}", ended.stdout, ended.stderr);
        let shown = ended.stdout + &ended.stderr;
        assert!(shown.contains(&message) && shown.contains(&caller), "{message} {caller}: {shown}");
        assert!(!shown.contains("core::panicking"), "{shown}");
    }
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 of them: ibc-0, ibc-1\n");
}

#[tokio::test]
#[ignore = "slow: builds a module with its dependencies"]
async fn a_new_module_is_served_after_each_change_of_its_code() {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let path = mine.to_str().unwrap();
    assert_eq!(Program::new(["new", path]).run().await.status, Some(0));
    prepare(&mine);
    let dev = Program::new(["dev", path, "--listen", "127.0.0.1:0"]);
    let mut serving = dev.env("CARGO_NET_OFFLINE", "true").start().await;
    let output = serving.printed("grants = ").await;
    assert!(!output.contains("FAILED"), "{output}");
    let released = "module = \"target/wasm32-unknown-unknown/release/my_tool.wasm\"";
    assert!(output.contains(released), "{output}");
    serving.logged(" Finished ").await;
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 chains: ibc-0, ibc-1\n");

    let source = fs::read_to_string(mine.join("src/lib.rs")).unwrap();
    fs::write(mine.join("src/lib.rs"), source.replace("{} chains: ", "{} of them: ")).unwrap();
    let output = serving.printed("served after").await;
    let difference = "    body: 2 chains: ibc-0, ibc-1\\n -> 2 of them: ibc-0, ibc-1\\n\n";
    assert!(output.contains(difference), "{output}");
    assert!(output.contains("\nFAILED GET / "), "{output}");
    let page = Page::read("docs/modules.md");
    let (shown, _) =
        page.block("console", "changed: src/lib.rs").split_once("served after").unwrap();
    // Cargo's lines are in the log, and differ in the parts that the page leaves out.
    let (of_cargo, of_dev): (Vec<_>, Vec<_>) = shown.lines().partition(|line| line.contains('…'));
    for line in of_dev {
        assert!(output.contains(line), "{line:?} is not in {output}");
    }
    let finished = of_cargo.iter().find(|line| line.contains("Finished")).unwrap();
    serving.logged(finished.trim_end_matches('…')).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 of them: ibc-0, ibc-1\n");
    fs::write(mine.join("src/lib.rs"), source.replace("Host, ", "Host ")).unwrap();
    serving.printed("the last good build stays active").await;
    serving.logged("src/lib.rs:").await;
    serving.stop().await;
}

#[tokio::test]
async fn invalid_names_are_rejected() {
    let folder = Folder::new();
    for name in ["My-Tool", "1tool", "tool_2", "..", "api", "test"] {
        let path = folder.join(name);
        let ended = Program::new(["new", path.to_str().unwrap()]).run().await;
        assert_eq!(ended.status, Some(2), "{name}");
        assert!(ended.stderr.contains("is not a valid module name"), "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(folder.as_path()).unwrap().count(), 0);
}
