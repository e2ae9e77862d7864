//! Do the SDKs for JavaScript and Python do the same as the one for Rust?
//! Takes node and python3, without their registries.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use relayer_rest_sdk::Request;
use relayer_rest_sdk::testing::FakeHost;
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::sdk_cases::CASES;
use serde_json::{Value, json};

use super::languages::documented_remedy;

/// The driver of a module in JavaScript: prints its responses to the targets.
const JS: &str = r#"
import { Host, Response } from "./sdk/index.js";
import { FakeHost, Request } from "./sdk/testing.js";
import "./sdk/module.js";
import { handle } from "./src/handle.js";

const host = new FakeHost()
  .withChain("ibc-1")
  .withChain("ibc-0")
  .withWorker("Client", { dstChainId: "ibc-0", dstClientId: "ü", srcChainId: "ibc-1" })
  .withWorker("Wallet", { chainId: "ibc-0" })
  .withMetric("queue", { chain: "ibc-1", port: "a" }, 2.5)
  .withMetric("backlog", {}, 0.5)
  .withMetric("queue", { chain: "ibc-0" }, -1.25)
  .mountedAt("/ext/mine");
const shown = (response) => [response.status, response.headers, response.textBody()];
const request = (target) => Request.get(target).withHeader("X-A", "b").withHeader("x-a", "c");
const responses = JSON.parse(process.argv[2]).map((target) => shown(handle(host, request(target))));
responses.push(shown(handle(FakeHost.notReady("wait"), Request.get("/workers"))));
responses.push(shown(handle(new FakeHost(), Request.get("/telemetry"))));
const cleared = new FakeHost();
responses.push(shown(handle(cleared, new Request("POST", "/clear"))));
const recorded = [cleared.cleared().map((chain) => chain ?? null), host.logged()];
let missing;
try {
  handle(new Host({}), Request.get("/mount"));
} catch (error) {
  missing = error.message;
}
const thrown = [];
const invalid = [
  () => Response.empty("200"),
  () => Response.text({ a: 1 }),
  () => Response.text(undefined),
  () => Response.success(undefined),
  () => Request.get("/?a=1").queryAs("a", Boolean),
  () => Request.get("/?a=").queryAs("a", BigInt),
  () => host.log("warning", "a"),
  () => new FakeHost().withWorker("wallet"),
  () => new FakeHost().withWorker("Wallet", { chain: "a" }),
  () => new FakeHost().withChain("a", { rpc: "b" }),
  () => fetch("http://127.0.0.1/"),
];
for (const make of invalid) {
  try {
    make();
  } catch (error) {
    thrown.push(error.message.slice(0, 80));
  }
}
const chain = host.chain("ibc-0");
thrown.push(JSON.stringify([chain.extensionOptions, chain.rpcAddr ?? null]));
console.log(JSON.stringify([responses, missing, thrown, recorded]));
"#;

/// The driver of a module in Python.
const PYTHON: &str = r#"
import json, sys
from decimal import Decimal
from handle import handle
from sdk import Host, Response
from sdk.testing import FakeHost, Request
from sdk.parameter import InvalidParameter

host = (
    FakeHost()
    .with_chain("ibc-1")
    .with_chain("ibc-0")
    .with_worker("Client", dst_chain_id="ibc-0", dst_client_id="ü", src_chain_id="ibc-1")
    .with_worker("Wallet", chain_id="ibc-0")
    .with_metric("queue", {"chain": "ibc-1", "port": "a"}, 2.5)
    .with_metric("backlog", {}, 0.5)
    .with_metric("queue", {"chain": "ibc-0"}, -1.25)
    .mounted_at("/ext/mine")
)
shown = lambda response: [response.status, response.headers, response.text_body()]
request = lambda target: Request.get(target).with_header("X-A", "b").with_header("x-a", "c")
responses = [shown(handle(host, request(target))) for target in json.loads(sys.argv[1])]
responses.append(shown(handle(FakeHost.not_ready("wait"), Request.get("/workers"))))
responses.append(shown(handle(FakeHost(), Request.get("/telemetry"))))
cleared = FakeHost()
responses.append(shown(handle(cleared, Request("POST", "/clear"))))
recorded = [cleared.cleared(), host.logged()]
try:
    handle(Host({}), Request.get("/mount"))
except RuntimeError as error:
    missing = str(error)
