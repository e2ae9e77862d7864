//! The REST API of a relayer between blockchains.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | how relayers of different ages answer |
//! | `router.rs` | the table of routes, and what answers when none matches |
//! | `routes/` | one file an endpoint: reads the relayer, gives an answer |
//! | `json/` | the JSON of each resource, field by field |
//! | `errors.rs` | the errors of this API |
//! | `lib.rs` | this file: the only one that knows of WebAssembly |
//!
//! Everything else is plain Rust on `relayer-rest-sdk`, as any module's author
//! has it, and is tested natively, against a relayer made up in the test.

mod dialect;
mod errors;
mod json;
mod router;
mod routes;

pub use dialect::Dialect;
pub use router::handle;

use relayer_rest_sdk::{Host, Request, Response};

/// How this module answers.
const DIALECT: Dialect =
    if cfg!(feature = "dialect-1-13") { Dialect::V1_13 } else { Dialect::V0_7 };

relayer_rest_sdk::module!(answer);
relayer_rest_sdk::arena!();

/// Answers a request in this module's dialect.
pub fn answer<H: Host>(host: &H, request: &Request) -> Response {
    handle(DIALECT, host, request)
}
