//! An instance that is asked again and again: the baseline of benchmarks.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tracing::Span;
use wasmtime::Store;

use super::call::{CallError, GuestRequest};
use super::guest_time::GuestTime;
use super::instance::{Handle, StoreData};
use super::load::Module;
use crate::state::Snapshot;

/// What a call costs where its instance exists already. Not for serving: what
/// a guest keeps from one request is there in the next, and all of them share
/// one limit of time and one snapshot.
#[doc(hidden)]
pub struct ReusedInstance {
    module: Module,
    store: Store<StoreData>,
    handle: Handle<'static>,
    request: &'static GuestRequest,
}

impl ReusedInstance {
    /// An instance of a module that is asked one thing, on one snapshot.
    pub async fn new(
        module: &Module,
        request: &'static GuestRequest,
        snapshot: Arc<Snapshot>,
    ) -> Result<Self, CallError> {
        let time = GuestTime::start(module.limits().time, None, false);
        let mut store = module.store(time, Arc::new(request.clone()), snapshot, Span::none());
        let handle = module.instantiate(&mut store).await?;
        Ok(Self { module: module.clone(), store, handle, request })
    }

    /// Asks the instance.
    pub async fn handle(&mut self) -> Result<Response<Bytes>, CallError> {
        let _running = self.module.engine().ticker.run();
        self.module.call(&mut self.store, &self.handle, self.request).await
    }
}
