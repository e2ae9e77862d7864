//! The template of modules in Python. The build tools come from `PyPI`.

use super::{DOCUMENT, REQUESTS, Template, WORLD, as_is, wit};

/// The files of the SDK.
const SDK: [(&str, &str); 11] = [
    ("sdk/__init__.py", include_str!("../../templates/python/sdk/__init__.py")),
    ("sdk/contract.py", include_str!("../../templates/python/sdk/contract.py")),
    ("sdk/host.py", include_str!("../../templates/python/sdk/host.py")),
    ("sdk/module.py", include_str!("../../templates/python/sdk/module.py")),
    ("sdk/openapi.py", include_str!("../../templates/python/sdk/openapi.py")),
    ("sdk/parameter.py", include_str!("../../templates/python/sdk/parameter.py")),
    ("sdk/request.py", include_str!("../../templates/python/sdk/request.py")),
    ("sdk/response.py", include_str!("../../templates/python/sdk/response.py")),
    ("sdk/router.py", include_str!("../../templates/python/sdk/router.py")),
    ("sdk/state.py", include_str!("../../templates/python/sdk/state.py")),
    ("sdk/testing.py", include_str!("../../templates/python/sdk/testing.py")),
];

pub(super) fn template(name: &str) -> Template {
    Template {
        module: format!("{name}.wasm"),
        files: &[
            ("requirements.txt", include_str!("../../templates/python/requirements.txt")),
            ("openapi.json", DOCUMENT),
            ("requests.http", REQUESTS),
            ("README.md", include_str!("../../templates/python/README.md")),
            ("build.py", include_str!("../../templates/python/build.py")),
            ("handle.py", include_str!("../../templates/python/handle.py")),
            ("app.py", include_str!("../../templates/python/app.py")),
            ("tests/__init__.py", ""),
            ("tests/test_handle.py", include_str!("../../templates/python/tests/test_handle.py")),
            ("wit/world.wit", WORLD),
            (".gitignore", "/.venv\n/.types\n/*.wasm\n__pycache__\n"),
        ],
        as_is: as_is(&SDK).chain(wit("wit/deps/relayer-rest")).collect(),
        steps: &["python3 -m unittest", "python3 build.py"],
    }
}
