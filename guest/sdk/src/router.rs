//! Routing of requests by path.

use std::borrow::Cow;

use crate::openapi::{Describe, OpenApi};
use crate::parameter::{InvalidParameter, decode};
use crate::request::Request;
use crate::response::Response;

/// A path and the handler of its GET requests. `C` is the context that handlers receive,
/// often the host.
#[derive(Debug)]
pub struct Route<C> {
    path: &'static str,
    get: Handler<C>,
    description: Description,
}

/// A handler of requests. Both variants of its result are sent: with `Err`, `?` ends the
/// handler, such as with 503 if the host does not have the data yet, or with 400 for an
/// invalid parameter.
pub type Handler<C> = fn(&C, &Request, Params<'_>) -> Result<Response, Response>;

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
    pub const fn get(path: &'static str, get: Handler<C>) -> Self {
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
    pub fn run(&self, context: &C, request: &Request, params: Params<'_>) -> Response {
        (self.get)(context, request, params).into()
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
            Some((route, params)) if request.method == "GET" => route.run(context, request, params),
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
    /// Returns the segment that matches `:name`, percent-decoded.
    ///
    /// # Errors
    /// Returns an error if the segment is not percent-encoded UTF-8.
    ///
    /// # Panics
    /// Panics if the route has no `:name`.
    #[track_caller]
    pub fn get(&self, name: &str) -> Result<Cow<'a, str>, InvalidParameter> {
        decode(name, self.raw(name))
    }

    /// Returns the segment that matches `:name`, as the client sent it.
    ///
    /// # Panics
    /// Panics if the route has no `:name`.
    #[must_use]
    #[track_caller]
    pub fn raw(&self, name: &str) -> &'a str {
        let is_named = |route: &str| route.strip_prefix(':') == Some(name);
        match self.segments().find(|(route, _)| is_named(route)) {
            Some((_, segment)) => segment,
            None => panic!("the route {} has no parameter :{name}", self.route),
        }
    }

    fn segments(&self) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        self.route.split('/').zip(self.path.split('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Response, Route, Router};

    const ROUTES: Router<u8, 4> = Router::new([
        Route::get("/", |context, request, _| {
            Ok(Response::text(format!("{context} {}", request.path)))
        }),
        Route::get("/a/:b/c/:d", |_, _, params| {
            Ok(Response::text(format!("{:?} {:?}", params.raw("b"), params.get("d")?)))
        }),
        Route::get("/a/:b/c/d", |_, _, _| Ok(Response::text("never: the one before has it"))),
        Route::get("/other/:name", |_, _, params| Ok(Response::text(params.raw("title")))),
    ]);

    fn get(target: &str) -> Response {
        ROUTES.respond(&7, &Request::get(target))
    }

    #[test]
    fn segments_are_matched_and_decoded() {
        assert_eq!(get("/?query").text_body(), "7 /");
        assert_eq!(get("/a/x%20/c/y%20").text_body(), r#""x%20" "y ""#);
        assert_eq!(get("/a/x/c/d+").text_body(), r#""x" "d+""#);
        for path in ["", "/a", "/a//c/d", "/a/b/c/", "/a/b/c/d/", "/A/b/c/d", "*", "//"] {
            let response = get(path);
            assert_eq!(response.status, 404, "{path}");
            let known = "/, /a/:b/c/:d, /a/:b/c/d, /other/:name";
            let msg = format!("nothing is served at {path}; there are {known}");
            let error = serde_json::json!({"name": "NotFound", "msg": msg});
            assert_eq!(response.json_body()["result"], error);
        }
    }

    #[test]
    fn a_segment_that_is_not_encoded_is_an_invalid_parameter() {
        let response = get("/a/x/c/%zz");
        let msg = "parameter d: '%zz' is not percent-encoded; write % as %25";
        let error = serde_json::json!({"name": "InvalidParameter", "msg": msg});
        assert_eq!((response.status, &response.json_body()["result"]), (400, &error));
        assert_eq!(get("/a/%zz/c/d").status, 200, "the handler does not decode it");
    }

    #[test]
    #[should_panic(expected = "the route /other/:name has no parameter :title")]
    fn an_unknown_parameter_is_a_bug_of_the_module() {
        let _ = get("/other/a");
    }

    #[test]
    fn other_methods_are_not_allowed_on_known_routes() {
        let response = ROUTES.respond(&7, &Request::new("POST", "/"));
        assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
        assert_eq!(ROUTES.respond(&7, &Request::new("POST", "/b")).status, 404);
    }
}
