//! Can an author create, build and mount a module in JavaScript or Python?
//! Takes node with npm, python3 with venv, and their registries.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use relayer_rest_tests::cargo::root;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::sdk_cases::CASES;
use relayer_rest_tests::wait::{until, until_async};

/// Runs a command line as authors would.
#[track_caller]
pub(super) fn run(folder: &Path, line: &str) {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    let output = command.args(words).current_dir(folder).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{line}: {}", text.join("\n"));
}

/// Follows the steps that `new` prints, from the new folder to a mounted module, whose next version
/// raises an exception at a place.
async fn author(language: &str, source: &str, next: &str, place: &str) {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let new = ["new", "--lang", language, mine.to_str().unwrap()];
    let ended = Program::new(&new).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    // A comment may follow a step.
    let steps = ended.stdout.lines().skip(2).map(|line| line.split('#').next().unwrap().trim());
    let steps: Vec<_> = steps.collect();
    let [test, build, check] = &steps[..] else { panic!("{}", ended.stdout) };
    if language == "python" {
        add_test_of_page(&mine.join("tests/test_handle.py"));
    }
    run(&mine, test);
    check_dev(&mine, &mine.join(source)).await;
    run(&mine, build);
    let module = mine.join(check.rsplit(' ').next().unwrap());
    let readme = fs::read_to_string(mine.join("README.md")).unwrap();
    let settings = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = mine.join("relayer-rest.toml");
    // A check and a swap compile at a low priority: as long as it takes on a busy machine.
    fs::write(&config, format!("[swap]\ntime = '1h'\n{settings}")).unwrap();
    let config = config.to_str().unwrap();
    let check = ["check", "--mount", "/ext/my-tool", "--config", config, module.to_str().unwrap()];
    let ended = Program::new(&check).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    let needs = "\nneeds    grants = [\"chains\", \"query\"], wasi = true (as an extension)\n";
    assert!(ended.stdout.contains(needs), "{}", ended.stdout);
    let declared = "\nexercised     GET /chain/{id}                GET /chain/ibc-0: 200\n";
    assert!(ended.stdout.contains(declared), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("\nthe module can serve /ext/my-tool\n"), "{}", ended.stdout);

    // Mounts it as its README says.
    let capsules = folder.join("capsules");
    let telemetry = exporter();
    let args =
        ["--listen", "127.0.0.1:0", "--config", config, "--capsules", capsules.to_str().unwrap()];
    let mut serving = Program::new(&args).args(["--telemetry", &telemetry]).start().await;
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 chains: ibc-0, ibc-1\n");
    http.get("/ext/my-tool/chain/ibc%2D0")
        .await
        .check(200, r#"{"status":"success","result":"ibc-0"}"#);
    http.get("/ext/my-tool/chain/x").await.check_error(404, "ChainNotFound", "there is no chain x");
    assert_eq!(http.get("/ext/my-tool/other").await.error_name(), "NotFound");
    assert_eq!(http.request("POST", "/ext/my-tool/").await.error_name(), "MethodNotAllowed");
    // Cached responses take no run.
    let status = serving.control(&["status", "--json"]).await;
    let runs = |stdout: &str| {
        let status: serde_json::Value = serde_json::from_str(stdout).unwrap();
        let mounts = status["mounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["mount"] == "/ext/my-tool").unwrap();
        mount["module"]["runs"].as_u64().unwrap()
    };
    let before_again = runs(&status.stdout);
    assert_eq!(http.get("/ext/my-tool/").await.status, 200);
    let status = serving.control(&["status", "--json"]).await;
    assert_eq!(runs(&status.stdout), before_again);

    // Swaps in the next version, which prints, and imports more.
    let settings = fs::read_to_string(config).unwrap();
    let more = ["commands", "log", "request", "snapshot", "state", "telemetry", "version"];
    let grants = more.map(|name| format!(", \"{name}\"")).concat();
    fs::write(config, settings.replace("\"query\"]", &format!("\"query\"{grants}]"))).unwrap();
    let ended = serving.control(&["reload"]).await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    fs::copy(root().join("tests/guests/sdk").join(next), mine.join(source)).unwrap();
    let world = fs::read_to_string(mine.join("wit/world.wit")).unwrap();
    let imports = more.map(|name| format!("    import relayer:rest/{name}@0.1.0;\n")).concat();
    let world = world.replace("    export", &format!("{imports}    export"));
    fs::write(mine.join("wit/world.wit"), world).unwrap();
    run(&mine, build);
    let swap = ["swap", "--mount", "/ext/my-tool", module.to_str().unwrap()];
    let ended = serving.control(&swap).await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 of them\n");
    serving.logged("module: counting module=\"my-tool@").await;

    // Its handlers get their requests.
    for case in CASES {
        let response = http.get(&format!("/ext/my-tool{}", case.target)).await;
        case.check(response.status.as_u16(), response.text());
    }
    let headers = [("X-A", "b"), ("x-a", "c")];
    let response = http.request_with("GET", "/ext/my-tool/header", &headers).await;
    response.check(200, r#"{"status":"success","result":"b, c"}"#);
    let workers = http.get("/ext/my-tool/workers").await;
    let client = r#""Client",["ibc-0","ibc-1"]"#;
    assert!(workers.status == 200 && workers.text().contains(client), "{}", workers.text());

    // It calls the other functions of the host.
    let host = http.get("/ext/my-tool/host").await;
    let parts = r#"{"status":"success","result":[[["ibc-relayer",""#;
    assert!(host.status == 200 && host.text().starts_with(parts), "{}", host.text());
    // The sources are the sample, which needs no confirmation, and the telemetry.
    assert!(host.text().ends_with(",true,2]}"), "{}", host.text());
    serving.logged("module: shown module=\"my-tool@").await;
    let is_read = async || http.get("/ext/my-tool/telemetry").await.status != 503;
    until_async("the telemetry is read", is_read).await;
    let telemetry = http.get("/ext/my-tool/telemetry").await;
    let families = r#""result":[["queue"],[["queue chain=a 2.5"]],true,""#;
    assert!(telemetry.text().contains(families), "{}", telemetry.text());
    let clear = http.request("POST", "/ext/my-tool/clear").await;
    assert_eq!(clear.error_name(), "CommandDisabled", "{}", clear.text());

    // It does not import the mount path. The mount rolls back to the first version, which does
    // not have this route.
    assert_eq!(http.get("/ext/my-tool/mount").await.status, 404);
    let remedy = documented_remedy();
    // The log escapes quotes.
    let remedy = remedy.split(", and").next().unwrap();
    serving.logged(remedy).await;

    check_capsule(&capsules, remedy, place).await;
}

/// Returns the message of docs/modules.md about a missing import, for the interface `mount`.
pub(super) fn documented_remedy() -> String {
    let page = fs::read_to_string(root().join("docs/modules.md")).unwrap();
    let remedy = page.lines().find(|line| line.starts_with("interface state: not imported;"));
    remedy.expect("the page has the message").replace("state", "mount")
}

/// Starts an exporter of telemetry, and returns its URL.
fn exporter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let body = "# TYPE queue gauge\nqueue{chain=\"a\"} 2.5\n";
    let head = format!("content-type: text/plain\r\ncontent-length: {}", body.len());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n\r\n{body}").ok();
        }
    });
    url
}

