//! Do the bundled modules have the exact responses of their golden files?
//!
//! Other modules are compared with the bundled one of their dialect, so that these files
//! alone define the API's JSON. They were checked against the specification and against a
//! second implementation that was removed since
//! (`docs/decisions/009-conformance-by-comparison.md`). After a change of the API, write
//! them again and review the differences:
//!
//! `GOLDEN=write cargo test --workspace --test suite -- golden`

use std::fmt::Write;
use std::fs;
use std::path::Path;

use relayer_rest_host::conformance::{self, Dialect, Recorded};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_tests::server::engine;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/golden");

/// Returns the text of a golden file: a JSON array with one response on each line, whose
/// bodies are the exact bytes. A body that an earlier request has is not repeated.
fn text(responses: &[Recorded]) -> String {
    let version = format!(r#""version":"{}""#, env!("CARGO_PKG_VERSION"));
    let mut lines = Vec::new();
    for (index, Recorded { request, outcome }) in responses.iter().enumerate() {
        let response = outcome.as_ref().unwrap();
        let status = response.status().as_u16();
        let mut line = format!(r#"{{"request":"{request}","status":{status}"#);
        for name in ["content-type", "allow", "retry-after"] {
            for value in response.headers().get_all(name) {
                write!(line, r#","{name}":"{}""#, value.to_str().unwrap()).unwrap();
            }
        }
        let body = response.body();
        let earlier = responses[..index]
            .iter()
            .find(|earlier| earlier.outcome.as_ref().unwrap().body() == body);
        if let Some(earlier) = earlier.filter(|_| !body.is_empty()) {
            write!(line, r#","body-of":"{}""#, earlier.request).unwrap();
        } else if !body.is_empty() {
            let body = str::from_utf8(body).unwrap();
            let body = body.replace(&version, r#""version":"<version>""#);
            write!(line, r#","body":{body}"#).unwrap();
        }
        lines.push(line + "}");
    }
    format!("[\n{}\n]\n", lines.join(",\n"))
}

#[tokio::test]
async fn bundled_modules_respond_as_their_golden_files_say() {
    let engine = engine(&Limits::default());
    for dialect in [Dialect::V0_7, Dialect::V1_13] {
        let module = Module::from_bytes(&engine, "bundled", dialect.component()).unwrap();
        let folder = Path::new(FOLDER).join(dialect.to_string());
        let mut names = Vec::new();
        for (state, responses) in conformance::record(&module).await {
            let name = format!("{}.json", state.replace(' ', "-"));
            let file = folder.join(&name);
            let found = text(&responses);
            serde_json::from_str::<serde_json::Value>(&found).expect("all bodies are JSON");
            if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&file, &found).unwrap();
            }
            let expected = fs::read_to_string(&file).unwrap();
            for (found, expected) in found.lines().zip(expected.lines()) {
                assert_eq!(found, expected, "{dialect}/{name}");
            }
            assert_eq!(found.lines().count(), expected.lines().count(), "{dialect}/{name}");
            names.push(name);
        }
        // No file is left of a state that is gone.
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort_unstable();
        names.sort_unstable();
        assert_eq!(files, names);
    }
}