raised = []
for make in [
    lambda: Response.empty("200"),
    lambda: Response.empty(200).with_header("a", 1),
    lambda: Response.text(None),
    lambda: Request.get("/?a=1").query_as("a", bool),
    lambda: Request.get("/?a=b").query_as("a", Decimal),
    lambda: Request.get("/?a=b").query_as("a", {"c": 1}.__getitem__),
    lambda: host.log("warning", "a"),
    lambda: FakeHost().with_worker("wallet"),
    lambda: FakeHost().with_worker("Wallet", chain="a"),
    lambda: FakeHost().with_chain("a", rpc="b"),
]:
    try:
        make()
    except (TypeError, ValueError, InvalidParameter) as error:
        raised.append(str(error)[:80])
numbers = Response.json(200, {"a": [float("nan"), (float("-inf"), 1.5)]})
raised.append(numbers.text_body())
chain = host.chain("ibc-0")
raised.append(json.dumps([chain.extension_options, chain.rpc_addr]))
print(json.dumps([responses, missing, raised, recorded]))
"#;

/// Requests beyond those of [`CASES`].
const MORE: [&str; 7] = ["/", "/header", "/headers", "/workers", "/mount", "/host", "/telemetry"];

fn targets() -> Vec<&'static str> {
    // The headers of this test are in `MORE`.
    let cases = CASES.iter().map(|case| case.target);
    cases.filter(|target| !target.starts_with("/header")).chain(MORE).collect()
}

/// Returns the responses of the module in Rust, and its response without data.
fn expected() -> Vec<Value> {
    let host = FakeHost::new()
        .with_chain("ibc-1")
        .with_chain("ibc-0")
        .with_worker(&relayer_rest_sdk::Object::Client {
            dst_chain_id: "ibc-0",
            dst_client_id: "ü",
            src_chain_id: "ibc-1",
        })
        .with_worker(&relayer_rest_sdk::Object::Wallet { chain_id: "ibc-0" })
        .with_metric("queue", &[("chain", "ibc-1"), ("port", "a")], 2.5)
        .with_metric("backlog", &[], 0.5)
        .with_metric("queue", &[("chain", "ibc-0")], -1.25)
        .mounted_at("/ext/mine");
    let get = |host: &FakeHost, target| {
        let request = Request::get(target).with_header("X-A", "b").with_header("x-a", "c");
        let response = relayer_rest_sdk_guest::handle(host, &request);
        json!([response.status, response.headers, response.text_body()])
    };
    let not_ready = get(&FakeHost::not_ready("wait"), "/workers");
    let unread = get(&FakeHost::new(), "/telemetry");
    let host_of_command = FakeHost::new();
    let cleared = relayer_rest_sdk_guest::handle(&host_of_command, &Request::new("POST", "/clear"));
    assert_eq!(host_of_command.cleared(), [Some("ibc-0".to_owned()), None]);
    let cleared = json!([cleared.status, cleared.headers, cleared.text_body()]);
    let responses = targets().into_iter().map(|target| get(&host, target));
    responses.chain([not_ready, unread, cleared]).collect()
}

/// Runs the driver of the module in a language, and compares its responses.
async fn compare(
    language: &str,
    handler: &str,
    module: &str,
    driver: (&str, &str),
    program: &str,
    invalid_values: &[&str],
) {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let new = ["new", "--lang", language, mine.to_str().unwrap()];
    let ended = Program::new(&new).run().await;
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    fs::copy(root().join("tests/guests/sdk").join(handler), mine.join(module)).unwrap();
    let (file, text) = driver;
    fs::write(mine.join(file), text).unwrap();
    // The handler imports more than the one of a new module.
    let world = fs::read_to_string(mine.join("wit/world.wit")).unwrap();
    let more = ["commands", "log", "mount", "request", "snapshot", "state", "telemetry", "version"];
    let imports = more.map(|name| format!("    import relayer:rest/{name}@0.1.0;\n")).concat();
    let world = world.replace("    export", &format!("{imports}    export"));
    fs::write(mine.join("wit/world.wit"), &world).unwrap();
    let output = run(&mine, program, file);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().last().unwrap_or_default();
    let (responses, missing, invalid, recorded): (Vec<Value>, String, Vec<String>, Value) =
        serde_json::from_str(last).unwrap_or_else(|_| panic!("{output:?}"));

    let expected = expected();
    assert_eq!(responses.len(), expected.len());
    let others = ["not ready", "unread", "cleared"];
    for ((target, found), expected) in
        targets().iter().chain(&others).zip(&responses).zip(&expected)
    {
        // The reason for an invalid value is the language's own.
        let stable = |response: &Value| {
            let mut response = response.clone();
            let body = response[2].as_str().unwrap();
            if let Some((start, _)) = body.split_once("is not valid: ") {
                response[2] = start.into();
            }
            response
        };
        assert_eq!(stable(found), stable(expected), "{language} {target}");
    }
    assert_eq!(missing, documented_remedy());
    assert_eq!(recorded, json!([["ibc-0", null], [["warn", "shown"]]]), "{language}");
    // Otherwise the line of the author is not known.
    assert_eq!(invalid, invalid_values, "{language}");

    // The test of an author fails without an import, as the module would.
    fs::write(
        mine.join("wit/world.wit"),
        world.replace("    import relayer:rest/mount@0.1.0;\n", ""),
    )
    .unwrap();
    let output = run(&mine, program, file);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(&documented_remedy()), "{output:?}");
}

