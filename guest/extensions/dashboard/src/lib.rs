//! A page that shows the state of a relayer: its chains as a graph, and its workers in a
//! table.
//!
//! | file | job |
//! |---|---|
//! | `page.rs` | the page, and its content security policy |
//! | `data.rs` | the data of the page |
//! | `overview.rs` | the JSON of that data: small for thousands of workers |
//! | `chains.rs` | the configured chains, while the state is not known |
//! | `telemetry.rs` | the part of the relayer's telemetry that the page shows |
//! | `lib.rs` | this file: the routes; the only one that depends on WebAssembly |
//!
//! The page itself is in `page/`, and `build.rs` assembles it. It does not depend on the
//! mount path: it requests its data below the path from which the browser loaded it, so
//! that a proxy can serve it at another path.
//!
//! It needs the grants `version`, `chains`, `state` and `telemetry`.

mod chains;
mod data;
mod overview;
mod page;
mod telemetry;

use relayer_rest_sdk::{Host, OpenApi, Request, Response, Route, Router, WitHost};
use serde_json::{Map, Value};

relayer_rest_sdk::module!(handle);
relayer_rest_sdk::openapi!("openapi.json");
relayer_rest_sdk::arena!();

/// Handles a request.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    // Responses contain names from chains: browsers must not guess another content type.
    routes().respond(host, request).with_header("x-content-type-options", "nosniff")
}

/// Describes the routes.
#[must_use]
pub fn openapi() -> OpenApi {
    let document = OpenApi::new("Dashboard of a relayer", env!("CARGO_PKG_VERSION"));
    routes::<WitHost>().openapi(document)
}

const fn routes<H: Host>() -> Router<H, 4> {
    Router::new([
        Route::get("/", |_, _, _| Ok(page::page())).describe(|operation| {
            operation.summary("The page").content(200, page::CONTENT_TYPE, "The page")
        }),
        Route::get("/data", |host: &H, _, _| data::data(host)).describe(|operation| {
            operation
                .summary("The relayer's state, for the page only")
                .success::<Overview>()
                .not_ready()
        }),
        Route::get("/chains", |host: &H, _, _| chains::chains(host)).describe(|operation| {
            operation.summary("The configured chains").success::<Vec<String>>().not_ready()
        }),
        Route::get("/telemetry", |host: &H, _, _| Ok(telemetry::telemetry(host))).describe(
            |operation| {
                operation
                    .summary("The relayer's telemetry, for the page only")
                    .success::<Option<Telemetry>>()
            },
        ),
    ])
}

/// The data of the page, whose fields may change at any time.
type Overview = Map<String, Value>;

/// See [`Overview`].
type Telemetry = Map<String, Value>;

#[cfg(test)]
mod tests {
    use super::{handle, openapi};
    use relayer_rest_sdk::Request;
    use relayer_rest_sdk::testing::{FakeHost, check_openapi};

    #[test]
    fn the_document_is_that_of_the_routes() {
        check_openapi(openapi(), "openapi.json");
    }

    #[test]
    fn other_paths_are_not_found() {
        let unknown = handle(&FakeHost::new(), &Request::get("/style.css"));
        assert_eq!(unknown.status, 404);
        let msg = "nothing is served at /style.css; there are /, /data, /chains, /telemetry";
        assert_eq!(unknown.json_body()["result"]["msg"], msg);
        let refused = handle(&FakeHost::new(), &Request::new("POST", "/data"));
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    }

    #[test]
    fn content_types_are_not_sniffed() {
        for (host, path) in [
            (FakeHost::new(), "/"),
            (FakeHost::new(), "/data"),
            (FakeHost::new(), "/nothing"),
            (FakeHost::not_ready("wait"), "/data"),
        ] {
            let response = handle(&host, &Request::get(path));
            assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        }
    }
}
