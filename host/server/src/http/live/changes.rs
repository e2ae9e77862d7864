//! Notices publications of state, and activations of modules.

use std::future::pending;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use relayer_rest_state::StateReader;
use tokio::sync::watch::Receiver;

use crate::registry::Registry;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    State,
    /// Other modules may be active, or at other mounts.
    Modules,
}

/// The changes since the last one.
pub(super) struct Changes {
    state: Receiver<()>,
    registry: Arc<Registry>,
    mounts: Receiver<()>,
    modules: Vec<Receiver<()>>,
}

impl Changes {
    pub(super) fn new(registry: &Arc<Registry>, state: &StateReader) -> Self {
        let mounts = registry.changes();
        let modules = modules_of(registry);
        Self { state: state.changes(), registry: Arc::clone(registry), mounts, modules }
    }

    /// Returns the next change.
    pub(super) async fn next(&mut self) -> Change {
        let mut modules: Vec<BoxFuture<'_, ()>> =
            self.modules.iter_mut().map(|module| changed(module).boxed()).collect();
        // There is always the API's.
        if modules.is_empty() {
            modules.push(pending().boxed());
        }
        tokio::select! {
            () = changed(&mut self.state) => return Change::State,
            () = changed(&mut self.mounts) => {}
            _ = select_all(modules) => return Change::Modules,
        }
        self.modules = modules_of(&self.registry);
        Change::Modules
    }
}

/// Completes with the next change; never if there can be none.
async fn changed(receiver: &mut Receiver<()>) {
    if receiver.changed().await.is_err() {
        pending::<()>().await;
    }
}

fn modules_of(registry: &Registry) -> Vec<Receiver<()>> {
    registry.now().iter().map(|mount| mount.activations()).collect()
}
