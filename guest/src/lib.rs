//! The REST API of a relayer between blockchains.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | the response formats of different relayer versions |
//! | `router.rs` | the table of routes, and the errors if none matches |
//! | `routes/` | one file per endpoint: reads the state, returns a response |
//! | `json/` | the JSON of each resource, field by field |
//! | `errors.rs` | the errors of this API |
//! | `lib.rs` | this file: the only one that depends on WebAssembly |
//!
//! The other files are plain Rust on `relayer-rest-sdk`, like any other module, and are
//! tested natively against a fake host.

mod dialect;
mod errors;
mod json;
mod router;
mod routes;

pub use dialect::Dialect;
pub use router::{handle_in, openapi_in};

use relayer_rest_sdk::{Host, Request, Response};

/// The dialect of this module.
const DIALECT: Dialect =
    if cfg!(feature = "dialect-1-13") { Dialect::V1_13 } else { Dialect::V0_7 };

relayer_rest_sdk::module!(handle);
#[cfg(not(feature = "dialect-1-13"))]
relayer_rest_sdk::openapi!("openapi/0.7.json");
#[cfg(feature = "dialect-1-13")]
relayer_rest_sdk::openapi!("openapi/1.13.json");
relayer_rest_sdk::arena!();

/// Handles a request in this module's dialect.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    handle_in(DIALECT, host, request)
}