/// Checks that `dev` builds the module and serves it, also after a change of its source.
async fn check_dev(folder: &Path, source: &Path) {
    let dev = Program::new(["dev", folder.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    // As long as it takes on a busy machine.
    let mut serving = dev.env("RELAYER_REST_SWAP_TIME", "1h").start().await;
    let output = serving.printed("grants = ").await;
    assert!(!output.contains("FAILED"), "{output}");
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 chains: ibc-0, ibc-1\n");

    let text = fs::read_to_string(source).unwrap();
    fs::write(source, text.replace(" chains: ", " of them: ")).unwrap();
    let output = serving.printed("served after").await;
    let difference = "    body: 2 chains: ibc-0, ibc-1\\n -> 2 of them: ibc-0, ibc-1\\n\n";
    assert!(output.contains(difference), "{output}");
    let mut http = Client::http1(serving.address()).await;
    assert_eq!(http.get("/ext/my-tool/").await.text(), "2 of them: ibc-0, ibc-1\n");
    serving.stop().await;
    fs::write(source, text).unwrap();
}

/// Adds the test on the page on debugging to those of a module in Python.
fn add_test_of_page(file: &Path) {
    let page = fs::read_to_string(root().join("docs/debugging.md")).unwrap();
    let (_, block) = page.split_once("```python\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let tests = fs::read_to_string(file).unwrap();
    let class = "class Test(unittest.TestCase):\n";
    assert!(tests.contains(class));
    let block = block.replace('\n', "\n    ");
    fs::write(file, tests.replace(class, &format!("{class}    {block}\n"))).unwrap();
}

/// Returns the line of a module's source that calls an interface which it does not import.
fn line_of_mount(file: &str) -> usize {
    let source = fs::read_to_string(root().join("tests/guests/sdk").join(file)).unwrap();
    1 + source.lines().position(|line| line.contains("host.mount()")).unwrap()
}

/// Checks that a capsule repeats the failure, with the place of its exception.
async fn check_capsule(folder: &Path, problem: &str, place: &str) {
    let is_capsule = |path: &PathBuf| path.to_str().unwrap().ends_with(".capsule.json");
    let find = || {
        let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.find(is_capsule)
    };
    until("there is a capsule", || find().is_some()).await;
    let ended = Program::new(["replay", find().unwrap().to_str().unwrap()]).run().await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.ends_with("\nidentical\n"), "{}", ended.stdout);
    let [recorded, replayed] = ["\nrecorded  ", "\nreplayed  "].map(|start| {
        let (_, rest) = ended.stdout.split_once(start).unwrap();
        rest.lines().next().unwrap()
    });
    assert_eq!(recorded, replayed);
    assert!(recorded.contains(problem) && recorded.contains(place), "{recorded}");
    if place.starts_with("handle.py") {
        let page = fs::read_to_string(root().join("docs/debugging.md")).unwrap();
        let (_, shown) = page.split_once("```text\nrecorded  ").unwrap();
        for line in [recorded, shown.lines().next().unwrap()] {
            assert!(line.starts_with("trap panic: ") && line.contains(", /0/handle.py:"), "{line}");
        }
    }
}

#[tokio::test]
#[ignore = "needs node 20 and npm, with the npm registry"]
async fn a_new_javascript_module_passes_its_tests_and_serves_when_mounted() {
    let line = line_of_mount("handle.js");
    author("js", "src/handle.js", "handle.js", &format!("handle.js:{line}:")).await;
}

#[tokio::test]
#[ignore = "needs python3 with venv, and PyPI"]
async fn a_new_python_module_passes_its_tests_and_serves_when_mounted() {
    let line = line_of_mount("handle.py");
    author("python", "handle.py", "handle.py", &format!("handle.py:{line} in mount")).await;
}
