//! Does a capsule of a failed request have the same outcome in another process?

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use relayer_rest_tests::cargo::FAILING_GUEST;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program, Serving};
use relayer_rest_tests::wait::{until, until_async};
use serde_json::{Value, json};

use super::admin::{Admin, sum};
use super::check_failure;

/// Starts a server of the failing module, with capsules in a folder.
async fn serving(folder: &Folder, settings: &str) -> Serving {
    let module = folder.write("failing.wasm", FAILING_GUEST);
    let settings = folder.write("relayer-rest.toml", settings);
    let args = ["--module", &module, "--dialect", "any", "--config", &settings];
    Program::server().args(args).args(["--capsules", &folder.path("capsules")]).start().await
}

/// Returns the capsules in a folder, the oldest first.
pub(crate) fn capsules(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_capsule = |path: &PathBuf| path.to_string_lossy().ends_with(".capsule.json");
    let mut paths: Vec<_> = entries.filter(is_capsule).collect();
    paths.sort();
    paths
}

/// Waits for this number of capsules.
async fn written(folder: &Folder, count: usize) -> Vec<PathBuf> {
    let folder = folder.join("capsules");
    until("the capsules are written", || capsules(&folder).len() == count).await;
    capsules(&folder)
}

/// Returns a server with the path of the capsule of a panic.
async fn after_a_panic(folder: &Folder) -> (Serving, String) {
    let serving = serving(folder, "").await;
    let mut client = serving.connect().await;
    client.get("/?read=components&then=panic").await;
    let path = written(folder, 1).await[0].display().to_string();
    (serving, path)
}

/// Runs `replay` in a process of its own.
async fn replay(args: &[&str]) -> Ended {
    Program::new([&["replay"], args].concat()).run().await
}

