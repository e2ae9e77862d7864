//! Validation, confinement and limits of modules.

mod capsules;
mod code_cache;
mod compilation;
mod contract;
mod grants;
mod hostile_modules;
mod isolation;
mod limits;
mod overload;
mod sdk;
mod validation;
mod wasi;
mod wasi_http;
