//! Does `dev` serve the last good build of a module while its sources change?

use std::fs;
use std::sync::Arc;

use relayer_rest_host::module::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, MODULE_1_13};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::relayer::{Relayer, Script};
use relayer_rest_tests::wait::{until, until_async};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::json;

/// A build that fails while there is a file `fail`, and copies the component otherwise.
const BUILD: &str =
    "if test -e fail; then echo 'module.bin:1: broken' >&2; exit 3; fi; cp module.bin my_tool.wasm";

/// Returns a module whose responses have this body.
fn with_body(body: &str) -> Vec<u8> {
    component::of_response(200, &[("content-type", b"text/plain")], body.as_bytes())
}

/// Starts the command in a folder with a component `module.bin`.
async fn dev(folder: &Folder, args: &[&str]) -> Serving {
    with_build(folder, BUILD, args).await
}

/// Starts the command with this build.
async fn with_build(folder: &Folder, build: &str, args: &[&str]) -> Serving {
    let path = folder.as_path().to_str().unwrap();
    let dev = ["dev", path, "--listen", "127.0.0.1:0", "--build", build];
    Program::new(dev).args(args).start().await
}

/// Replaces a file at once, without another file in its folder.
fn replace(folder: &Folder, name: &str, content: impl AsRef<[u8]>) {
    let other = Folder::new();
    fs::rename(other.write(name, content), folder.join(name)).unwrap();
}

