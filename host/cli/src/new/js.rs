//! The template of modules in JavaScript. The build tools come from npm.

use super::{DOCUMENT, REQUESTS, Template, WORLD, as_is, wit};

/// The files of the SDK.
const SDK: [(&str, &str); 12] = [
    ("sdk/host.js", include_str!("../../templates/js/sdk/host.js")),
    ("sdk/imports.js", include_str!("../../templates/js/sdk/imports.js")),
    ("sdk/index.js", include_str!("../../templates/js/sdk/index.js")),
    ("sdk/module.js", include_str!("../../templates/js/sdk/module.js")),
    ("sdk/openapi.js", include_str!("../../templates/js/sdk/openapi.js")),
    ("sdk/parameter.js", include_str!("../../templates/js/sdk/parameter.js")),
    ("sdk/request.js", include_str!("../../templates/js/sdk/request.js")),
    ("sdk/response.js", include_str!("../../templates/js/sdk/response.js")),
    ("sdk/router.js", include_str!("../../templates/js/sdk/router.js")),
    ("sdk/state.js", include_str!("../../templates/js/sdk/state.js")),
    ("sdk/testing.js", include_str!("../../templates/js/sdk/testing.js")),
    ("sdk/world.js", include_str!("../../templates/js/sdk/world.js")),
];

pub(super) fn template(name: &str) -> Template {
    Template {
        module: format!("{name}.wasm"),
        files: &[
            ("package.json", include_str!("../../templates/js/package.json")),
            ("package-lock.json", include_str!("../../templates/js/package-lock.json")),
            ("openapi.json", DOCUMENT),
            ("requests.http", REQUESTS),
            ("README.md", include_str!("../../templates/js/README.md")),
            ("src/handle.js", include_str!("../../templates/js/src/handle.js")),
            ("src/module.js", include_str!("../../templates/js/src/module.js")),
            ("test/handle.test.js", include_str!("../../templates/js/test/handle.test.js")),
            ("wit/world.wit", WORLD),
            (".gitignore", "/node_modules\n/src/imports.js\n/*.wasm\n"),
        ],
        as_is: as_is(&SDK).chain(wit("wit/deps/relayer-rest")).collect(),
        steps: &["npm test", "npm run build"],
    }
}
