//! What a module for `relayer-rest` is written with.
//!
//! A module answers HTTP requests about a relayer between blockchains. It is a
//! function from a [`Request`], and what the [`Host`] shows, to an [`Response`]:
//!
//! ```
//! use relayer_rest_sdk::{Host, Params, Request, Response, Route, Router};
//!
//! relayer_rest_sdk::module!(handle);
//!
//! fn handle<H: Host>(host: &H, request: &Request) -> Response {
//!     let routes = Router::new([
//!         Route::get("/", |host: &H, _| count(host)),
//!         Route::get("/hello/:name", |_, params| hello(&params)),
//!     ]);
//!     routes.respond(host, request)
//! }
//!
//! fn count<H: Host>(host: &H) -> Response {
//!     match host.chain_ids() {
//!         Ok(ids) => Response::text(format!("{} chains\n", ids.len())),
//!         Err(reason) => Response::not_ready(&reason),
//!     }
//! }
//!
//! fn hello(params: &Params<'_>) -> Response {
//!     match params.decoded("name") {
//!         Some(name) => Response::text(format!("hello {name}\n")),
//!         None => Response::error(400, "InvalidName", "the name is not UTF-8"),
//!     }
//! }
//!
//! // It is tested without WebAssembly, against a relayer made up in the test.
//! use relayer_rest_sdk::testing::FakeHost;
//! let host = FakeHost::new().with_chain("ibc-0");
//! assert_eq!(handle(&host, &Request::get("/")).text_body(), "1 chains\n");
//! assert_eq!(handle(&host, &Request::get("/hello/you%21")).text_body(), "hello you!\n");
//! assert_eq!(handle(&host, &Request::get("/other")).status, 404);
//! ```
//!
//! Each request is handled by a fresh instance of the module, which has nothing
//! but this: no clock, no files, no random numbers, no memory of the request
//! before. So an answer depends on the request and on what was read of the
//! relayer, and the host remembers it for as long as both are the same.
//!
//! What a module calls of the [`Host`] is what its component imports, and what
//! its `grants` have to allow: a handler that takes any `H: Host` imports only
//! what it uses.
//!
//! | file | job |
//! |---|---|
//! | `request.rs` | what is asked |
//! | `query.rs` | the query of a request, and its parameters |
//! | `host.rs` | what the host shows and takes: the contract's imports as a trait |
//! | `state.rs` | the relayer's state with its names in place |
//! | `router.rs` | from a path to what answers it |
//! | `response.rs` | answers and errors, each with its status and headers |
//! | `arena.rs` | an allocator for modules that live for one request |
//! | `testing.rs` | a host made up in a test |
//! | `lib.rs` | this file: what is generated from `wit/`, and the macros |

#[cfg(target_family = "wasm")]
mod arena;
mod host;
mod query;
mod request;
mod response;
mod router;
mod state;
pub mod testing;

pub use host::{Host, Level, WitHost};
pub use query::Query;
pub use request::Request;
pub use response::Response;
pub use router::{Params, Route, Router};
pub use state::{Names, Object, State, Worker};

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
    wit_bindgen::generate!({
        world: "api-module",
        path: "wit",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_module",
        default_bindings_module: "relayer_rest_sdk::bindings",
    });
}

/// What the macros use.
#[doc(hidden)]
pub mod private {
    #[cfg(target_family = "wasm")]
    pub use crate::arena::Arena;
    pub use crate::bindings::exports::relayer::rest::handler::{Guest, Request, Response};
}

/// Makes a module of a function `fn(&impl Host, &Request) -> Response`.
///
/// In a build that is not for WebAssembly it does nothing: there the function is
/// tested.
#[macro_export]
macro_rules! module {
    ($handle:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Module;

            impl $crate::private::Guest for Module {
                fn handle(request: $crate::private::Request) -> $crate::private::Response {
                    $handle(&$crate::WitHost, &request.into()).into()
                }
            }

    $crate::bindings::export_module!(Module with_types_in $crate::bindings);
        };
    };
}

/// Takes an allocator that hands out memory and takes none back: an instance
/// lives for one request, so that nothing needs to be put in order behind it.
/// That makes most answers some microseconds faster.
///
/// ```
/// relayer_rest_sdk::arena!();
/// ```
///
/// In a build that is not for WebAssembly it does nothing.
#[macro_export]
macro_rules! arena {
    () => {
        #[cfg(target_family = "wasm")]
        #[global_allocator]
        static ARENA: $crate::private::Arena = $crate::private::Arena::new();
    };
}
