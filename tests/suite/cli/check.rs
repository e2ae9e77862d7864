//! Does `check` show authors all faults of a module?

use std::fs;

use relayer_rest_host::module::{BUNDLED_EXTENSIONS, DEFAULT_MODULE, Digest, MODULE_1_13};
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Ended, Program};
use serde_json::{Value, json};

async fn check(args: &[&str]) -> Ended {
    let args: Vec<_> = ["check"].iter().chain(args).collect();
    Program::new(&args).run().await
}

#[tokio::test]
async fn check_shows_each_rule_and_the_cost_of_requests() {
    let folder = Folder::new();
    let good = folder.write("good.wasm", DEFAULT_MODULE);
    let checked = check(&[&good]).await;
    assert_eq!((checked.status, checked.stderr.as_str()), (Some(0), ""));
    let as_json: Value = serde_json::from_str(&check(&[&good, "--json"]).await.stdout).unwrap();
    let rules = as_json["verdict"]["rules"].as_array().unwrap();
    let names: Vec<_> = rules.iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    let kept = checked.stdout.lines().filter_map(|line| line.strip_prefix("ok "));
    let kept: Vec<_> = kept.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(kept.contains(&"chain-values"), "{kept:?}");
    assert_eq!(kept, names);
    for part in [
        "\nimports  relayer:rest/types@0.1.0, relayer:rest/version@0.1.0, ",
        " KiB of 32.0 MiB (swap.size)\n",
        "\ninstance ",
        " KiB of host data\n",
        " of 64.0 MiB (limits.memory): ",
        "  GET /chain/no-such-chain (",
        "  POST /chains (",
        "\nlimits: 1s and 64.0 MiB; ",
    ] {
        assert!(checked.stdout.contains(part), "{part} is not in: {}", checked.stdout);
    }
    assert!(checked.stdout.ends_with("the module conforms to dialect 0.7\n"));

    let other = check(&[&good, "--dialect", "1.13", "--json"]).await;
    assert_eq!(other.status, Some(1));
    let found: Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(found["passes"], false);
    assert_eq!(found["digest"], Digest::new(DEFAULT_MODULE).to_string());
    let instance = &found["instance"];
    let sum = |keys: [&str; 3]| keys.iter().map(|key| instance[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(instance["total"], sum(["memory", "tables", "host"]));
    assert_eq!(instance["limit"], 64 << 20);
    let broken: Vec<_> = found["verdict"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| !rule["failure"].is_null())
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    let expected = [
        "version-envelope",
        "chain-fields",
        "chain-values",
        "chain-unknown-200",
        "state-workers",
        "error-empty",
        "commands",
    ];
    assert_eq!(broken, expected);
    let cost = &found["verdict"]["costs"][0];
    assert_eq!(cost["request"], "GET /version");
    assert!(cost["memory"].as_u64().unwrap() >= 65536 && cost["micros"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn check_requests_the_chains_of_an_operator() {
    let folder = Folder::new();
    let good = folder.write("good.wasm", DEFAULT_MODULE);
    let config = folder.write("hermes.toml", include_str!("../../fixtures/operator.toml"));
    let checked = check(&[&good, "--relayer-config", &config, "--json"]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let found: Value = serde_json::from_str(&checked.stdout).unwrap();
    let costs = found["verdict"]["costs"].as_array().unwrap();
    let of_present = costs.iter().filter(|cost| cost["state"] == "present");
    let chains = of_present.filter(|cost| {
        let request = cost["request"].as_str().unwrap();
        request.starts_with("GET /chain/") && cost["status"] == 200
    });
    assert_eq!(
        chains.count(),
        include_str!("../../fixtures/operator.toml").matches("[[chains]]").count()
    );
}

#[tokio::test]
async fn modules_that_cannot_serve_do_not_pass() {
    let folder = Folder::new();
    for (name, component, part) in [
        ("a.wasm", b"no".to_vec(), "not WebAssembly"),
        ("b.wasm", component::of_handler("unreachable"), "FAILED responds"),
        ("b.wasm", component::of_handler("unreachable"), "\n-      version-shape"),
        ("c.wasm", component::with_response(200, "a", b"b"), "FAILED version-shape"),
    ] {
        let path = folder.write(name, component);
        let checked = check(&[&path]).await;
        assert_eq!(checked.status, Some(1));
        assert!(checked.stdout.contains(part), "{}", checked.stdout);
    }
    let missing = check(&["/nowhere/x.wasm", "--json"]).await;
    assert_eq!(missing.status, Some(1));
    let found: Value = serde_json::from_str(&missing.stdout).unwrap();
    assert_eq!((&found["passes"], &found["digest"]), (&Value::Bool(false), &Value::Null));
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("module /nowhere/x.wasm: cannot be read: "), "{error}");
}

#[tokio::test]
async fn responses_that_are_not_declared_are_shown() {
    let folder = Folder::new();
    let content = |kind: &str, schema: Value| json!({"200": {"description": "A", "content": {kind: {"schema": schema}}}});
    let json = "application/json";
    let a = json!({"$ref": "#/components/schemas/A"});
    let endless = json!({"$ref": "#/components/schemas/Endless"});
    for (responses, problem) in [
        (content(json, a.clone()), None),
        (json!({"default": {"$ref": "#/components/responses/Any"}}), None),
        (
            json!({"404": {"description": "A"}}),
            Some("GET /a: the status 200 OK is not declared for /a"),
        ),
        (
            json!({"2XX": {"description": "A"}}),
            Some("no body is declared for /a with status 200 OK"),
        ),
        (content("text/html", a), Some("content-type is application/json; declared is text/html")),
        (content(json, json!({"type": "array"})), Some("/: {\"b\":1} is not of type \"array\"")),
        (
            content(json, json!({"properties": {"b": {"type": "string"}}})),
            Some("/b: 1 is not of type \"string\""),
        ),
        (content(json, json!({"type": 1})), Some("invalid schema: ")),
        (content(json, json!({"$ref": "#/components/schemas/None"})), Some("invalid schema: ")),
        // These demand nothing.
        (content(json, endless), None),
        (content(json, json!({"$ref": "#/components/schemas/Loop"})), None),
        (
            json!({"200": {"$ref": "#/components/responses/Endless"}}),
            Some("is not declared for /a"),
        ),
    ] {
        let document = json!({
            "openapi": "3.1.0",
            "paths": {"/a": {"get": {"responses": responses}}},
            "components": {
                "schemas": {
                    "A": {"type": "object", "required": ["b"]},
                    "Endless": {"$ref": "#/components/schemas/Endless"},
                    "Loop": {"allOf": [{"not": {"not": {"$ref": "#/components/schemas/Loop"}}}]},
                },
                "responses": {
                    "Any": {"description": "Any", "content": {"application/json": {}}},
                    "Endless": {"$ref": "#/components/responses/Endless"},
                },
            },
        });
        let module =
            component::of_response(200, &[("content-type", json.as_bytes())], br#"{"b":1}"#);
        let file = folder
            .write("a.wasm", component::with_document(module, document.to_string().as_bytes()));
        let checked = check(&["--dialect", "any", "--json", &file]).await;
        let report: Value = serde_json::from_str(&checked.stdout).unwrap();
        let rules = report["verdict"]["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["rule"] == "openapi").unwrap();
        let found = rule["failure"].as_str();
        match problem {
            None => assert_eq!(found, None, "{responses}"),
            Some(problem) => {
                assert!(
                    found.is_some_and(|found| found.contains(problem)),
                    "{responses}: {found:?}"
                );
            }
        }
        assert_eq!(checked.status, Some(i32::from(problem.is_some())), "{responses}");
    }
}

#[tokio::test]
async fn the_responses_of_all_bundled_modules_are_declared() {
    let folder = Folder::new();
    let api = [("0.7", DEFAULT_MODULE, "0.7"), ("1.13", MODULE_1_13, "1.13")];
    let extensions = BUNDLED_EXTENSIONS.iter();
    let extensions = extensions.map(|extension| (extension.name, extension.component, "any"));
    for (name, module, dialect) in api.into_iter().chain(extensions) {
        let file = folder.write(&format!("{name}.wasm"), module);
        let checked = check(&["--dialect", dialect, &file]).await;
        assert!(checked.stdout.contains("\nok     openapi "), "{name}: {}", checked.stdout);
        assert!(!checked.stdout.contains("not exercised"), "{name}: {}", checked.stdout);
    }
}

#[tokio::test]
async fn responses_that_change_with_each_publication_are_listed() {
    let folder = Folder::new();
    let warned = async |name: &str, module: &[u8], dialect| {
        let file = folder.write(&format!("{name}.wasm"), module);
        let checked = check(&["--dialect", dialect, &file]).await;
        assert_eq!(checked.status, Some(0), "{}", checked.stdout);
        let report = check(&["--dialect", dialect, "--json", &file]).await;
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        let warnings = checked.stdout.lines().filter(|line| line.starts_with("warning: "));
        (warnings.map(str::to_owned).collect::<Vec<_>>(), report["volatile"].clone())
    };
    assert_eq!(warned("api", DEFAULT_MODULE, "0.7").await, (Vec::new(), json!([])));
    let metrics = BUNDLED_EXTENSIONS.iter().find(|extension| extension.name == "metrics").unwrap();
    let warning = "warning: GET / changes with each publication, because it shows state.changed and \
                   telemetry.scraped; clients that wait for it are woken each time: leave the time \
                   out, or round it";
    assert_eq!(
        warned("metrics", metrics.component, "any").await,
        (
            vec![warning.to_owned()],
            json!([{"request": "GET /", "reads": ["state.changed", "telemetry.scraped"]}])
        )
    );
}

/// An extension serves all paths, also those of the API, and need not succeed at them.
#[tokio::test]
async fn a_module_for_a_mount_is_checked_as_an_extension() {
    let folder = Folder::new();
    let catch_all = component::with_response(503, "a", b"not yet");
    let file = folder.write("a.wasm", catch_all);
    let checked = check(&["--dialect", "any", &file]).await;
    assert_eq!(checked.status, Some(1));
    assert!(checked.stdout.contains("\nFAILED succeeds "), "{}", checked.stdout);
    let end = "does not conform to dialect any: 1 of 4 rules failed; of its own paths, only / was \
               exercised: declare its routes, write requests.http, or add --ask 'GET /PATH'; for \
               an extension, add --mount PATH\n";
    assert!(checked.stdout.ends_with(end), "{}", checked.stdout);
    let checked = check(&["--mount", "/ext/a", "--ask", "/", &file]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    assert!(checked.stdout.ends_with("\nthe module can serve /ext/a\n"), "{}", checked.stdout);

    let broken = folder.write("b.wasm", component::of_handler("unreachable"));
    let checked = check(&["--mount", "/ext/b", &broken]).await;
    let end = "cannot serve /ext/b: 1 of 3 rules failed; 2 not tested after the failure\n";
    assert!(checked.stdout.ends_with(end), "{}", checked.stdout);
    let mounted = folder.write("c.wasm", component::that_returns_its_mount());
    let args = ["--mount", "/a/b", "--ask", "/", "--json", &mounted];
    let report: Value = serde_json::from_str(&check(&args).await.stdout).unwrap();
    assert_eq!(report["mount"], "/a/b");
    assert_eq!(report["requests"][0]["response"]["body"], "/a/b");
}

/// The settings of an extension are those of its mount.
#[tokio::test]
async fn a_module_is_checked_against_the_limits_of_its_mount() {
    let folder = Folder::new();
    let file = folder.write("a.wasm", component::with_response(200, "alt-svc", b"b"));
    let settings = "[[extension]]\nname = 'chains'\nmount = '/mine'\nmodule = 'a.wasm'\n\
        headers = ['alt-svc']\nlimits.memory = '8MiB'\n[module.limits]\nmemory = '7MiB'\n";
    let config = folder.write("relayer-rest.toml", settings);
    for (mount, status, limit) in
        [("/mine", 0, "8.0 MiB"), ("/other", 1, "64.0 MiB"), ("/", 1, "7.0 MiB")]
    {
        let checked = check(&["--mount", mount, "--config", &config, &file]).await;
        assert_eq!(checked.status, Some(status), "{}", checked.stdout);
        let part = format!(" of {limit} (limits.memory): ");
        assert!(checked.stdout.contains(&part), "{mount}: {}", checked.stdout);
    }
    // Its imports must be granted there.
    let counts = folder.write("a.wasm", component::that_counts_chains(1, 200));
    let checked = check(&["--mount", "/mine", "--config", &config, &counts]).await;
    assert_eq!(checked.status, Some(1), "{}", checked.stdout);
    let end = "keeps all rules of extensions; of its own paths, only / was exercised: declare its \
               routes, write requests.http, or add --ask 'GET /PATH'\n";
    let lacking = format!(
        "{end}module {counts}: imports more than mount /mine grants; set grants = [\"chains\"] there\n"
    );
    assert!(checked.stdout.ends_with(&lacking), "{}", checked.stdout);
    let checked = check(&["--mount", "/mine", &counts]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let checked = check(&["--mount", "/mine", "--dialect", "1.13", &file]).await;
    assert_eq!(checked.status, Some(2));
    let reason = "--dialect 1.13: only the API has a dialect, and --mount /mine is an extension; \
                  remove one of them\n";
    assert!(checked.stderr.ends_with(reason), "{}", checked.stderr);
    let checked = check(&["--mount", "/chains", &file]).await;
    assert!(checked.stderr.contains("/chains is reserved for the API"), "{}", checked.stderr);
}

/// A module that declares three operations, and responds with 200 to short paths such as `/a`
/// and with 404 to others.
fn with_routes() -> Vec<u8> {
    let status = "(select (i32.const 200) (i32.const 404) (i32.lt_u (local.get 3) (i32.const 6)))";
    let module =
        component::of_handler(&format!("(i32.store16 (i32.const 0) {status}) i32.const 0"));
    let any = json!({"responses": {"default": {"description": "Any"}}});
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/a": {"get": any, "post": any}, "/worker/{id}": {"get": any}},
    });
    component::with_document(module, document.to_string().as_bytes())
}

#[tokio::test]
async fn declared_routes_that_were_not_exercised_are_listed() {
    let folder = Folder::new();
    let file = folder.write("a.wasm", with_routes());
    let checked = check(&["--dialect", "any", &file]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    for line in [
        "\nexercised     GET /a                         GET /a: 200\n",
        "\nnot exercised POST /a                        only GET is requested without requests.http or --ask\n",
        "\nnot exercised GET /worker/{id}               GET /worker/ibc-0: 404\n",
        "\nto exercise all routes, add requests to requests.http, or --ask 'POST /a' with values",
        "\nthe module conforms to dialect any; 2 of 3 declared routes were not exercised\n",
    ] {
        assert!(checked.stdout.contains(line), "{line}: {}", checked.stdout);
    }

    // An error exercises a route only if its author expects it.
    let checked = check(&["--dialect", "any", "--ask", "/worker/7", &file]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let line = "\nnot exercised GET /worker/{id}               GET /worker/ibc-0: 404\n";
    assert!(checked.stdout.contains(line), "{}", checked.stdout);
    folder.write("requests.http", "GET /worker/7\n# @expect status 404\n");
    let args = ["--dialect", "any", "--json", "--ask", "POST /a", "--ask", "/a", &file];
    let report: Value = serde_json::from_str(&check(&args).await.stdout).unwrap();
    assert_eq!(report["passes"], true, "{report}");
    let routes = report["routes"].as_array().unwrap();
    let exercised = |route: &Value| (route["route"].clone(), route["exercised"].clone());
    assert_eq!(
        routes.iter().map(exercised).collect::<Vec<_>>(),
        ["GET /a", "POST /a", "GET /worker/{id}"].map(|route| (json!(route), json!(true)))
    );
    let of_worker = json!({
        "route": "GET /worker/{id}", "exercised": true, "request": "GET /worker/7", "status": 404,
    });
    assert_eq!(routes[2], of_worker);
}

#[tokio::test]
async fn a_response_that_the_module_does_not_declare_fails_also_without_an_expectation() {
    let folder = Folder::new();
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"responses": {"200": {"description": "Fine"}}}}},
    });
    let module = component::of_response(404, &[], b"");
    let module = component::with_document(module, document.to_string().as_bytes());
    let file = folder.write("a.wasm", module);
    let checked = check(&["--dialect", "any", "--ask", "POST /a", &file]).await;
    assert_eq!(checked.status, Some(1), "{}", checked.stdout);
    let line = "\nFAILED POST /a                        404  (--ask)\n       ";
    assert!(checked.stdout.contains(line), "{}", checked.stdout);
}

#[tokio::test]
async fn expected_responses_are_those_of_the_sample_and_ask_shows_those_of_an_operator() {
    let folder = Folder::new();
    let module = folder.write("a.wasm", DEFAULT_MODULE);
    folder.write("requests.http", "GET /chains\n# @expect body \"ibc-0\"\n");
    let config = folder.write("config.toml", include_str!("../../fixtures/operator.toml"));
    let checked = check(&["--relayer-config", &config, "--ask", "/chains", &module]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let asked = checked.stdout.split("(--ask)").nth(1).unwrap();
    assert!(asked.contains(r#""result":["osmosis-1","#), "{asked}");
}

#[tokio::test]
async fn a_module_without_routes_and_requests_is_not_reported_as_exercised() {
    let folder = Folder::new();
    let file = folder.write("a.wasm", component::that_returns_its_query());
    let checked = check(&["--dialect", "any", &file]).await;
    assert_eq!(checked.status, Some(0));
    let restriction = "the module conforms to dialect any; of its own paths, only / was exercised: \
         declare its routes, write requests.http, or add --ask 'GET /PATH'\n";
    assert!(checked.stdout.ends_with(restriction), "{}", checked.stdout);
    let checked = check(&["--dialect", "any", "--ask", "/a?b", &file]).await;
    assert!(checked.stdout.ends_with("\nthe module conforms to dialect any\n"));
}

#[tokio::test]
async fn requests_of_the_author_get_their_expected_responses() {
    let folder = Folder::new();
    // Its responses have the query as the body.
    let release = folder.join("target/wasm32-unknown-unknown/release");
    fs::create_dir_all(&release).unwrap();
    let file = folder
        .write("target/wasm32-unknown-unknown/release/a.wasm", component::that_returns_its_query());
    let requests = "@base = http://127.0.0.1:8000/ext/a\n\n### Two chains\n\
        # @expect status 200\n# @expect body chains=2\nGET {{base}}/?chains=2\nAccept: */*\n\n\
        ###\n// @expect status 204\nGET /spare\n";
    let path = folder.write("requests.http", requests);
    let checked = check(&["--dialect", "any", &file]).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    for line in [
        format!("\nok     GET /?chains=2                 200  (Two chains, {path}:6)\n"),
        format!("\nok     GET /spare                     204  ({path}:11)\n"),
    ] {
        assert!(checked.stdout.contains(&line), "{line}: {}", checked.stdout);
    }

    // The file next to the module comes first.
    let requests = "### Three\n# @expect status 404\n# @expect body chains=3\n\
        # @expect header etag: a\nGET /?chains=2\n### \nGET /?trap\n";
    let path = folder.write("target/wasm32-unknown-unknown/release/requests.http", requests);
    let checked = check(&["--dialect", "any", &file]).await;
    assert_eq!(checked.status, Some(1));
    for line in [
        format!("\nFAILED GET /?chains=2                 200  (Three, {path}:5)\n"),
        "\n       expected the status 404, got 200\n".to_owned(),
        "\n       expected the header etag, got none\n".to_owned(),
        "\n       expected \"chains=3\" in the body, got \"chains=2\"\n".to_owned(),
        format!("\nFAILED GET /?trap                     -  ({path}:7)\n       no response: "),
        "\nthe module conforms to dialect any; 2 of 2 requests failed\n".to_owned(),
    ] {
        assert!(checked.stdout.contains(&line), "{line}: {}", checked.stdout);
    }

    // An option names another one.
    let other = folder.write("other.http", "GET /spare");
    let args = ["--dialect", "any", "--json", "--requests", &other, &file];
    let report: Value = serde_json::from_str(&check(&args).await.stdout).unwrap();
    let response = json!({"status": 204, "headers": [], "body": ""});
    let origin = format!("{other}:1");
    let expected = json!([{
        "request": "GET /spare", "name": null, "origin": origin, "response": response, "failures": [],
    }]);
    assert_eq!(report["requests"], expected);
}

/// The document of a module is stale after a route was added.
#[tokio::test]
async fn requests_for_routes_that_are_not_declared_are_reported() {
    let folder = Folder::new();
    let any = json!({"responses": {"default": {"description": "Any"}}});
    let document = json!({"openapi": "3.1.0", "paths": {"/a/{id}": {"get": any}}});
    let module = component::with_response(204, "a", b"b");
    let module = component::with_document(module, document.to_string().as_bytes());
    let file = folder.write("a.wasm", module);
    let asks = ["--ask", "GET /a/1", "--ask", "HEAD /a/2", "--ask", "POST /a/3", "--ask", "GET /b"];
    let checked = check(&[&["--dialect", "any"], &asks[..], &[&file]].concat()).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    let lines = "\nexercised     GET /a/{id}                    GET /a/ibc-0: 204\n\
        not declared  POST /a/3                      204  (--ask)\n\
        not declared  GET /b                         204  (--ask)\n\
        to declare these routes, add them to openapi.json; with the SDK for Rust, \
        UPDATE_OPENAPI=1 cargo test writes it\n";
    assert!(checked.stdout.contains(lines), "{}", checked.stdout);
    let end = "conforms to dialect any; 2 of 4 requests have an undeclared route\n";
    assert!(checked.stdout.ends_with(end), "{}", checked.stdout);
}

#[tokio::test]
async fn the_folder_of_a_module_stands_for_its_last_build() {
    let folder = Folder::new();
    let path = folder.as_path().to_str().unwrap();
    let error = async |program: Program| {
        let ended = program.run().await;
        assert_eq!(ended.status, Some(2), "{ended:?}");
        ended.stderr
    };
    let checked = || Program::new(["check", "--dialect", "any", path]);
    let language = "a folder without Cargo.toml, package.json or build.py; name a file, or";
    assert!(error(checked()).await.contains(language));
    folder.write("build.py", "");
    let not_built =
        format!("relayer-rest: module {path}: not built; run `python3 build.py` in this folder\n");
    assert_eq!(error(checked()).await, not_built);
    let module = component::with_response(204, "a", b"b");
    let file = folder.write("my_tool.wasm", &module);
    folder.write("requests.http", "GET /mine\n");
    let ended = checked().run().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with(&format!("module {file} ")), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nok     GET /mine "), "{}", ended.stdout);
    folder.write("other.wasm", &module);
    assert!(error(checked()).await.contains("more than one *.wasm; name one of them"));

    // Cargo names its folder.
    let manifest = "[package]\nname = 'my-tool'\n[lib]\ncrate-type = ['cdylib']\npath = 'lib.rs'\n";
    folder.write("Cargo.toml", manifest);
    folder.write("lib.rs", "");
    let target = Folder::new();
    let release = target.join("wasm32-unknown-unknown/release");
    fs::create_dir_all(&release).unwrap();
    let in_target = || checked().env("CARGO_TARGET_DIR", target.as_path());
    let not_built =
        format!("relayer-rest: module {path}: not built; run `cargo module` in this folder\n");
    assert_eq!(error(in_target()).await, not_built);
    fs::write(release.join("my_tool.wasm"), module).unwrap();
    let ended = in_target().run().await;
    let file = release.join("my_tool.wasm");
    let start = format!("module {} ", file.display());
    assert!(ended.stdout.starts_with(&start), "{ended:?}");
    assert!(ended.stdout.contains("\nok     GET /mine "), "{}", ended.stdout);
    folder.write("Cargo.toml", manifest.replace("cdylib", "rlib"));
    assert!(error(in_target()).await.contains("the package has no cdylib"));
    folder.write("Cargo.toml", "[");
    assert!(error(in_target()).await.contains("cargo metadata fails; correct the package"));
}

#[tokio::test]
async fn invalid_lines_of_a_requests_file_are_named() {
    let folder = Folder::new();
    let file = folder.write("a.wasm", component::that_returns_its_query());
    for (content, error) in [
        ("GET /\nAccept\n", ":2: \"Accept\" is not a header; write it as name: value\n"),
        (
            "\n# @expect status ok\nGET /\n",
            ":2: @expect status: \"ok\" is not a status; write a number, such as 200\n",
        ),
    ] {
        let path = folder.write("requests.http", content);
        let checked = check(&["--dialect", "any", &file]).await;
        assert_eq!((checked.status, checked.stdout.as_str()), (Some(2), ""));
        assert_eq!(checked.stderr, format!("relayer-rest: requests file {path}{error}"));
    }
    let checked = check(&["--requests", "/nowhere/x.http", &file]).await;
    assert_eq!(checked.status, Some(2));
    assert!(checked.stderr.contains("requests file /nowhere/x.http: cannot be read: No such file"));
    let checked = check(&["--ask", "GET x", &file]).await;
    assert_eq!(checked.status, Some(2));
    assert!(checked.stderr.contains("\"x\" is not a path; begin it with a slash"));
}

#[tokio::test]
async fn the_response_to_a_request_of_the_command_line_is_printed() {
    let folder = Folder::new();
    let file = folder.write("a.wasm", component::of_response(200, &[], b"a\x1bb\nc"));
    let asks = ["--dialect", "any", "--ask", "GET /", &file];
    let checked = check(&asks).await;
    assert_eq!(checked.status, Some(0), "{}", checked.stdout);
    // Escape sequences do not reach the terminal.
    let shown =
        "\nok     GET /                          200  (--ask)\n\n       a\\u{1b}b\n       c\n";
    assert!(checked.stdout.contains(shown), "{}", checked.stdout);
    let file = folder.write("c.wasm", component::that_traps_later("{}"));
    let trap = format!("GET {}", component::TRAP);
    let checked = check(&["--dialect", "any", "--ask", &trap, &file]).await;
    assert_eq!(checked.status, Some(1));
    assert!(
        checked.stdout.contains(&format!("\nFAILED {trap:<30} -  (--ask)\n       no response: "))
    );

    let module = component::with_response(418, "content-type", b"text/html");
    let file = folder.write("b.wasm", module);
    let checked = check(&["--dialect", "any", "--ask", "/a", &file]).await;
    let shown = "418  (--ask)\n       content-type: text/html\n";
    assert!(checked.stdout.contains(shown) && checked.status == Some(0), "{}", checked.stdout);
}
