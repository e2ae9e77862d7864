//! Requests, responses and levels of log lines.

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

#[derive(ComponentType, Lower)]
#[component(record)]
pub(in crate::module) struct Request<'a> {
    pub(in crate::module) method: &'a str,
    pub(in crate::module) path: &'a str,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(in crate::module) struct Response {
    pub(in crate::module) status: u16,
    pub(in crate::module) headers: Vec<Header>,
    pub(in crate::module) body: Bytes,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(in crate::module) struct Header {
    pub(in crate::module) name: String,
    pub(in crate::module) value: Vec<u8>,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[expect(dead_code, reason = "a module makes them")]
#[component(enum)]
#[repr(u8)]
pub(in crate::module) enum Level {
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