/// Returns the report of a replay, with its exit status.
async fn report(args: &[&str]) -> (Value, Option<i32>) {
    let ended = replay(&[&["--json"], args].concat()).await;
    let report = serde_json::from_str(&ended.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {ended:?}")), ended.status)
}

#[tokio::test]
async fn failures_have_the_same_outcome_in_another_process() {
    let folder = Folder::new();
    let serving = serving(&folder, "[module.limits]\ntime = '300ms'\nqueue-wait = '1h'").await;
    let mut client = serving.connect().await;
    let reads = "read=components&read=ids&read=chain:ibc-0&read=chain:none&read=state&read=changed";
    for (then, status) in
        [("panic", 500), ("error", 500), ("endless", 504), ("invalid", 502), ("", 200)]
    {
        let response = client.get(&format!("/?{reads}&then={then}")).await;
        assert_eq!(response.status, status, "{then}");
    }
    // The state is not known.
    let response = client.get(&format!("/?{reads}&then=unavailable")).await;
    assert_eq!(response.status, 503);
    serving.stop().await;
    let paths = capsules(&folder.join("capsules"));
    assert_eq!(paths.len(), 4);
    for (path, (kind, of_response)) in paths.iter().zip([
        ("trap", false),
        ("response", true),
        ("timeout", false),
        ("invalid", false),
    ]) {
        let path = path.to_str().unwrap();
        let (report, status) = report(&[path]).await;
        assert_eq!((status, &report["identical"]), (Some(0), &json!(true)), "{report:#}");
        assert_eq!(report["recorded"]["kind"], kind, "{report:#}");
        assert_eq!(report["recorded"], report["replayed"]);
        assert_eq!(report["replayed"]["body"].is_string(), of_response);
        assert_eq!(report["missing"], json!([]));
    }
    let text = replay(&[paths[0].to_str().unwrap()]).await.stdout;
    assert!(text.contains("\nrecorded  trap panic: panicked at "), "{text}");
    assert!(text.ends_with("\nidentical\n"), "{text}");
}

#[tokio::test]
async fn another_module_is_run_on_the_same_inputs() {
    let folder = Folder::new();
    let (_serving, path) = after_a_panic(&folder).await;
    let path = path.as_str();
    let bundled = folder.path("bundled.wasm");
    assert_eq!(Program::new(["module", &bundled]).run().await.status, Some(0));
    let (report, status) = report(&[path, "--module", &bundled]).await;
    assert_eq!((status, &report["identical"]), (Some(0), &json!(false)), "{report:#}");
    assert_ne!(report["module"], report["recorded_module"]);
    assert_eq!(report["replayed"]["status"], 404);
    let text = replay(&[path, "--module", &bundled]).await.stdout;
    let (_, body) = text.split_once("\ndifferent\n").expect(&text);
    assert_eq!(body.trim(), report["replayed"]["body"].as_str().unwrap().trim());
    // The folder of a module stands for its last build.
    let sources = Folder::new();
    sources.write("build.py", "");
    let built = sources.write("built.wasm", fs::read(&bundled).unwrap());
    let of_folder = replay(&[path, "--module", sources.as_path().to_str().unwrap()]).await.stdout;
    assert_eq!(of_folder, text);
    fs::remove_file(built).unwrap();
    let ended = replay(&[path, "--module", sources.as_path().to_str().unwrap()]).await;
    assert!(ended.stderr.contains("not built; run `python3 build.py`"), "{}", ended.stderr);
    let reference = format!("oci://localhost/a@sha256:{}", "0".repeat(64));
    let ended = replay(&[path, "--module", &reference]).await;
    check_failure(&ended, 2, &format!("module {reference}: not a file; capsules need one, "));
    // The state of the relayer is not in the capsule.
    let json = fs::read_to_string(path).unwrap();
    fs::write(path, json.replace("/?read=components&then=panic", "/state")).unwrap();
    let (report, _) = self::report(&[path, "--module", &bundled]).await;
    assert_eq!(report["missing"], json!(["state.current"]), "{report:#}");
    assert_eq!(report["replayed"]["status"], 503);
}

#[tokio::test]
async fn secrets_are_not_in_capsules() {
    let folder = Folder::new();
    let serving = serving(&folder, "[capsules]\nredact = ['x-mine']").await;
    let mut client = serving.connect().await;
    let secrets = ["secret-1", "secret-2", "secret-3", "secret-4"];
    let headers = [
        ("authorization", "Bearer secret-1"),
        ("cookie", "a=secret-2"),
        ("x-mine", "secret-3"),
        ("x-other", "visible"),
    ];
    let target =
        "/?read=text:authorization&read=text:cookie&read=text:x-other&token=secret-4&then=";
    for then in ["error", "panic", "bytes", "clear"] {
        let response = client.request_with("GET", &format!("{target}{then}"), &headers).await;
        assert_eq!(response.status, 500);
    }
    let paths = written(&folder, 4).await;
    let hex = |text: &str| {
        text.bytes().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
    };
    let outcomes = paths.iter().map(|path| {
        let json = fs::read_to_string(path).unwrap();
        for secret in secrets {
            assert!(!json.contains(secret) && !json.contains(&hex(secret)), "{secret}: {json}");
        }
        assert!(json.contains("visible"), "{json}");
        serde_json::from_str::<Value>(&json).unwrap()["outcome"].clone()
    });
    let outcomes: Vec<_> = outcomes.collect();
    let shown = r#"Some("Bearer redacted");Some("redacted");Some("visible");"#;
    assert_eq!(outcomes[0]["body"], shown);
    assert_eq!(outcomes[2]["body"], json!({ "hex": hex(shown) + "ff" }));
    let command = outcomes[3]["commands"][0].as_str().unwrap();
    assert!(command.contains("Bearer redacted"), "{command}");
    let path = &paths[0];
    let json = fs::read_to_string(path).unwrap();
    let capsule: Value = serde_json::from_str(&json).unwrap();
    let masked = ["header authorization", "header cookie", "header x-mine", "query token"];
    assert_eq!(capsule["redacted"], json!(masked));
    let text = replay(&[path.to_str().unwrap()]).await.stdout;
    assert!(text.contains("\nmasked    header authorization, header cookie,"), "{text}");
}

#[tokio::test]
async fn a_capsule_that_cannot_be_replayed_is_explained() {
    let folder = Folder::new();
    let (_serving, path) = after_a_panic(&folder).await;
    let path = path.as_str();
    let json = fs::read_to_string(path).unwrap();
    for (from, to, problem) in [
        ("\"capsule\": 1", "\"capsule\": 9", "its format has version 9; expected 1"),
        (
            "relayer:rest@0.1.0",
            "relayer:rest@0.9.0",
            "it is of contract relayer:rest@0.9.0; expected",
        ),
        ("\"wasi\": ", "\"wsai\": ", "not valid: unknown field `wsai`"),
        ("ibc-relayer", "other", "has another hash"),
        ("\"method\": \"GET\"", "\"method\": \"G T\"", "request.method: invalid HTTP method"),
        ("\"time\": \"1s\"", "\"time\": \"0s\"", "module.limits: "),
        ("\"function\": \"version.", "\"function\": \"v.", "is not a function of the state"),
    ] {
        assert!(json.contains(from), "{from}: {json}");
        let changed = folder.write("changed.json", json.replace(from, to));
        let ended = replay(&[&changed]).await;
        check_failure(&ended, 2, &format!("{changed}: capsule: "));
        assert!(ended.stderr.contains(problem), "{problem}: {}", ended.stderr);
    }
    let beside = fs::read_dir(folder.join("capsules")).unwrap().map(|entry| entry.unwrap().path());
    let component = beside.into_iter().find(|path| path.extension().is_some_and(|it| it == "wasm"));
    fs::remove_file(component.unwrap()).unwrap();
    let ended = replay(&[path]).await;
    assert!(ended.stderr.contains("name its file with --module"), "{}", ended.stderr);
    assert_eq!(ended.status, Some(2));
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_reported_at_the_start() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let ended = Program::server().args(["--capsules", &format!("{file}/below")]).run().await;
    check_failure(&ended, 2, &format!("capsules: folder {file}/below cannot be used: "));
}

/// Writes the capsule of a recent request, and returns its path.
async fn recent(serving: &Serving, folder: &Folder, id: &str) -> String {
    let ended = serving.control(&["capsule", id]).await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    folder.write(&format!("{id}.json"), ended.stdout)
}

#[tokio::test]
async fn each_recent_request_has_a_capsule_on_demand() {
    let folder = Folder::new();
    let serving = serving(&folder, "").await;
    let module = folder.path("failing.wasm");
    let mut client = serving.connect().await;
    let target = "/?read=chain:ibc-0&read=header:x-a";
    for (id, value, then) in
        [("miss", "a", ""), ("hit", "a", ""), ("other", "b", ""), ("failed", "a", "&then=panic")]
    {
        let headers = [("x-request-id", id), ("x-a", value)];
        client.request_with("GET", &format!("{target}{then}"), &headers).await;
    }
    for (id, kind) in
        [("miss", "response"), ("hit", "response"), ("other", "response"), ("failed", "trap")]
    {
        let path = recent(&serving, &folder, id).await;
        let (report, status) = report(&[&path, "--module", &module]).await;
        assert_eq!((status, &report["identical"]), (Some(0), &json!(true)), "{report:#}");
        assert_eq!((&report["recorded"]["kind"], &report["id"]), (&json!(kind), &json!(id)));
    }
    let body = |id: &str| {
        let json = fs::read(folder.join(format!("{id}.json"))).unwrap();
        serde_json::from_slice::<Value>(&json).unwrap()["outcome"]["body"].clone()
    };
    assert_eq!(body("miss"), body("hit"));
    assert_ne!(body("miss"), body("other"));
    let headers = [("x-request-id", "secret"), ("authorization", "Bearer secret-1")];
    client.request_with("GET", "/?read=text:authorization", &headers).await;
    recent(&serving, &folder, "secret").await;
    assert_eq!(body("secret"), r#"Some("Bearer redacted");"#);
    check_failure(
        &serving.control(&["capsule", "unknown"]).await,
        2,
        "request unknown: not among the recent ones of this server",
    );
    let without = Program::server().start().await;
    let message = "no capsules are kept; start the server with --capsules DIR";
    check_failure(&without.control(&["capsule", "miss"]).await, 2, message);
}

#[tokio::test]
async fn a_candidate_is_tried_on_all_stored_failures() {
    let folder = Folder::new();
    let serving = serving(&folder, "").await;
    let mut client = serving.connect().await;
    for then in ["panic", "error"] {
        client.get(&format!("/?then={then}")).await;
    }
    written(&folder, 2).await;
    let failing = folder.path("failing.wasm");
    let capsules = folder.path("capsules");
    // A capsule of another mount is not replayed.
    let json = fs::read_to_string(&written(&folder, 2).await[0]).unwrap();
    let other = json.replace("\"mount\": \"/\"", "\"mount\": \"/ext/other\"");
    assert_ne!(json, other);
    let other_file = folder.write("capsules/other.capsule.json", other);
    let bundled = folder.path("bundled.wasm");
    assert_eq!(Program::new(["module", &bundled]).run().await.status, Some(0));
    let dry_run = ["--dry-run", "--dialect", "any", "--capsules", &capsules];
    let swap = |file: &str| [&["swap", file], &dry_run[..]].concat().join("\n");
    for (file, remaining, status) in [(&bundled, 0, 0), (&failing, 2, 1)] {
        let args = swap(file);
        let ended = serving.control(&args.split('\n').collect::<Vec<_>>()).await;
        let line = format!("{remaining} of 2 stored failures remain");
        assert!(ended.stdout.lines().any(|own| own == line), "{ended:?}");
        assert_eq!(ended.status, Some(status), "{ended:?}");
        let of_root = ["check", "--mount", "/", "--dialect", "any", "--capsules", &capsules, file];
        let ended = Program::new(of_root).run().await;
        assert!(ended.stdout.lines().any(|own| own == line), "{ended:?}");
        assert_eq!(ended.status, Some(status), "{ended:?}");
        let of_all = ["check", "--dialect", "any", "--capsules", &capsules, file];
        let ended = Program::new(of_all).run().await;
        assert!(ended.stdout.contains(" of 3 stored failures remain\n"), "{ended:?}");
    }
    // Without a value that it reads, the corrected module may not reach the failure.
    let state = json.replace("/?then=panic", "/state");
    assert_ne!(json, state);
    let reading = Folder::new();
    reading.write("state.capsule.json", state);
    let args = ["check", "--dialect", "any", "--capsules", &reading.path(""), &bundled];
    let ended = Program::new(args).run().await;
    let line = "0 of 1 stored failures remain; 1 cannot be tried: the module reads a value that is missing";
    assert!(ended.stdout.lines().any(|own| own == line), "{ended:?}");
    assert!(ended.stdout.contains("    missing: state.current\n"), "{ended:?}");
    assert_eq!(ended.status, Some(1), "{ended:?}");
    // One that cannot be read does not hide the others.
    fs::write(&other_file, "{}").unwrap();
    let args = ["check", "--dialect", "any", "--capsules", &capsules, &bundled];
    let ended = Program::new(args).run().await;
    let lines: Vec<_> = ended.stdout.lines().map(str::trim).collect();
    let line = lines.iter().position(|line| *line == "1 of 3 stored failures remain");
    let error = lines[line.unwrap_or_else(|| panic!("{ended:?}")) + 1];
    assert!(error.starts_with(&format!("{other_file}: capsule: not valid: ")), "{error}");
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let args = ["check", "--dialect", "any", "--capsules", "/nowhere", &bundled];
    check_failure(&Program::new(args).run().await, 2, "folder /nowhere: cannot be read: ");
}

/// The process that changes the folder holds its lock, so that the writer waits.
#[tokio::test]
async fn failures_that_are_not_written_in_time_are_dropped_and_counted() {
    const WAITING: u64 = 64;
    const FAILURES: u64 = 2 * WAITING;
    let folder = Folder::new();
    let mut serving = serving(&folder, "[admin]\nlisten = '127.0.0.1:0'\n").await;
    let admin = Admin::of(&mut serving).await;
    let counts = async || {
        let metrics = admin.get("/metrics").await.1;
        let count = |name| sum(&metrics, &format!("relayer_rest_capsules_{name}_total "));
        ["written", "dropped"].map(count)
    };
    let lock = fs::File::create(folder.join("capsules/lock")).unwrap();
    lock.lock().unwrap();
    let mut client = serving.connect().await;
    for number in 0..FAILURES {
        // Of one path, failures do not open the circuit.
        assert_eq!(client.get(&format!("/?then=panic&read=header:{number}")).await.status, 500);
    }
    let [written, dropped] = counts().await;
    // One is with the writer, or also waits.
    assert_eq!(written, 0);
    assert!((FAILURES - WAITING - 1..=FAILURES - WAITING).contains(&dropped), "{dropped}");
    lock.unlock().unwrap();
    until_async("the rest is written", async || counts().await[0] == FAILURES - dropped).await;
    assert_eq!(counts().await[1], dropped);
    assert_eq!(capsules(&folder.join("capsules")).len() as u64, FAILURES - dropped);
}
