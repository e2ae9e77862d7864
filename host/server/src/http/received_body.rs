//! The bodies of requests.
//!
//! Most modules do not read them, so the server keeps them only within a budget: a body
//! beyond it is read to its end and discarded, and a module that would read it does not run.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::connections::AwaitedBody;
use super::error::HostError;
use super::limits::HttpLimits;

/// The maximum size of all bodies that are kept, in bytes.
const MAX_KEPT: usize = 64 << 20;

/// The bodies that the server keeps, for all connections.
#[derive(Debug, Clone)]
pub(super) struct RequestBodies(Arc<Semaphore>);

/// The body of a request that had one, after it was received.
#[derive(Debug, Clone)]
pub(super) struct ReceivedBody(Option<KeptBody>);

#[derive(Debug, Clone)]
struct KeptBody {
    bytes: Bytes,
    /// Returns the bytes to the budget after the response was made.
    _permit: Arc<Option<OwnedSemaphorePermit>>,
}

/// The received part of a body that is kept.
struct Partial {
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

impl RequestBodies {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_KEPT)))
    }

    /// Receives the body of a request.
    pub(super) async fn receive(
        &self,
        body: Incoming,
        limits: &HttpLimits,
        awaited: &AwaitedBody,
    ) -> Result<ReceivedBody, HostError> {
        let most = limits.body.as_u64();
        if body.size_hint().lower() > most {
            return Err(HostError::BodyTooLarge);
        }
        let mut body = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX));
        let receive = async {
            let mut kept = Some(Partial { bytes: Vec::new(), permit: None });
            while let Some(frame) = body.frame().await {
                // If the connection is gone, the task that serves it ends in any case.
                let frame = frame.map_err(|error| {
                    let is_large = error.is::<LengthLimitError>();
                    if is_large { HostError::BodyTooLarge } else { HostError::BadBody }
                })?;
                let data = frame.data_ref().map_or(&[][..], |data| data);
                awaited.goes_on(data.len());
                kept = kept.and_then(|kept| kept.and(data, &self.0));
            }
            Ok(ReceivedBody(kept.map(KeptBody::from)))
        };
        timeout(limits.idle, receive).await.unwrap_or(Err(HostError::RequestTimeout))
    }
}

impl Partial {
    /// Appends bytes; `None` if the budget has no room for them.
    fn and(mut self, data: &[u8], budget: &Arc<Semaphore>) -> Option<Self> {
        let count = u32::try_from(data.len()).ok()?;
        let more = Arc::clone(budget).try_acquire_many_owned(count).ok()?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        self.bytes.extend_from_slice(data);
        Some(self)
    }
}

impl From<Partial> for KeptBody {
    fn from(Partial { bytes, permit }: Partial) -> Self {
        Self { bytes: bytes.into(), _permit: Arc::new(permit) }
    }
}

impl ReceivedBody {
    /// Returns whether the body was not kept.
    pub(super) fn is_discarded(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the body has no bytes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.bytes.is_empty())
    }

    /// Returns the bytes that were kept.
    pub(super) fn bytes(&self) -> Bytes {
        self.0.as_ref().map(|kept| kept.bytes.clone()).unwrap_or_default()
    }
}
