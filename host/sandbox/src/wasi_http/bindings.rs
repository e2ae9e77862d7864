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
            "wasi:http/types.fields": crate::wasi_http::fields::Fields,
            "wasi:http/types.future-incoming-response": crate::wasi_http::denied::FutureIncomingResponse,
            "wasi:http/types.future-trailers": crate::wasi_http::incoming::FutureTrailers,
            "wasi:http/types.incoming-body": crate::wasi_http::incoming::IncomingBody,
            "wasi:http/types.incoming-request": crate::wasi_http::incoming::IncomingRequest,
            "wasi:http/types.incoming-response": crate::wasi_http::denied::IncomingResponse,
            "wasi:http/types.outgoing-body": crate::wasi_http::body::OutgoingBody,
            "wasi:http/types.outgoing-request": crate::wasi_http::denied::OutgoingRequest,
            "wasi:http/types.outgoing-response": crate::wasi_http::outgoing::OutgoingResponse,
            "wasi:http/types.request-options": crate::wasi_http::denied::RequestOptions,
            "wasi:http/types.response-outparam": crate::wasi_http::outgoing::ResponseOutparam,
        },
    });
}

pub(super) use generated::wasi::http::{outgoing_handler, types};
