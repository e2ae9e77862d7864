//! Compares the declaration of the routes in a project with the one in the module: a document
//! that is not built into the module has no effect.

use std::path::Path;

use relayer_rest_common::files::{self, MAX_TEXT};
use relayer_rest_sandbox::OpenApi;
use serde_json::{Map, Value};

/// The document of a project.
const FILE: &str = "openapi.json";

/// Returns the problem of a project's document, if it has one.
pub(super) fn problem(folder: &Path, module: Option<&OpenApi>) -> Option<String> {
    let file = folder.join(FILE);
    if !file.exists() {
        return None;
    }
    let document = files::read(&file, MAX_TEXT).map_err(|error| format!("cannot be read: {error}"));
    let document = document.and_then(|text| {
        serde_json::from_slice::<Map<String, Value>>(&text)
            .map_err(|error| format!("not an OpenAPI document: {error}; correct it"))
    });
    let remedy = "add it in the build, in Rust by relayer_rest_sdk::openapi!(\"openapi.json\")";
    let problem = match (document, module) {
        (Err(problem), _) => problem,
        (Ok(_), None) => format!("not in the module, so its routes are not declared; {remedy}"),
        (Ok(document), Some(module)) if document != *module.document() => {
            format!("not the document that the module has; {remedy}")
        }
        _ => return None,
    };
    Some(format!("{FILE}: {problem}"))
}
