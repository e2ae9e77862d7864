//! The OpenAPI document of the server: the routes that its modules declare, at the paths of
//! their mounts.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};
use relayer_rest_sandbox::{Digest, Module, OPERATIONS};
use serde_json::{Map, Value, json};

use crate::registry::{Mount, MountPath, Mounts};
use crate::response::NOSNIFF;

/// The path of the document.
pub(crate) const PATH: &str = "/openapi.json";

/// The prefix of references to components.
const COMPONENTS: &str = "#/components/";

/// The response of the host when a module gives none, by its name among the responses.
static HOST_ERROR: LazyLock<(&str, Value)> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let error = json!({
        "type": "object",
        "properties": {
            "status": {"const": "error"},
            "result": {
                "type": "object",
                "properties": {"name": text, "msg": text},
                "required": ["name", "msg"],
            },
        },
        "required": ["status", "result"],
    });
    let description = "An error of the host, such as 503 while the server is overloaded";
    let response =
        json!({"description": description, "content": {"application/json": {"schema": error}}});
    ("HostError", response)
});

/// The document of the current modules, kept until one of them is replaced.
#[derive(Debug)]
pub(crate) struct OpenApiDocument {
    /// The path below which a proxy serves everything.
    server: Option<String>,
    rendered: ArcSwapOption<Rendered>,
}

/// The document with its headers.
#[derive(Debug)]
pub(crate) struct Rendered {
    modules: Vec<(MountPath, Digest)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl OpenApiDocument {
    pub(crate) fn new(server: Option<&str>) -> Self {
        Self { server: server.map(ToOwned::to_owned), rendered: ArcSwapOption::empty() }
    }

    /// Returns the document of these mounts.
    pub(crate) fn get(&self, mounts: &Mounts) -> Arc<Rendered> {
        let is_current = |rendered: &&Arc<Rendered>| rendered.modules.iter().eq(&modules(mounts));
        if let Some(rendered) = self.rendered.load().as_ref().filter(is_current) {
            return Arc::clone(rendered);
        }
        let rendered = Arc::new(Rendered::new(mounts, self.server.as_deref()));
        self.rendered.store(Some(Arc::clone(&rendered)));
        rendered
    }
}

impl Rendered {
    fn new(mounts: &Mounts, server: Option<&str>) -> Self {
        let modules = modules(mounts);
        let document = merged(mounts, server);
        let body = document.to_string();
        let hash = blake3::hash(body.as_bytes()).to_hex();
        let etag = HeaderValue::try_from(format!("\"{}\"", &hash[..32]));
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ETAG, etag.expect("digits in quotes make a valid header")),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (X_CONTENT_TYPE_OPTIONS, NOSNIFF),
        ];
        Self { modules, headers: headers.into_iter().collect(), body: body.into() }
    }
}

fn modules(mounts: &Mounts) -> Vec<(MountPath, Digest)> {
    let module = |mount: &Arc<Mount>| Some((mount.path().clone(), mount.module()?.digest()));
    mounts.iter().filter_map(module).collect()
}

/// Merges the documents of the modules that have one. The API keeps its names; the names of
/// an extension's components and operations begin with the name of the extension. `server` is the
/// path below which clients find them.
pub(crate) fn merged(mounts: &Mounts, server: Option<&str>) -> Value {
    let mut info = json!({"title": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
    let mut paths = Map::new();
    let mut components = Map::new();
    for mount in mounts.iter() {
        let module = mount.module();
        let Some(openapi) = module.as_ref().and_then(Module::openapi) else { continue };
        let names = Names::new(mount);
        let mut document = openapi.document().clone();
        if names.prefix.is_none()
            && let Some(own) = document.remove("info")
        {
            info = own;
        }
        if let Some(Value::Object(own)) = document.remove("paths") {
            for (path, mut item) in own {
                names.rename_references(&mut item);
                names.complete_operations(&mut item);
                paths.insert(mount.path().join(&path), item);
            }
        }
        if let Some(Value::Object(own)) = document.remove("components") {
            for (kind, mut own) in own {
                names.rename_references(&mut own);
                let (Value::Object(own), Value::Object(all)) =
                    (own, components.entry(kind).or_insert_with(|| json!({})))
                else {
                    continue;
                };
                all.extend(own.into_iter().map(|(name, own)| (names.of(&name), own)));
            }
        }
    }
    let mut document =
        json!({"openapi": "3.1.0", "info": info, "paths": paths, "components": components});
    let (name, response) = &*HOST_ERROR;
    document["components"]["responses"][name] = response.clone();
    if let Some(path) = server {
        document["servers"] = json!([{"url": path}]);
    }
    document
}

/// The names that a module's components and operations have among those of all modules.
struct Names {
    /// The name of the extension.
    prefix: Option<String>,
    tag: String,
}

impl Names {
    fn new(mount: &Mount) -> Self {
        let name = mount.name().to_owned();
        Self { prefix: (*mount.path() != MountPath::root()).then(|| name.clone()), tag: name }
    }

    fn of(&self, name: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}.{name}"),
            None => name.to_owned(),
        }
    }

    fn rename_references(&self, value: &mut Value) {
        match value {
            Value::Array(values) => {
                for value in values {
                    self.rename_references(value);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let reference = value.as_str().filter(|_| name == "$ref");
                    let component = reference.and_then(|text| text.strip_prefix(COMPONENTS));
                    match component.and_then(|component| component.split_once('/')) {
                        Some((kind, name)) => {
                            *value = format!("{COMPONENTS}{kind}/{}", self.of(name)).into();
                        }
                        None => self.rename_references(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Gives the operations of a path a tag, a unique identifier and the response of the
    /// host, as far as the module has not.
    fn complete_operations(&self, item: &mut Value) {
        for method in OPERATIONS {
            let Some(Value::Object(operation)) = item.get_mut(method) else { continue };
            operation.entry("tags").or_insert_with(|| json!([self.tag]));
            if let Some(Value::String(id)) = operation.get_mut("operationId") {
                *id = self.of(id);
            }
            let responses = operation.entry("responses").or_insert_with(|| json!({}));
            if let Value::Object(responses) = responses {
                let host_error = format!("{COMPONENTS}responses/{}", HOST_ERROR.0);
                responses.entry("default").or_insert_with(|| json!({"$ref": host_error}));
            }
        }
    }
}
