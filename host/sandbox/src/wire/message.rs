//! Requests, responses and levels of log lines.

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Bytes,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[expect(dead_code, reason = "a module makes them")]
#[component(enum)]
#[repr(u8)]
pub(crate) enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}
