//! A relayer's metrics, for Prometheus.
//!
//! | file | job |
//! |---|---|
//! | `metrics.rs` | the metrics, and their names |
//! | `workers.rs` | counts of workers by kind and pair of chains |
//! | `exposition.rs` | Prometheus' text format |
//! | `lib.rs` | this file: the only one that depends on WebAssembly |

mod exposition;
mod metrics;
mod workers;

use relayer_rest_sdk::{Host, OpenApi, Request, Response, Route, Router, WitHost};

relayer_rest_sdk::module!(handle);
relayer_rest_sdk::openapi!("openapi.json");
relayer_rest_sdk::arena!();

/// Handles a request. The metrics are at `/`, which is the mount path itself.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    routes().respond(host, request)
}

/// Describes the routes.
#[must_use]
pub fn openapi() -> OpenApi {
    let document = OpenApi::new("Metrics of a relayer", env!("CARGO_PKG_VERSION"));
    routes::<WitHost>().openapi(document)
}

const fn routes<H: Host>() -> Router<H, 1> {
    let metrics = Route::get("/", |host: &H, _, _| Ok(metrics::metrics(host)));
    Router::new([metrics.describe(|operation| {
        operation.summary("The metrics, for Prometheus").content(
            200,
            exposition::CONTENT_TYPE,
            "The metrics in the text format",
        )
    })])
}

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
    fn parameters_are_ignored() {
        let get = |target| handle(&FakeHost::new(), &Request::get(target));
        assert_eq!(get("/").status, 200);
        assert_eq!(get("/?name[]=up"), get("/"));
    }

    #[test]
    fn other_paths_are_not_found() {
        for path in ["/metrics", "", "//", "*"] {
            let refused = handle(&FakeHost::new(), &Request::get(path));
            let msg = format!("nothing is served at {path}; there are /");
            let error = error_json("NotFound", &msg);
            assert_eq!((refused.status, refused.text_body()), (404, &*error));
        }
        let refused = handle(&FakeHost::new(), &Request::new("POST", "/"));
        let error = error_json("MethodNotAllowed", "POST is not allowed on /; GET and HEAD are");
        assert_eq!((refused.status, refused.text_body()), (405, &*error));
        assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    }

    fn error_json(name: &str, msg: &str) -> String {
        format!(r#"{{"status":"error","result":{{"name":"{name}","msg":"{msg}"}}}}"#)
    }
}
