//! Does docs/modules.md match the contract and the SDKs, and do its commands and modules work?

use std::collections::BTreeSet;
use std::fs;

use relayer_rest_tests::cargo::root;
use relayer_rest_tests::oci_registry::OciRegistry;

use super::page::{Page, code};
use super::reader::{Reader, is_as_shown};

fn page() -> Page {
    Page::read("docs/modules.md")
}

#[test]
fn the_interfaces_match_the_contract() {
    let mut contract = Vec::new();
    for entry in fs::read_dir(root().join("wit")).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("interface ") {
                contract.push((name.trim_end_matches(" {").to_owned(), Vec::new()));
            } else if let Some((name, _)) = line.split_once(": func(") {
                contract.last_mut().unwrap().1.push(name.to_owned());
            }
        }
    }
    // Modules export this one.
    contract.retain(|(name, _)| name != "handler");
    contract.sort();
    let split = |cell: &str| cell.split(", ").map(|name| code(name).to_owned()).collect();
    let rows = page().table("## The contract");
    let mut documented: Vec<(String, Vec<String>)> =
        rows.iter().map(|row| (code(&row[0]).to_owned(), split(&row[1]))).collect();
    for (_, functions) in &mut documented {
        functions.retain(|name| !name.is_empty());
    }
    documented.sort();
    assert_eq!(documented, contract);
}

/// The SDKs in the order of the table, with the forms in which they define a name.
const SDKS: [(&str, &[&str]); 3] = [
    ("guest/sdk/src", &["fn {}(", "fn {}<", "struct {}", "macro_rules! {} "]),
    ("host/cli/templates/python/sdk", &["def {}(", "class {}:", "class {}("]),
    (
        "host/cli/templates/js/sdk",
        &["\n  {}(", "\n  static {}(", "\nexport function {}(", "class {} "],
    ),
];

/// Returns the source files of an SDK.
fn sources(folder: &str) -> String {
    let files = fs::read_dir(root().join(folder)).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Returns the names in code that one of these texts follows.
fn names_before<'a>(code: &'a str, texts: &[&str]) -> BTreeSet<&'a str> {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = |(end, _)| code[..end].rsplit(|c| !is_in_name(c)).next().unwrap();
    let ends = texts.iter().flat_map(|text| code.match_indices(text));
    ends.map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the names of the SDK that the code in a cell calls.
fn calls(cell: &str) -> BTreeSet<&str> {
    let names = names_before(cell, &["(", "!(", "::<", "::new("]);
    // Constructors of Rust and its standard library, and the handler.
    names.into_iter().filter(|name| !["new", "Some", "Err", "f"].contains(name)).collect()
}

fn snake_case(name: &str) -> String {
    let letter = |c: char| match c {
        'A'..='Z' => format!("_{}", c.to_ascii_lowercase()),
        _ => c.to_string(),
    };
    name.chars().map(letter).collect()
}

#[test]
fn the_sdks_have_the_names_of_the_table() {
    let rows = page().table("## Handlers");
    assert!(rows.len() > 50, "{}", rows.len());
    for (column, (folder, forms)) in (1..).zip(SDKS) {
        let sources = sources(folder);
        for name in rows.iter().flat_map(|row| calls(&row[column])) {
            let is_defined = forms.iter().any(|form| sources.contains(&form.replace("{}", name)));
            assert!(is_defined, "{name} is not in {folder}");
        }
    }
    // They differ only in their case.
    for row in &rows {
        let names = |column: usize| calls(&row[column]).into_iter().map(snake_case);
        assert!(names(1).eq(names(2)) && names(1).eq(names(3)), "{row:?}");
    }
}

#[test]
fn the_table_has_all_functions_of_the_host_and_the_query() {
    let read = |file| fs::read_to_string(root().join("guest/sdk/src").join(file)).unwrap();
    let (host, query) = (read("host.rs"), read("query.rs"));
    let (_, host) = host.split_once("pub trait Host {").unwrap();
    let (host, _) = host.split_once("\n}").unwrap();
    let functions = host.split("fn ").skip(1).chain(query.split("pub fn ").skip(1));
    let rows = page().table("## Handlers");
    let table: BTreeSet<_> = rows.iter().flat_map(|row| calls(&row[1])).collect();
    for function in functions {
        let name = function.split(['(', '<']).next().unwrap();
        assert!(table.contains(name), "{name} is not in the table");
    }
}

/// The lines that the blocks on the description of routes leave out.
const PRELUDE: &str = r#"
use relayer_rest_sdk::{Host, Params, Request, Response, Route, Router};
#[cfg(test)]
use relayer_rest_sdk::{OpenApi, WitHost, testing::check_openapi};

relayer_rest_sdk::module!(handle);

pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    routes().respond(host, request)
}

fn chain<H: Host>(host: &H, _: &Request, params: Params<'_>) -> Result<Response, Response> {
    let chain = host.chain(&params.get("id")?)?;
    let chain = chain.ok_or_else(|| Response::error(404, "ChainNotFound", "no chain"))?;
    Ok(Response::success(Chain { id: chain.id, workers: 0 }))
}
"#;

/// The settings of a server with the module.
const SETTINGS: &str = r#"
[[extension]]
name = "hello"
module = "target/wasm32-unknown-unknown/release/hello.wasm"
grants = ["chains"]
required = true
"#;

