//! The resources of the interfaces, apart from bodies of responses.

use http::uri::Scheme;
use http::{HeaderMap, Method};

use super::body::CollectedBody;

/// Headers or trailers.
pub enum Fields {
    /// The visible headers of the request.
    Request,
    /// Headers of a component, which may change them.
    Mutable(HeaderMap),
    /// Headers that are part of a message.
    Immutable(HeaderMap),
}

/// The request that the instance handles.
#[derive(Default)]
pub struct IncomingRequest {
    pub(super) is_consumed: bool,
}

/// The body of the request.
#[derive(Default)]
pub struct IncomingBody {
    pub(super) is_streamed: bool,
}

/// The trailers of the request: none.
#[derive(Default)]
pub struct FutureTrailers {
    pub(super) is_taken: bool,
}

/// The place of the response, which a component sets once.
pub struct ResponseOutparam;

/// A response of a component.
pub struct OutgoingResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// The body, which is empty if the component never writes to it.
    pub(super) body: Option<CollectedBody>,
}

/// A request to another server.
pub struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) path_with_query: Option<String>,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) has_body: bool,
}

/// The time limits of such a request, in nanoseconds.
#[derive(Default)]
pub struct RequestOptions {
    pub(super) connect: Option<u64>,
    pub(super) first_byte: Option<u64>,
    pub(super) between_bytes: Option<u64>,
}

/// A response that a component waits for. None is ever created.
pub enum FutureIncomingResponse {}

/// A response of another server. None is ever created.
pub enum IncomingResponse {}
