//! The options of an engine.

use super::code_cache::CodeCache;
use super::compiler::Compiler;
use super::grants::Grants;
use super::header_grants::HeaderGrants;
use super::limits::Limits;
use super::request_headers::RequestHeaders;

/// The options of an [`Engine`](super::engine::Engine).
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The limits of its modules.
    pub limits: Limits,
    /// The interfaces of the contract that its modules may import. Default: all.
    pub grants: Grants,
    /// The response headers with effects beyond their mount that its modules may set.
    /// Default: none.
    pub headers: HeaderGrants,
    /// The request headers that its components of `wasi:http` see. Default: all that the
    /// host does not evaluate.
    pub request_headers: RequestHeaders,
    /// Whether its modules may also import WASI 0.2, and be components of `wasi:http`. It gives no access to the outside:
    /// no files, sockets, environment or arguments; a clock that stands still at the time
    /// of the relayer's last change, random numbers from a fixed seed, and stdout and
    /// stderr for the log. Default: no.
    pub wasi: bool,
    /// The folder for compiled code, so that it is not compiled again. Default: none.
    pub code_cache: Option<CodeCache>,
    /// The command that compiles untrusted components in a separate process, whose time
    /// and memory are bounded. Default: none; they are compiled in this process, with no
    /// bound on memory.
    pub compiler: Option<Compiler>,
    /// Whether modules are compiled in a short time to slower code, always in this process,
    /// for modules that change all the time. It needs the feature `quick-compilation`, and has no
    /// effect on the code without it. Default: no.
    pub quick_compilation: bool,
    /// Whether modules keep their components in memory, for capsules of their runs. Default: no.
    pub keeps_components: bool,
}

impl From<&Limits> for EngineOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            grants: Grants::all(),
            headers: HeaderGrants::default(),
            request_headers: RequestHeaders::default(),
            wasi: false,
            code_cache: None,
            compiler: None,
            quick_compilation: false,
            keeps_components: false,
        }
    }
}
