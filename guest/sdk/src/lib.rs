//! The SDK for modules of `relayer-rest`.
//!
//! A module responds to HTTP requests about a relayer between blockchains. It is a
//! function from a [`Request`] and the data of the [`Host`] to a [`Response`]:
//!
//! ```
//! use relayer_rest_sdk::{Host, Params, Request, Response, Route, Router};
//!
//! relayer_rest_sdk::module!(handle);
//!
//! fn handle<H: Host>(host: &H, request: &Request) -> Response {
//!     let routes = Router::new([Route::get("/", count), Route::get("/hello/:name", hello)]);
//!     routes.respond(host, request)
//! }
//!
//! // `?` responds with 503 if the chains are not known yet.
//! fn count<H: Host>(host: &H, _: &Request, _: Params<'_>) -> Result<Response, Response> {
//!     Ok(Response::text(format!("{} chains\n", host.chain_ids()?.len())))
//! }
//!
//! // `?` responds with 400 if a parameter is invalid.
//! fn hello<H: Host>(_: &H, request: &Request, params: Params<'_>) -> Result<Response, Response> {
//!     let greeting = request.query("greeting")?.unwrap_or("hello".into());
//!     Ok(Response::text(format!("{greeting} {}\n", params.get("name")?)))
//! }
//!
//! // Tests run natively, without WebAssembly, against a fake host.
//! use relayer_rest_sdk::testing::FakeHost;
//! let host = FakeHost::new().with_chain("ibc-0");
//! let get = |target| handle(&host, &Request::get(target));
//! assert_eq!(get("/").text_body(), "1 chains\n");
//! assert_eq!(get("/hello/you%21?greeting=hi").text_body(), "hi you!\n");
//! assert_eq!(get("/hello/%FF").status, 400);
//! assert_eq!(get("/other").status, 404);
//! ```
//!
//! Each request is handled by a fresh instance of the module, without a clock, files,
//! random numbers or data of earlier requests. A response therefore depends only on the
//! request and on the state that the module read, and the host caches it until that state
//! changes.
//!
//! A component imports the interfaces whose functions it calls, and the `grants` of its
//! mount must include them. A handler that is generic over `H: Host` imports only the
//! interfaces that it uses, and `query` only if it reads the query of the [`Request`].
//!
//! | file | job |
//! |---|---|
//! | `request.rs` | the request: its method, path, headers and query |
//! | `query.rs` | the parameters of the query |
//! | `parameter.rs` | the decoding of parameters, and their errors |
//! | `host.rs` | the imports of the contract as a trait |
//! | `state.rs` | the relayer's state with its names resolved |
//! | `telemetry.rs` | the relayer's telemetry by its names in the relayer |
//! | `router.rs` | routing by path |
//! | `openapi.rs` | the description of the routes and of their responses |
//! | `response.rs` | responses and errors, with their status and headers |
//! | `failure.rs` | reports panics to the host |
//! | `arena.rs` | an allocator for instances that live for one request |
//! | `testing.rs` | a fake host for tests |
//! | `capsule.rs` | failed requests of a server, for tests |
//! | `lib.rs` | this file: the bindings generated from `wit/`, and the macros |

#[cfg(target_family = "wasm")]
mod arena;
#[cfg(not(target_family = "wasm"))]
mod capsule;
#[cfg(target_family = "wasm")]
mod failure;
mod host;
mod openapi;
mod parameter;
mod query;
mod request;
mod response;
mod router;
mod state;
mod telemetry;
pub mod testing;

pub use host::{Host, Level, WitHost};
pub use openapi::{Describe, OpenApi, Operation};
pub use parameter::InvalidParameter;
pub use request::Request;
pub use response::Response;
pub use router::{Handler, Params, Route, Router};
/// The crate for the schemas of types: `#[derive(JsonSchema)]`.
pub use schemars;
pub use state::{Names, Object, State, Worker};
pub use telemetry::relayer_metric;

/// The contract's types, as plain Rust structs and enums.
pub mod contract {
    pub use crate::bindings::relayer::rest::types::*;
}

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::pedantic,
    reason = "generated from wit/"
)]
#[doc(hidden)]
pub mod bindings {
    #[cfg(target_family = "wasm")]
    wit_bindgen::generate!({
        world: "api-module",
        path: "wit",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_module",
        default_bindings_module: "relayer_rest_sdk::bindings",
    });

    // Native tests read the types from capsules.
    #[cfg(not(target_family = "wasm"))]
    wit_bindgen::generate!({
        world: "api-module",
        path: "wit",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_module",
        default_bindings_module: "relayer_rest_sdk::bindings",
        additional_derives: [serde::Deserialize],
    });
}

/// Items that the macros use.
#[doc(hidden)]
pub mod private {
    #[cfg(target_family = "wasm")]
    pub use crate::arena::Arena;
    pub use crate::bindings::exports::relayer::rest::handler::{Guest, Request, Response};
    #[cfg(target_family = "wasm")]
    pub use crate::failure::report_panics;
}

/// Exports a function `fn(&impl Host, &Request) -> Response` as the module's handler, and
/// reports its panics to the host, which logs their messages and locations.
///
/// Expands to nothing if the target is not WebAssembly, so that tests can call the
/// function natively.
#[macro_export]
macro_rules! module {
    ($handle:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Module;

            impl $crate::private::Guest for Module {
                fn handle(request: $crate::private::Request) -> $crate::private::Response {
                    $crate::private::report_panics();
                    $handle(&$crate::WitHost, &request.into()).into()
                }
            }

    $crate::bindings::export_module!(Module with_types_in $crate::bindings);
        };
    };
}

/// Puts an OpenAPI document into the module: a file of the package, which
/// [`testing::check_openapi`] keeps equal to the routes and types. The host then lists
/// the routes in its own document and counts requests by route, and `relayer-rest check`
/// validates the responses.
///
/// ```ignore
/// relayer_rest_sdk::openapi!("openapi.json");
/// ```
///
/// Expands to nothing if the target is not WebAssembly.
#[macro_export]
macro_rules! openapi {
    ($file:literal) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            macro_rules! document {
                () => {
                    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $file))
                };
            }

            // A custom section, so that the host reads it without running the module.
            #[unsafe(link_section = "openapi")]
            static DOCUMENT: [u8; document!().len()] = *document!();
        };
    };
}

/// Sets a bump allocator as the global allocator. It reuses no memory except that of the
/// last allocation: an instance lives for one request and need not free any. This makes
/// most responses some microseconds faster.
///
/// ```
/// relayer_rest_sdk::arena!();
/// ```
///
/// Expands to nothing if the target is not WebAssembly.
#[macro_export]
macro_rules! arena {
    () => {
        #[cfg(target_family = "wasm")]
        #[global_allocator]
        static ARENA: $crate::private::Arena = $crate::private::Arena::new();
    };
}
