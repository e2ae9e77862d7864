//! The body of a response, and its stream.
//!
//! The host collects the body. All bodies that an instance writes share one budget,
//! `limits.body`, because only one of them can be sent.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use bytesize::ByteSize;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::pipe::SinkOutputStream;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::limits::{Limits, bytes};
use crate::response::InvalidResponse;

/// The maximum size of a write, in bytes, unless `limits.body` is less.
const MAX_WRITE: usize = 1 << 20;

/// The bytes that the instance has written to all its bodies.
#[derive(Default, Clone)]
pub(super) struct BodyBudget(Arc<AtomicUsize>);

/// A body that an instance may write.
pub struct OutgoingBody {
    /// The stream, until the component takes it.
    pub(super) stream: Option<DynOutputStream>,
    /// The bytes of a response; `None` for a request, which is never sent.
    pub(super) collected: Option<CollectedBody>,
}

/// The body of a response, which the stream and the response share.
#[derive(Clone)]
pub(super) struct CollectedBody(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    /// The length that the headers of the response announce.
    announced: Option<u64>,
    is_finished: bool,
}

/// The stream of a body.
struct Writer {
    body: CollectedBody,
    budget: BodyBudget,
    max: ByteSize,
}

impl OutgoingBody {
    /// Creates the body of a response.
    pub(super) fn of_response(
        announced: Option<u64>,
        budget: &BodyBudget,
        limits: &Limits,
    ) -> (Self, CollectedBody) {
        let body = CollectedBody(Arc::new(Mutex::new(Parts { announced, ..Parts::default() })));
        let writer = Writer { body: body.clone(), budget: budget.clone(), max: limits.body };
        (Self { stream: Some(Box::new(writer)), collected: Some(body.clone()) }, body)
    }

    /// Creates the body of a request, which is discarded.
    pub(super) fn of_request() -> Self {
        Self { stream: Some(Box::new(SinkOutputStream)), collected: None }
    }
}

impl CollectedBody {
    /// Returns the bytes, or why they are not a body.
    pub(super) fn into_bytes(self) -> Result<Bytes, InvalidResponse> {
        let mut parts = self.lock();
        if !parts.is_finished {
            return Err(InvalidResponse::Unfinished);
        }
        check_length(parts.announced, parts.bytes.len())?;
        Ok(std::mem::take(&mut parts.bytes).into())
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        // Nothing that panics is done while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the body, and returns the bytes that were written if they are not as many as
    /// announced.
    pub(super) fn finish(&self) -> Result<(), u64> {
        let mut parts = self.lock();
        parts.is_finished = true;
        let written = parts.bytes.len() as u64;
        if parts.announced.is_some_and(|announced| announced != written) {
            return Err(written);
        }
        Ok(())
    }

    /// Appends bytes. The vector never has room for more than the maximum.
    fn append(&self, bytes: Bytes, max: usize) {
        let bytes_so_far = &mut self.lock().bytes;
        if bytes_so_far.is_empty() {
            *bytes_so_far = bytes.into();
            return;
        }
        let len = bytes_so_far.len() + bytes.len();
        if len > bytes_so_far.capacity() {
            let room = len.max(max.min(2 * bytes_so_far.len()));
            bytes_so_far.reserve_exact(room - bytes_so_far.len());
        }
        bytes_so_far.extend_from_slice(&bytes);
    }
}

/// Checks the length of a body against the announced one.
pub(super) fn check_length(announced: Option<u64>, written: usize) -> Result<(), InvalidResponse> {
    match announced {
        Some(announced) if announced != written as u64 => {
            Err(InvalidResponse::ContentLength { announced: announced.to_string(), written })
        }
        _ => Ok(()),
    }
}

impl Writer {
    /// Returns the maximum size of a write, which the engine copies at once.
    fn max_write(&self) -> usize {
        bytes(self.max).min(MAX_WRITE)
    }
}

impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > self.max_write() {
            return Err(StreamError::trap("more is written than was allowed"));
        }
        let written = self.budget.0.fetch_add(bytes.len(), Relaxed) + bytes.len();
        let max = self.max;
        if written > self::bytes(max) {
            let size = ByteSize::b(written as u64);
            return Err(StreamError::Trap(InvalidResponse::LargeBody { size, limit: max }.into()));
        }
        self.body.append(bytes, self::bytes(max));
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(self.max_write())
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}