#[tokio::test]
async fn a_change_is_built_checked_and_served_with_its_differences() {
    let folder = Folder::new();
    folder.write("module.bin", with_body("1"));
    let mut serving = dev(&folder, &[]).await;
    let output = serving.printed("grants = ").await;
    let url = format!("{}/ext/my-tool/", serving.url());
    assert!(output.starts_with("building "), "{output}");
    assert!(output.contains("\nserved after ") && output.contains(&url), "{output}");
    let settings = "its settings, for relayer-rest serve --config FILE:\n  [[extension]]\n  \
        name = \"my-tool\"\n  module = \"my_tool.wasm\"\n  grants = []\n";
    assert!(output.ends_with(settings), "{output}");
    let mut client = serving.connect().await;
    assert_eq!(client.get("/ext/my-tool/a?b").await.text(), "1");
    // The API is beside it, with the sample.
    assert!(client.get("/chains").await.text().contains("ibc-0"));

    replace(&folder, "module.bin", with_body("2"));
    let output = serving.printed("served after").await;
    for line in [
        "changed: module.bin\n",
        "\n1 of 1 requests have different responses\n",
        "\n  GET /a (sent once)\n",
        "\n    body: 1 -> 2\n",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    // Its settings are not repeated, and the connection is still open.
    assert_eq!(client.get("/ext/my-tool/a?b").await.text(), "2");
    replace(&folder, "module.bin", component::that_counts_chains(1, 200));
    let output = serving.printed("grants = ").await;
    assert!(output.contains("\n  grants = [\"chains\"]\n"), "{output}");
    assert_eq!(client.get("/ext/my-tool/").await.status, 202);
    serving.stop().await;
}

#[tokio::test]
async fn requests_during_the_first_build_get_503() {
    let folder = Folder::new();
    folder.write("module.bin", with_body("1"));
    let build = format!("until test -e go; do sleep 0.1; done; {BUILD}");
    let mut serving = with_build(&folder, &build, &[]).await;
    let mut client = serving.connect().await;
    let response = client.get("/ext/my-tool/a").await;
    let message = "the extension at /ext is being loaded; try again";
    response.check_error(503, "ExtensionLoading", message);
    assert_ne!(response.header("retry-after"), "");
    assert_eq!(client.get("/version").await.status, 200);
    folder.write("go", "");
    serving.printed("grants = ").await;
    assert_eq!(client.get("/ext/my-tool/a").await.text(), "1");
    assert_eq!(client.get("/ext/other").await.status, 404);
    serving.stop().await;
}

#[tokio::test]
async fn a_response_header_beyond_the_mount_needs_an_option() {
    let folder = Folder::new();
    folder.write("module.bin", component::with_response(200, "service-worker-allowed", b"/"));
    let mut serving = dev(&folder, &[]).await;
    let output = serving.printed("waiting for a change").await;
    assert!(output.contains("header service-worker-allowed affects more than"), "{output}");
    serving.stop().await;
    let mut serving = dev(&folder, &["--grant-header", "service-worker-allowed"]).await;
    let output = serving.printed("headers = ").await;
    assert!(output.ends_with("\n  headers = [\"service-worker-allowed\"]\n"), "{output}");
    let mut client = serving.connect().await;
    assert_eq!(client.get("/ext/my-tool/").await.header("service-worker-allowed"), "/");
    serving.stop().await;

    let file = folder.path("my_tool.wasm");
    for (header, status) in [("alt-svc", 1), ("service-worker-allowed", 0)] {
        let args = ["check", "--dialect", "any", &file, "--grant-header", header];
        assert_eq!(Program::new(args).run().await.status, Some(status), "{header}");
    }
    let path = folder.as_path().to_str().unwrap();
    let ended =
        Program::new(["dev", path, "--build", "true", "--grant-header", "etag"]).run().await;
    assert_eq!(
        ended.stderr,
        "relayer-rest: --grant-header: header etag needs no grant; remove it\n"
    );
}

#[tokio::test]
async fn a_response_that_changes_with_each_publication_is_reported() {
    let folder = Folder::new();
    let metrics = BUNDLED_EXTENSIONS.iter().find(|extension| extension.name == "metrics").unwrap();
    folder.write("module.bin", metrics.component);
    let mut serving = dev(&folder, &[]).await;
    let output = serving.printed("grants = ").await;
    let warning =
        "\nwarning: GET / changes with each publication, because it shows state.changed and ";
    assert!(output.contains(warning), "{output}");
    replace(&folder, "module.bin", with_body("1"));
    let output = serving.printed("served after").await;
    assert!(!output.contains("changes with each publication"), "{output}");
    serving.stop().await;
}

/// The document of the project has an effect only if the build adds it to the module.
#[tokio::test]
async fn a_document_that_differs_from_the_one_in_the_module_is_reported() {
    let folder = Folder::new();
    let document = json!({"openapi": "3.1.0", "paths": {}}).to_string();
    folder.write("module.bin", with_body("1"));
    folder.write("openapi.json", &document);
    let mut serving = dev(&folder, &[]).await;
    let output = serving.printed("grants = ").await;
    assert!(output.contains("\nopenapi.json: not in the module, so its routes "), "{output}");
    let module = component::with_document(with_body("2"), document.as_bytes());
    replace(&folder, "module.bin", module);
    let output = serving.printed("served after").await;
    assert!(!output.contains("openapi.json:"), "{output}");
    for (document, problem) in [
        ("{\"openapi\": \"3.1.1\", \"paths\": {}}", "not the document that the module has; add it"),
        ("{", "not an OpenAPI document: "),
    ] {
        replace(&folder, "openapi.json", document);
        let output = serving.printed("unchanged").await;
        assert!(output.contains(&format!("\nopenapi.json: {problem}")), "{output}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn the_last_good_build_stays_while_others_fail() {
    let folder = Folder::new();
    folder.write("module.bin", with_body("1"));
    folder.write("fail", "");
    let mut serving = dev(&folder, &[]).await;
    let output = serving.printed("waiting for a change").await;
    assert!(output.contains("\nbuild failed (exit status: 3)\n"), "{output}");
    // The message of the tool is not changed.
    serving.logged("module.bin:1: broken").await;
    let mut client = serving.connect().await;
    let response = client.get("/ext/my-tool/").await;
    let message = "this extension is out of service; the log of the server has the reason";
    response.check_error(503, "ExtensionUnavailable", message);
    fs::remove_file(folder.join("fail")).unwrap();
    let output = serving.printed("grants = ").await;
    assert!(output.starts_with("changed: fail\nserved after "), "{output}");

    folder.write("fail", "");
    let output = serving.printed("stays active").await;
    assert!(output.contains("build failed (exit status: 3)\nthe last good build stays active: "));
    fs::remove_file(folder.join("fail")).unwrap();
    serving.printed("unchanged: this build is active already").await;
    replace(&folder, "module.bin", component::of_handler("unreachable"));
    let output = serving.printed("stays active").await;
    assert!(output.contains("\nrejected: mount /ext/my-tool: module "), "{output}");
    replace(&folder, "module.bin", "no component");
    let output = serving.printed("stays active").await;
    assert!(output.contains("not WebAssembly"), "{output}");
    assert_eq!(client.get("/ext/my-tool/").await.text(), "1");
    // The differences are those to the active build, and not to a rejected one.
    replace(&folder, "module.bin", with_body("2"));
    let output = serving.printed("served after").await;
    assert!(output.contains("\n    body: 1 -> 2\n"), "{output}");
    serving.stop().await;
}

#[tokio::test]
async fn variables_of_the_environment_limit_the_checks_of_a_build() {
    let folder = Folder::new();
    folder.write("module.bin", component::of_handler("(loop br 0) unreachable"));
    let path = folder.as_path().to_str().unwrap();
    let dev = Program::new(["dev", path, "--listen", "127.0.0.1:0", "--build", BUILD]);
    let mut serving = dev.env("RELAYER_REST_SWAP_TIME", "1ms").start().await;
    let output = serving.printed("waiting for a change").await;
    let [problem, remedy] = ["no result within 1ms", "or RELAYER_REST_SWAP_TIME for dev"];
    assert!(output.contains(problem) && output.contains(remedy), "{output}");
    serving.stop().await;
}

/// A server rolls back to the module before, whose 404 hides the failure of a new route.
#[tokio::test]
async fn failures_of_a_new_route_are_shown_to_the_client_and_in_the_log() {
    let folder = Folder::new();
    folder.write("module.bin", with_body("1"));
    let mut serving = dev(&folder, &[]).await;
    serving.printed("grants = ").await;
    let mut client = serving.connect().await;
    assert_eq!(client.get("/ext/my-tool/peers").await.text(), "1");

    let code = component::only_for("/channels")
        + "(call $report (i32.const 64) (i32.const 13)) unreachable";
    let fails = component::of_handler_that_reports("no such chain", &code);
    replace(&folder, "module.bin", fails);
    serving.printed("served after").await;
    for path in ["/ext/my-tool/channels", "/ext/my-tool/channels?limit=1"] {
        let response = client.get(path).await;
        assert_eq!(response.status, 500, "{}", response.text());
        let line = serving.logged("no such chain").await;
        assert!(line.contains(response.header("x-request-id")), "{line}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn requests_of_the_author_are_compared_and_their_failures_are_shown() {
    let folder = Folder::new();
    let content = json!({"text/plain": {}});
    let any = json!({"responses": {"default": {"description": "Any", "content": content}}});
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/declared/{id}": {"get": any}, "/command": {"post": any}},
    });
    let with_routes =
        |body| component::with_document(with_body(body), document.to_string().as_bytes());
    folder.write("module.bin", with_routes("1"));
    folder.write("requests.http", "# @expect body 1\nGET /mine\n");
    let builds = Folder::new();
    let count = builds.write("count", "");
    let build = format!("echo >> {count}; {BUILD}");
    let mut serving = with_build(&folder, &build, &[]).await;
    let output = serving.printed("grants = ").await;
    let first = "\n1 of 2 declared routes were not exercised\n\
        1 of 1 requests have an undeclared route\nserved";
    assert!(output.contains(first), "{output}");

    replace(&folder, "module.bin", with_routes("2"));
    let output = serving.printed("served after").await;
    for line in [
        "\nFAILED GET /mine                      200  (requests.http:2)\n",
        "\n       expected \"1\" in the body, got \"2\"\n",
        "\n1 of 1 requests failed\n",
        "\n2 of 2 requests have different responses\n",
        "\n  GET /mine (not sent by clients)\n    body: 1 -> 2\n",
        "\n  GET /declared/ibc-0 (not sent by clients)\n    body: 1 -> 2\n",
        "\nnot declared  GET /mine                      200  (requests.http:2)\n",
        "\nto declare these routes, add them to openapi.json; with the SDK for Rust, ",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }

    // Other requests need no build.
    replace(&folder, "requests.http", "# @expect body 2\nGET /mine\n");
    let output = serving.printed("unchanged").await;
    assert!(output.starts_with("changed: requests.http\nnot declared "), "{output}");
    assert_eq!(fs::read_to_string(&count).unwrap(), "\n\n");
    replace(&folder, "requests.http", "GET\n");
    let output = serving.printed("unchanged").await;
    assert!(output.contains("requests.http:1: \"GET\" is not a request"), "{output}");
    serving.stop().await;
}

#[tokio::test]
async fn a_build_ends_with_the_command() {
    let folder = Folder::new();
    let other = Folder::new();
    let file = other.path("process");
    // A process of the build that ignores the first signal.
    let build = format!("sh -c 'trap \"\" TERM; echo $$ > {file}; sleep 1000; true' & wait");
    let serving = with_build(&folder, &build, &[]).await;
    let mut process = None;
    let is_started = || {
        process = fs::read_to_string(&file).ok().and_then(|id| id.trim().parse().ok());
        process.is_some()
    };
    until("the build starts", is_started).await;
    serving.signal(Signal::INT);
    let ended = serving.ended().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let process = Pid::from_raw(process.unwrap()).unwrap();
    until("all processes of the build end", || test_kill_process(process).is_err()).await;
}

#[tokio::test]
async fn a_module_can_serve_the_api_of_a_running_relayer() {
    let folder = Folder::new();
    folder.write("module.bin", MODULE_1_13);
    let relayer = Relayer::start(Script::of_1_13());
    let args = ["--api", "1.13", "--upstream", &relayer.url()];
    let mut serving = dev(&folder, &args).await;
    let output = serving.printed("dialect = ").await;
    let settings = "\n  [module]\n  file = \"my_tool.wasm\"\n  dialect = \"1.13\"\n";
    assert!(output.ends_with(settings), "{output}");
    let mut client = serving.connect().await;
    let label = client.get("/version").await.header("x-relayer-module").to_owned();
    assert!(label.starts_with("api@"), "{label}");
    until_async("the relayer's state is served", async || client.get("/state").await.status == 200)
        .await;
    assert!(relayer.seen().paths.contains_key("/state"));
    // A module of another dialect is rejected.
    replace(&folder, "module.bin", DEFAULT_MODULE);
    let output = serving.printed("stays active").await;
    assert!(output.contains("does not conform to dialect 1.13"), "{output}");
    serving.stop().await;
}

#[tokio::test]
async fn an_extension_sees_the_state_of_a_running_relayer() {
    let folder = Folder::new();
    folder.write("module.bin", component::that_counts_chains(1, 200));
    let mut script = Script::of_0_7();
    script.chains.truncate(1);
    let relayer = Relayer::start(script);
    // The sample has two chains.
    let mut serving = dev(&folder, &["--upstream", &relayer.url()]).await;
    serving.printed("grants = ").await;
    let mut client = serving.connect().await;
    let counts = async || client.get("/ext/my-tool/").await.status == 201;
    until_async("the relayer's only chain is counted", counts).await;
    serving.stop().await;
}

/// The sample has telemetry, and so has a relayer with `--telemetry`.
#[tokio::test]
async fn an_extension_sees_the_telemetry() {
    let folder = Folder::new();
    let metrics = BUNDLED_EXTENSIONS.iter().find(|extension| extension.name == "metrics").unwrap();
    folder.write("module.bin", metrics.component);
    let relayer = Relayer::start(Script::of_1_13());
    let text: Arc<[u8]> =
        Arc::from(&b"# TYPE backlog_size gauge\nbacklog_size{chain=\"a\"} 7\n"[..]);
    relayer.change(|script| drop(script.bodies.insert("/metrics".to_owned(), text)));
    let url = relayer.url();
    for (args, sample) in [
        (vec![], "\nwallet_balance{"),
        (vec!["--upstream", &url, "--telemetry", &url], "\nbacklog_size{chain=\"a\"} 7\n"),
    ] {
        let mut serving = dev(&folder, &args).await;
        serving.printed("grants = ").await;
        let mut client = serving.connect().await;
        client.get_until("/ext/my-tool/", |found| found.text().contains(sample)).await;
        serving.stop().await;
    }
}

#[tokio::test]
async fn folders_without_a_module_are_rejected() {
    let folder = Folder::new();
    let path = folder.as_path().to_str().unwrap();
    let ended = Program::new(["dev", path]).run().await;
    assert_eq!(ended.status, Some(2));
    let error = format!("relayer-rest: {path}: no Cargo.toml, package.json or build.py; name ");
    assert!(ended.stderr.starts_with(&error), "{}", ended.stderr);

    for (build, error) in [
        ("true", "the build has written no *.wasm there; name its output with --module FILE"),
        ("touch a.wasm b.wasm", "more than one *.wasm; remove the others"),
    ] {
        let mut serving = with_build(&folder, build, &[]).await;
        let output = serving.printed("waiting for a change").await;
        assert!(output.contains(error), "{output}");
        serving.stop().await;
    }
    folder.write("module.bin", with_body("1"));
    let build = "cp module.bin b.wasm";
    let mut serving = with_build(&folder, build, &["--module", "b.wasm"]).await;
    serving.printed("/ext/b/").await;
    serving.stop().await;
}
