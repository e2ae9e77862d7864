//! Health checks of a relayer, in the format of the Kubernetes API server.
//!
//! | file | job |
//! |---|---|
//! | `router.rs` | the table of routes, and their handlers |
//! | `checks.rs` | the checks, and their results |
//! | `thresholds.rs` | the checks of the telemetry, with the thresholds of a request |
//! | `query.rs` | the parameters of a request |
//! | `report.rs` | responses made from the results of checks |
//! | `escape.rs` | escapes for texts from clients, chains or the host |
//! | `lib.rs` | this file: the only one that depends on WebAssembly |

mod checks;
mod escape;
mod query;
mod report;
mod router;
mod thresholds;

pub use router::openapi;

use relayer_rest_sdk::{Host, Request, Response};

relayer_rest_sdk::module!(handle);
relayer_rest_sdk::openapi!("openapi.json");
relayer_rest_sdk::arena!();

/// Handles a request.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    router::handle(host, request)
}
