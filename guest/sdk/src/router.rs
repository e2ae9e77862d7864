//! Routing of requests by path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::openapi::{Describe, OpenApi};
use crate::request::Request;
use crate::response::Response;

/// A path and the handler of its GET requests. `C` is the context that handlers receive,
/// often the host.
#[derive(Debug)]
pub struct Route<C> {
    path: &'static str,
    get: fn(&C, Params<'_>) -> Response,
    description: Description,
}

/// The description of a route. It is not part of a WebAssembly module, which has its
/// document as a file: the code for schemas is three times the size of this API.
#[derive(Debug, Clone, Copy)]
struct Description {
    #[cfg(not(target_family = "wasm"))]
    describe: Describe,
}

/// A table of routes; the first match handles a request.
#[derive(Debug)]
pub struct Router<C, const N: usize>([Route<C>; N]);

/// The segments of a path that match the `:name`s of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params<'a> {
    route: &'static str,
    path: &'a str,
}

impl<C> Route<C> {
    /// Creates a route for GET requests. Each `:name` matches one segment that is not
    /// empty: `/chain/:id` matches `/chain/a`, but not `/chain/` or `/chain/a/b`.
    #[must_use]
    pub const fn get(path: &'static str, get: fn(&C, Params<'_>) -> Response) -> Self {
        Self { path, get, description: Description::new(|operation| operation) }
    }

    /// Sets the description of the route for [`Router::openapi`].
    #[must_use]
    pub const fn describe(self, describe: Describe) -> Self {
        Self { description: Description::new(describe), ..self }
    }

    /// Returns the path of the route, such as `/chain/:id`.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Runs the handler of the route.
    #[must_use]
    pub fn run(&self, context: &C, params: Params<'_>) -> Response {
        (self.get)(context, params)
    }

    fn matches<'a>(&self, path: &'a str) -> Option<Params<'a>> {
        let params = Params { route: self.path, path };
        let same = |(route, path): (&str, &str)| match route.strip_prefix(':') {
            Some(_) => !path.is_empty(),
            None => route == path,
        };
        let is_as_long = self.path.split('/').count() == path.split('/').count();
        (is_as_long && params.segments().all(same)).then_some(params)
    }
}

impl Description {
    const fn new(describe: Describe) -> Self {
        #[cfg(target_family = "wasm")]
        let _ = describe;
        Self {
            #[cfg(not(target_family = "wasm"))]
            describe,
        }
    }

    #[cfg(not(target_family = "wasm"))]
    fn get(self) -> Describe {
        self.describe
    }

    #[cfg(target_family = "wasm")]
    fn get(self) -> Describe {
        let Self {} = self;
        |operation| operation
    }
}

impl<C, const N: usize> Router<C, N> {
    /// Creates a router from its routes, in the order in which they are tried.
    #[must_use]
    pub const fn new(routes: [Route<C>; N]) -> Self {
        Self(routes)
    }

    /// Returns the first route that matches a path, and its parameters.
    #[must_use]
    pub fn find<'a>(&self, path: &'a str) -> Option<(&Route<C>, Params<'a>)> {
        self.0.iter().find_map(|route| Some((route, route.matches(path)?)))
    }

    /// Runs the handler of the first route that matches the path. Returns 404 `NotFound`
    /// if no route matches, and 405 `MethodNotAllowed` if the method is not GET.
    #[must_use]
    pub fn respond(&self, context: &C, request: &Request) -> Response {
        match self.find(&request.path) {
            None => Response::not_found(&request.path, &self.paths()),
            Some((route, params)) if request.method == "GET" => route.run(context, params),
            Some(_) => Response::method_not_allowed(&request.method, &request.path),
        }
    }

    /// Adds the routes to an OpenAPI document; in WebAssembly without their descriptions.
    #[must_use]
    pub fn openapi(&self, document: OpenApi) -> OpenApi {
        self.0.iter().fold(document, |document, route| {
            document.operation("get", route.path, route.description.get())
        })
    }

    /// Returns the paths of the routes, joined by `, `, for messages.
    #[must_use]
    pub fn paths(&self) -> String {
        self.0.each_ref().map(|route| route.path).join(", ")
    }
}

impl<'a> Params<'a> {
    /// Returns the segment that matches `:name`, as the client sent it, or `None` if the
    /// route has no such `:name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.segments().find_map(|(route, path)| (route.strip_prefix(':')? == name).then_some(path))
    }

    /// Returns the segment that matches `:name`, percent-decoded, or `None` if it is not
    /// UTF-8 or the route has no such `:name`.
    #[must_use]
    pub fn decoded(&self, name: &str) -> Option<Cow<'a, str>> {
        percent_decode_str(self.get(name)?).decode_utf8().ok()
    }

    fn segments(&self) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        self.route.split('/').zip(self.path.split('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Response, Route, Router};

    const ROUTES: Router<(), 3> = Router::new([
        Route::get("/", |(), _| Response::text("root")),
        Route::get("/a/:b/c/:d", |(), params| {
            Response::text(format!("{:?} {:?}", params.get("b"), params.decoded("d")))
        }),
        Route::get("/a/:b/c/d", |(), _| Response::text("never: the one before has it")),
    ]);

    fn get(path: &str) -> Response {
        ROUTES.respond(&(), &Request::get(path))
    }

    #[test]
    fn segments_are_matched_and_decoded() {
        assert_eq!(get("/").text_body(), "root");
        assert_eq!(get("/a/x%20/c/y%20").text_body(), r#"Some("x%20") Some("y ")"#);
        assert_eq!(get("/a/x/c/%FF").text_body(), r#"Some("x") None"#);
        assert_eq!(get("/a/x/c/d").text_body(), r#"Some("x") Some("d")"#);
        for path in ["", "/a", "/a//c/d", "/a/b/c/", "/a/b/c/d/", "/A/b/c/d", "*", "//"] {
            let response = get(path);
            assert_eq!(response.status, 404, "{path}");
            let msg = format!("nothing is served at {path}; there are /, /a/:b/c/:d, /a/:b/c/d");
            let error = serde_json::json!({"name": "NotFound", "msg": msg});
            assert_eq!(response.json_body()["result"], error);
        }
    }

    #[test]
    fn other_methods_are_not_allowed_on_known_routes() {
        let response = ROUTES.respond(&(), &Request::new("POST", "/"));
        assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
        assert_eq!(ROUTES.respond(&(), &Request::new("POST", "/b")).status, 404);
    }
}