#[test]
#[ignore = "slow: builds a module with its dependencies"]
fn a_module_is_created_checked_published_and_explained_as_written() {
    let page = page();
    let mut reader = Reader::new();
    let created = page.block("console", "relayer-rest new hello");
    reader.run_all(created);
    let steps: Vec<_> = created.lines().skip(2).map(str::trim).collect();
    let [enter, test, build, check] = steps[..] else { panic!("{created}") };
    reader.run(enter);
    reader.run(test);
    reader.run(build);

    let dev = page.block("sh", "relayer-rest dev").trim();
    reader.run(&format!("{dev} --listen 127.0.0.1:8000 &"));
    reader.printed_by_server("served after");
    assert_eq!(reader.run("curl http://127.0.0.1:8000/ext/hello/"), "2 chains: ibc-0, ibc-1\n");
    reader.run("sed -i 's/{} chains: /{} of them: /' src/lib.rs");
    let printed = reader.printed_by_server("served after");
    let shown = page.block("console", "changed: src/lib.rs");
    let start = printed.find("changed: ").unwrap();
    let (differences, times) = printed[start..].rsplit_once("served after").unwrap();
    let (shown, shown_times) = shown.rsplit_once("served after").unwrap();
    assert!(is_as_shown(differences, shown), "{printed}\nis not\n{shown}");
    // The numbers are those of a machine, and one with a slow probe shows its time, too.
    let words = |text: &str| {
        let words = text.split(' ').filter(|word| word.parse::<f64>().is_err());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let times = times.split_once(", probe ").map_or(times.to_owned(), |(times, probe)| {
        let end = probe.split_once(" s").expect("a time ends with its unit").1;
        format!("{times}{end}")
    });
    assert_eq!(words(&times), words(shown_times));
    reader.end_server();

    reader.write("requests.http", page.block("http", "# @expect"));
    let printed = reader.run(check);
    for request in ["One chain", "A chain that is not configured"] {
        assert!(printed.contains(request), "{printed}");
    }

    // The registry is this test's, and cosign is not a program of this project.
    let registry = OciRegistry::start();
    let publish = page.block("sh", "relayer-rest push").lines().next().unwrap();
    reader.run("cp target/wasm32-unknown-unknown/release/hello.wasm .");
    let printed = reader.run(&publish.replace("registry.example", &registry.address.to_string()));
    assert!(printed.contains("team/hello@sha256:"), "{printed}");

    let routes = [
        PRELUDE,
        page.block("rust", "JsonSchema"),
        page.block("rust", "relayer_rest_sdk::openapi!"),
    ];
    reader.write("src/lib.rs", &routes.concat());
    reader.run("echo 'serde = { version = \"1\", features = [\"derive\"] }' > serde.toml");
    reader.run("sed -i '/^relayer-rest-sdk/r serde.toml' Cargo.toml");
    // The result is an object now.
    reader.run("sed -i 's/\"result\":\"ibc-1\"/\"id\":\"ibc-1\"/' requests.http");
    reader.run("UPDATE_OPENAPI=1 cargo test");
    reader.run("cargo test");
    reader.run("cargo module");
    let printed = reader.run(page.block("sh", "relayer-rest check --mount").trim());
    assert!(printed.contains("GET /chain/ibc-0: 200"), "{printed}");

    // A failure that no request of the preflight causes.
    let failure = r#"sed -i 's/^    let chain = host.chain/    assert!(params.get("id")? != "a", "no state");\n&/' src/lib.rs"#;
    reader.run(failure);
    reader.run("cargo module");
    reader.write("relayer-rest.toml", SETTINGS);
    let first = reader.run(
        "env RUST_LOG=info relayer-rest serve --listen 127.0.0.1:8000 --config relayer-rest.toml &",
    );
    // The log has a thread of its own, so the address can be before its lines.
    if !first.starts_with("http://") {
        reader.printed_by_server("http://");
    }
    reader.run("curl http://127.0.0.1:8000/ext/hello/chain/a");
    let logged = reader.printed_by_server("request failed");
    let shown = page.block("text", "request failed");
    assert!(is_as_shown(&logged, shown), "{logged}\nis not\n{shown}");
    reader.end_server();

    reader.run("relayer-rest serve --listen 127.0.0.1:8000 &");
    reader.run_all(page.block("console", "relayer-rest explain"));
}

#[test]
#[ignore = "slow: builds a module with its dependencies"]
fn a_module_without_the_sdk_is_served_as_written() {
    let page = page();
    let mut reader = Reader::new();
    reader.run("mkdir -p hello/src");
    reader.run("cd hello");
    reader.run(&format!("cp -r {}/wit {0}/rust-toolchain.toml .", root().display()));
    reader.write("Cargo.toml", page.block("toml", "cdylib"));
    reader.write("src/lib.rs", page.block("rust", "impl Guest"));
    for line in page.block("sh", "rustup target add").lines() {
        let is_server = line.starts_with("relayer-rest serve");
        let in_background = if is_server { " --listen 127.0.0.1:8000 &" } else { "" };
        reader.run(&format!("{line}{in_background}"));
    }
    let response = reader.run("curl -i 'http://127.0.0.1:8000/a/path?query'");
    assert!(response.contains("\r\ncontent-type: text/plain\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\n/a/path of ibc-0, ibc-1\n"), "{response}");
}
