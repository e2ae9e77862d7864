//! The OpenAPI document of a module: a custom section of its component, read and checked
//! when it is loaded.

use std::sync::Arc;

use serde_json::{Map, Value};
use wasmparser::{Parser, Payload};

/// The name of the section.
const SECTION: &str = "openapi";

/// The maximum size of a document, in bytes: it is kept in memory, and served.
const MAX_SIZE: usize = 1 << 20;

/// The maximum number of paths: requests are counted for each one.
const MAX_PATHS: usize = 64;

/// The maximum length of a path, in bytes.
const MAX_PATH: usize = 256;

/// The fields of a path that are operations: the methods, in lower case.
pub const OPERATIONS: [&str; 8] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The prefix of the references that the host can follow.
const COMPONENTS: &str = "#/components/";

/// The routes that a module declares.
#[derive(Debug)]
pub struct OpenApi {
    document: Map<String, Value>,
    /// Those with the fewest parameters first: a path without any takes precedence.
    routes: Vec<Arc<Route>>,
}

/// A declared route.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// Tells the routes of a module apart.
    index: u16,
    path: Box<str>,
}

impl OpenApi {
    /// Reads the document of a component. Returns `None` if it has none, and
    /// the problem if the host cannot use it.
    pub(super) fn from_component(component: &[u8]) -> Result<Option<Self>, String> {
        let mut documents = Parser::new(0).parse_all(component).filter_map(|part| match part {
            Ok(Payload::CustomSection(section)) if section.name() == SECTION => {
                Some(section.data())
            }
            _ => None,
        });
        match (documents.next(), documents.next()) {
            (None, _) => Ok(None),
            (Some(document), None) => Self::from_json(document).map(Some),
            (Some(_), Some(_)) => Err("is there more than once".to_owned()),
        }
    }

    fn from_json(json: &[u8]) -> Result<Self, String> {
        if json.len() > MAX_SIZE {
            return Err(format!("has {} bytes; at most {MAX_SIZE} are allowed", json.len()));
        }
        let document: Map<String, Value> = serde_json::from_slice(json)
            .map_err(|error| format!("is not a JSON object: {error}"))?;
        match document.get("openapi").and_then(Value::as_str) {
            Some(version) if version.starts_with("3.1.") => {}
            Some(version) => return Err(format!("has version {version:?}; expected 3.1")),
            None => return Err("has no version; expected \"openapi\": \"3.1.0\"".to_owned()),
        }
        let none = Map::new();
        let paths = match document.get("paths") {
            None => &none,
            Some(Value::Object(paths)) => paths,
            Some(_) => return Err("has paths that are not an object".to_owned()),
        };
        if paths.len() > MAX_PATHS {
            return Err(format!("has {} paths; at most {MAX_PATHS} are allowed", paths.len()));
        }
        for (path, item) in paths {
            check_path(path).map_err(|reason| format!("has the path {path:?}, which {reason}"))?;
            if !item.is_object() {
                return Err(format!("has a path {path:?} that is not an object"));
            }
        }
        for value in document.values() {
            check_references(value)?;
        }
        let mut paths: Vec<&String> = paths.keys().collect();
        paths
            .sort_by_key(|path| (path.split('/').filter(|name| is_parameter(name)).count(), *path));
        let conflict = paths.iter().enumerate().find_map(|(index, path)| {
            let same = paths[..index].iter().find(|other| has_same_form(other, path))?;
            Some(format!("has the paths {same:?} and {path:?}, which match the same requests"))
        });
        if let Some(conflict) = conflict {
            return Err(conflict);
        }
        let route = |(index, path): (u16, &String)| Route { index, path: path.as_str().into() };
        let routes = (0..).zip(paths).map(route).map(Arc::new).collect();
        Ok(Self { document, routes })
    }

