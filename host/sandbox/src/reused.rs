//! An instance that handles many requests: the baseline of benchmarks.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use relayer_rest_state::Snapshot;
use tracing::Span;
use wasmtime::Store;

use super::call_error::CallError;
use super::guest_time::GuestTime;
use super::handler::Handle;
use super::module::Module;
use super::request::GuestRequest;
use super::store::StoreData;

/// An existing instance, to measure the cost of a call alone. Not for serving: data that
/// a guest keeps from one request is visible in the next, and all requests share one time
/// limit and one snapshot.
#[doc(hidden)]
pub struct ReusedInstance {
    module: Module,
    store: Store<StoreData>,
    handle: Handle<'static>,
    request: &'static GuestRequest,
}

impl ReusedInstance {
    /// Creates an instance that handles one request repeatedly, on one snapshot.
    pub async fn new(
        module: &Module,
        request: &'static GuestRequest,
        snapshot: Arc<Snapshot>,
    ) -> Result<Self, CallError> {
        let time = GuestTime::start(module.limits().time, None);
        let mut store =
            module.instances().store(time, Arc::new(request.clone()), snapshot, Span::none());
        let handle = module.instances().instantiate(&mut store).await?;
        Ok(Self { module: module.clone(), store, handle, request })
    }

    /// Handles the request once.
    pub async fn handle(&mut self) -> Result<Response<Bytes>, CallError> {
        let _running = self.module.engine().ticker.run();
        self.module.instances().call(&mut self.store, &self.handle, self.request).await
    }
}
