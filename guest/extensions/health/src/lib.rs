//! Whether a relayer is ready, told as Kubernetes' API server tells it of itself.
//!
//! | file | job |
//! |---|---|
//! | `router.rs` | the table of routes, and what answers each |
//! | `checks.rs` | what is looked at, and what is found |
//! | `query.rs` | what a request's parameters ask for |
//! | `report.rs` | from what was found to an answer |
//! | `escape.rs` | texts that somebody else has made, on their way into a line |
//! | `lib.rs` | this file: the only one that knows of WebAssembly |

mod checks;
mod escape;
mod query;
mod report;
mod router;

use relayer_rest_sdk::{Host, Request, Response};

relayer_rest_sdk::module!(answer);
relayer_rest_sdk::arena!();

/// Answers a request.
pub fn answer<H: Host>(host: &H, request: &Request) -> Response {
    router::answer(host, request)
}
