//! Routing of requests.

use relayer_rest_sdk::{Host, OpenApi, Request, Response, Route, Router, WitHost};

use crate::dialect::Dialect;
use crate::{errors, routes};

/// The context of a route.
pub(crate) struct Context<'a, H> {
    pub(crate) dialect: Dialect,
    pub(crate) host: &'a H,
}

/// The path of the command, which has a method of its own.
const CLEAR_PACKETS: &str = "/clear_packets";

const fn routes<'a, H: Host>(dialect: Dialect) -> Router<Context<'a, H>, 4> {
    Router::new([
        Route::get("/version", |context, _, _| Ok(routes::version(context)))
            .describe(routes::describe_version(dialect)),
        Route::get("/chains", |context, _, _| routes::chains(context))
            .describe(routes::DESCRIBE_CHAINS),
        Route::get("/chain/:id", |context, _, params| routes::chain(context, params))
            .describe(routes::describe_chain(dialect)),
        Route::get("/state", |context, _, _| routes::state(context))
            .describe(routes::describe_state(dialect)),
    ])
}

/// Describes the API in a dialect.
#[must_use]
pub fn openapi_in(dialect: Dialect) -> OpenApi {
    let document = OpenApi::new("The REST API of a relayer", env!("CARGO_PKG_VERSION"));
    let document = routes::<WitHost>(dialect).openapi(document);
    match dialect {
        Dialect::V0_7 => document,
        Dialect::V1_13 => document.operation("post", CLEAR_PACKETS, routes::DESCRIBE_CLEAR_PACKETS),
    }
}

/// Handles a request in a dialect. The host passes HEAD as GET and omits the body.
#[must_use]
pub fn handle_in<H: Host>(dialect: Dialect, host: &H, request: &Request) -> Response {
    let routes = routes(dialect);
    let path = &request.path;
    // Relayers have this from version 1.7 on.
    if dialect == Dialect::V1_13 && path == CLEAR_PACKETS {
        return match &*request.method {
            "POST" => routes::clear_packets(host, request).into(),
            _ => Response::empty(405).with_header("allow", "POST"),
        };
    }
    match routes.find(path) {
        None => errors::not_found(dialect, path, &routes.paths()),
        Some((route, params)) if request.method == "GET" => {
            route.run(&Context { dialect, host }, request, params)
        }
        Some(_) => errors::method_not_allowed(dialect, &request.method, path),
    }
}

#[cfg(test)]
mod tests {
    use super::{handle_in, openapi_in};
    use crate::dialect::Dialect;
    use relayer_rest_sdk::testing::{FakeHost, check_openapi};
    use relayer_rest_sdk::{Request, Response};

    fn get(path: &str) -> Response {
        respond("GET", path)
    }

    fn respond(method: &str, path: &str) -> Response {
        respond_in(Dialect::V0_7, method, path)
    }

    fn respond_in(dialect: Dialect, method: &str, path: &str) -> Response {
        let host = ["ibc-0", "a/b", "ü"].into_iter().fold(FakeHost::new(), FakeHost::with_chain);
        handle_in(dialect, &host, &Request::new(method, path))
    }

    #[test]
    fn an_unknown_chain_is_an_error_with_status_200_in_1_13() {
        check_error(
            &respond_in(Dialect::V1_13, "GET", "/chain/foo"),
            200,
            "ChainConfigNotFound",
            "could not find configuration for chain: foo",
        );
    }

    #[test]
    fn http_errors_have_no_body_in_1_13() {
        let unknown = respond_in(Dialect::V1_13, "GET", "/nothing");
        assert_eq!((unknown.status, unknown.headers, unknown.body), (404, vec![], vec![]));
        let refused = respond_in(Dialect::V1_13, "POST", "/chains");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET,HEAD")));
        assert_eq!((refused.headers.len(), refused.body), (1, vec![]));
    }

    #[track_caller]
    fn check_error(response: &Response, status: u16, name: &str, msg: &str) {
        let expected = serde_json::json!({"status": "error", "result": {"name": name, "msg": msg}});
        assert_eq!(response.status, status);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&response.body).unwrap(), expected);
    }

    #[test]
    fn identifiers_are_percent_decoded() {
        for path in ["/chain/ibc-0", "/chain/ibc%2D0", "/chain/a%2Fb", "/chain/%C3%BC"] {
            assert_eq!(get(path).status, 200, "{path}");
        }
        check_error(
            &get("/chain/ibc%2D9"),
            404,
            "ChainConfigNotFound",
            "could not find configuration for chain: ibc-9",
        );
    }

    #[test]
    fn an_identifier_that_is_not_utf8_is_invalid() {
        check_error(
            &get("/chain/%FF"),
            400,
            "InvalidChainId",
            "the chain identifier '%FF' is not UTF-8 when percent-decoded",
        );
    }

    #[test]
    fn a_percent_sign_that_encodes_nothing_is_kept() {
        check_error(
            &get("/chain/100%"),
            404,
            "ChainConfigNotFound",
            "could not find configuration for chain: 100%",
        );
    }

    #[test]
    fn errors_for_unknown_paths_list_the_known_ones() {
        for path in ["/", "", "/chain", "/chain/", "/chains/", "/chain/a/b", "/Version", "//chains"]
        {
            let msg = format!(
                "nothing is served at {path}; there are /version, /chains, /chain/:id, /state"
            );
            check_error(&get(path), 404, "NotFound", &msg);
        }
    }

    #[test]
    fn other_methods_are_not_allowed_on_known_paths() {
        let response = respond("POST", "/chain/ibc-0");
        check_error(
            &response,
            405,
            "MethodNotAllowed",
            "POST is not allowed on /chain/ibc-0; GET and HEAD are",
        );
        assert_eq!(response.header("allow"), Some("GET, HEAD"));
        assert_eq!(respond("POST", "/nothing").status, 404);
    }

    #[test]
    fn the_documents_are_those_of_the_routes_and_types() {
        check_openapi(openapi_in(Dialect::V0_7), "openapi/0.7.json");
        check_openapi(openapi_in(Dialect::V1_13), "openapi/1.13.json");
    }

    #[test]
    fn every_response_is_json() {
        for path in ["/chains", "/chain/%FF", "/nothing"] {
            let response = get(path);
            assert_eq!(response.header("content-type"), Some("application/json"));
            assert!(response.json_body().is_object());
        }
    }
}
