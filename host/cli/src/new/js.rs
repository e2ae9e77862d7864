//! The template of modules in JavaScript. The build tools come from npm.

use super::{Template, WORLD, wit};

pub(super) fn template(name: &str) -> Template {
    Template {
        module: format!("{name}.wasm"),
        files: &[
            ("package.json", include_str!("../../templates/js/package.json")),
            ("package-lock.json", include_str!("../../templates/js/package-lock.json")),
            ("README.md", include_str!("../../templates/js/README.md")),
            ("src/handle.js", include_str!("../../templates/js/src/handle.js")),
            ("src/module.js", include_str!("../../templates/js/src/module.js")),
            ("test/handle.test.js", include_str!("../../templates/js/test/handle.test.js")),
            ("wit/world.wit", WORLD),
            ("sdk/response.js", include_str!("../../templates/js/sdk/response.js")),
            ("sdk/router.js", include_str!("../../templates/js/sdk/router.js")),
            ("sdk/testing.js", include_str!("../../templates/js/sdk/testing.js")),
            (".gitignore", "/node_modules\n/*.wasm\n"),
        ],
        as_is: wit("wit/deps/relayer-rest"),
        steps: &["npm test", "npm run build"],
    }
}