    /// Returns the document.
    #[must_use]
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// Returns the routes.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|route| &**route)
    }

    /// Returns the description of an operation, if the module declares it.
    #[must_use]
    pub fn operation(&self, route: &Route, method: &str) -> Option<&Map<String, Value>> {
        self.document.get("paths")?.get(route.path())?.get(method)?.as_object()
    }

    /// Returns the declared operations: each route with its methods, in lower case.
    pub fn operations(&self) -> impl Iterator<Item = (&Route, &'static str)> {
        self.routes().flat_map(|route| {
            let methods = OPERATIONS.into_iter();
            methods
                .filter(|method| self.operation(route, method).is_some())
                .map(move |method| (route, method))
        })
    }

    /// Returns the route of a path, percent-encoded and relative to the mount.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.matches(path))
    }
}

impl Route {
    /// Returns the path relative to the mount, with the names of parameters in braces,
    /// such as `/chain/{id}`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a number that no other route of its module has.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Returns a path that this route matches, with this value of each parameter.
    #[must_use]
    pub fn with(&self, value: &str) -> String {
        let segment = |segment| if is_parameter(segment) { value } else { segment };
        self.path.split('/').map(segment).collect::<Vec<_>>().join("/")
    }

    fn matches(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let matches = self.path.split('/').all(|declared| {
            segments.next().is_some_and(|segment| {
                if is_parameter(declared) { !segment.is_empty() } else { declared == segment }
            })
        });
        matches && segments.next().is_none()
    }
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

fn has_same_form(path: &str, other: &str) -> bool {
    let form = |path: &str| {
        let segments = path.split('/').map(|segment| (!is_parameter(segment)).then_some(segment));
        segments.map(|segment| segment.map(str::to_owned)).collect::<Vec<_>>()
    };
    form(path) == form(other)
}

/// Checks that the host can match a path, and name it in metrics.
fn check_path(path: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@".contains(&byte);
    let is_segment = |segment: &str| {
        let name = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        match name {
            Some(name) => !name.is_empty() && name.bytes().all(is_plain),
            None => segment.bytes().all(is_plain),
        }
    };
    if path.len() > MAX_PATH {
        return Err("is longer than 256 bytes");
    }
    match path.strip_prefix('/') {
        Some(segments) if segments.split('/').all(is_segment) => Ok(()),
        _ => Err(
            "does not consist of segments, each after a slash, that are text or one {parameter}",
        ),
    }
}

/// Checks that the references still have their meaning in the document of the host, which
/// has the components of all modules.
fn check_references(value: &Value) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(check_references),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            match value.as_str().filter(|_| name == "$ref") {
                Some(reference) if !reference.starts_with(COMPONENTS) => {
                    Err(format!("has the reference {reference:?}; expected {COMPONENTS}KIND/NAME"))
                }
                Some(_) => Ok(()),
                None => check_references(value),
            }
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATHS, MAX_SIZE, OpenApi};
    use relayer_rest_modules::DEFAULT_MODULE;
    use serde_json::{Map, Value, json};

    fn with_paths(paths: &[&str]) -> Result<OpenApi, String> {
        let paths: Map<String, Value> =
            paths.iter().map(|path| ((*path).to_owned(), json!({}))).collect();
        OpenApi::from_json(json!({"openapi": "3.1.0", "paths": paths}).to_string().as_bytes())
    }

    /// A module with these sections.
    fn component(documents: &[&[u8]]) -> Vec<u8> {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        for document in documents {
            let size = u8::try_from(document.len() + 8).unwrap();
            component.extend([0, size, 7]);
            component.extend(b"openapi");
            component.extend(*document);
        }
        component
    }

    #[test]
    fn the_bundled_module_declares_its_routes() {
        let openapi = OpenApi::from_component(DEFAULT_MODULE).unwrap().unwrap();
        for (path, route) in [
            ("/version", Some("/version")),
            ("/chain/a%2Fb", Some("/chain/{id}")),
            ("/chain/", None),
            ("/chain/a/b", None),
            ("/chain", None),
            ("*", None),
        ] {
            assert_eq!(openapi.route(path).map(|route| route.path()), route, "{path}");
        }
        assert_eq!(openapi.document()["openapi"], "3.1.0");
    }

    #[test]
    fn a_path_without_parameters_takes_precedence() {
        let openapi = with_paths(&["/{a}/b", "/a/b", "/{a}/{b}"]).unwrap();
        let path = |path| openapi.route(path).unwrap().path();
        assert_eq!(
            openapi.routes().map(|route| route.with("x")).collect::<Vec<_>>(),
            ["/a/b", "/x/b", "/x/x"]
        );
        assert_eq!([path("/a/b"), path("/c/b"), path("/a/c")], ["/a/b", "/{a}/b", "/{a}/{b}"]);
        let indexes: Vec<_> = openapi.routes.iter().map(|route| route.index()).collect();
        assert_eq!(indexes, [0, 1, 2]);
    }

    #[test]
    fn a_component_has_at_most_one_document() {
        let document = br#"{"openapi": "3.1.1"}"#;
        assert!(OpenApi::from_component(&component(&[])).unwrap().is_none());
        assert!(OpenApi::from_component(&component(&[document])).unwrap().is_some());
        let error = OpenApi::from_component(&component(&[document, document])).unwrap_err();
        assert_eq!(error, "is there more than once");
    }

    #[test]
    fn invalid_documents_are_refused() {
        for (json, error) in [
            ("", "is not a JSON object: EOF while parsing a value at line 1 column 0"),
            (
                "[]",
                "is not a JSON object: invalid type: sequence, expected a map at line 1 column 0",
            ),
            ("{}", "has no version; expected \"openapi\": \"3.1.0\""),
            (r#"{"openapi": "3.0.3"}"#, "has version \"3.0.3\"; expected 3.1"),
            (r#"{"openapi": "3.1.0", "paths": []}"#, "has paths that are not an object"),
            (
                r#"{"openapi": "3.1.0", "paths": {"/": []}}"#,
                "has a path \"/\" that is not an object",
            ),
            (
                r##"{"openapi": "3.1.0", "paths": {"/": {"get": [{"$ref": "#/$defs/a"}]}}}"##,
                "has the reference \"#/$defs/a\"; expected #/components/KIND/NAME",
            ),
        ] {
            assert_eq!(OpenApi::from_json(json.as_bytes()).unwrap_err(), error, "{json}");
        }
        let long = " ".repeat(MAX_SIZE + 1);
        let error = OpenApi::from_json(long.as_bytes()).unwrap_err();
        assert_eq!(error, "has 1048577 bytes; at most 1048576 are allowed");
        let deep = format!("{{\"openapi\": {}", "[".repeat(1 << 16));
        let error = OpenApi::from_json(deep.as_bytes()).unwrap_err();
        assert!(error.contains("recursion limit exceeded"), "{error}");
    }

    #[test]
    fn invalid_paths_are_refused() {
        let many: Vec<_> = (0..=MAX_PATHS).map(|number| format!("/{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let error = with_paths(&many).unwrap_err();
        assert_eq!(error, "has 65 paths; at most 64 are allowed");
        with_paths(&many[1..]).unwrap();
        for path in ["", "a", "/a{b}", "/{}", "/{a}{b}", "/a b", "/\u{e9}", "/?a", "/{a", "/\u{1}"]
        {
            let error = with_paths(&[path]).unwrap_err();
            assert!(error.contains("does not consist of segments"), "{path}: {error}");
        }
        let error = with_paths(&[&format!("/{}", "a".repeat(256))]).unwrap_err();
        assert!(error.ends_with("which is longer than 256 bytes"), "{error}");
        let error = with_paths(&["/{a}/b", "/{c}/b"]).unwrap_err();
        let conflict = "has the paths \"/{a}/b\" and \"/{c}/b\", which match the same requests";
        assert_eq!(error, conflict);
    }
}
