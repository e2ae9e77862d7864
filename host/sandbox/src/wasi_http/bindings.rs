//! The traits of the interfaces of `wasi:http`, generated from `wit/`.

#[allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    missing_docs,
    unsafe_code,
    reason = "the code is generated"
)]
mod generated {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "relayer:wasi-http/imports",
        imports: { default: trappable },
        require_store_data_send: true,
        with: {
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:http/types.fields": crate::wasi_http::resources::Fields,
            "wasi:http/types.future-incoming-response": crate::wasi_http::resources::FutureIncomingResponse,
            "wasi:http/types.future-trailers": crate::wasi_http::resources::FutureTrailers,
            "wasi:http/types.incoming-body": crate::wasi_http::resources::IncomingBody,
            "wasi:http/types.incoming-request": crate::wasi_http::resources::IncomingRequest,
            "wasi:http/types.incoming-response": crate::wasi_http::resources::IncomingResponse,
            "wasi:http/types.outgoing-body": crate::wasi_http::body::OutgoingBody,
            "wasi:http/types.outgoing-request": crate::wasi_http::resources::OutgoingRequest,
            "wasi:http/types.outgoing-response": crate::wasi_http::resources::OutgoingResponse,
            "wasi:http/types.request-options": crate::wasi_http::resources::RequestOptions,
            "wasi:http/types.response-outparam": crate::wasi_http::resources::ResponseOutparam,
        },
    });
}

pub(super) use generated::wasi::http::{outgoing_handler, types};