/// Runs a driver.
fn run(folder: &Path, program: &str, file: &str) -> Output {
    let targets = serde_json::to_string(&targets()).unwrap();
    Command::new(program).args([file, &targets]).current_dir(folder).output().unwrap()
}

#[tokio::test]
#[ignore = "needs node 20"]
async fn a_module_in_javascript_responds_as_the_one_in_rust() {
    let invalid = [
        "a status is an integer, such as 200, not \"200\"",
        "a body is a string or a Uint8Array, not object",
        "a body is a string or a Uint8Array, not undefined",
        "a result is a value of JSON, not undefined",
        "parameter a: '1' is not valid: neither true nor false",
        "parameter a: '' is not valid: not a number",
        "level warning: expected trace, debug, info, warn, error",
        "kind wallet: not in the contract; expected Client, Channel, Connection, Packet, ",
        "name chain: not in the contract; expected chainId",
        "field rpc: not in the contract; expected kind, rpcAddr, grpcAddr, eventSource, r",
        "fetch: modules make no requests; the host's functions have the data",
        "[[],null]",
    ];
    compare("js", "handle.js", "src/handle.js", ("driver.js", JS), "node", &invalid).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_module_in_python_responds_as_the_one_in_rust() {
    let invalid = [
        "a status is an int, such as 200, not '200'",
        "a header's value is a str, not 1",
        "a body is a str or bytes, not None",
        "parameter a: '1' is not valid: neither true nor false",
        "parameter a: 'b' is not valid: [<class 'decimal.ConversionSyntax'>]",
        "parameter a: 'b' is not valid: 'b'",
        "level warning: expected trace, debug, info, warn, error",
        "kind wallet: not in the contract; expected Client, Channel, Connection, Packet, ",
        "name chain: not in the contract; expected chain_id",
        "field rpc: not in the contract; expected kind, rpc_addr, grpc_addr, event_source",
        r#"{"a":[null,[null,1.5]]}"#,
        "[[], null]",
    ];
    let driver = ("driver.py", PYTHON);
    compare("python", "handle.py", "handle.py", driver, "python3", &invalid).await;
}

/// Runs the script that adds the document to a module, and returns the routes of the module.
async fn declared(language: &str, program: &str, script: &str) -> Value {
    let folder = Folder::new();
    let mine = folder.join("my-tool");
    let new = ["new", "--lang", language, mine.to_str().unwrap()];
    assert_eq!(Program::new(&new).run().await.status, Some(0));
    let module = mine.join("my-tool.wasm");
    fs::write(&module, component::with_response(204, "a", b"b")).unwrap();
    let status = Command::new(program).args([script, "my-tool.wasm"]).current_dir(&mine).status();
    assert!(status.unwrap().success());
    fs::remove_file(mine.join("requests.http")).unwrap();
    let check = ["check", "--mount", "/ext/my-tool", "--json", mine.to_str().unwrap()];
    let report: Value = serde_json::from_str(&Program::new(check).run().await.stdout).unwrap();
    report["routes"].as_array().unwrap().iter().map(|route| route["route"].clone()).collect()
}

#[tokio::test]
#[ignore = "needs node 20"]
async fn a_module_in_javascript_declares_the_routes_of_its_document() {
    let routes = declared("js", "node", "sdk/openapi.js").await;
    assert_eq!(routes, json!(["GET /", "GET /chain/{id}"]));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_module_in_python_declares_the_routes_of_its_document() {
    let routes = declared("python", "python3", "sdk/openapi.py").await;
    assert_eq!(routes, json!(["GET /", "GET /chain/{id}"]));
}
