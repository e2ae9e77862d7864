//! Work that takes time proportional to a response, off the runtime's threads.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use relayer_rest_state::StatePublisher;
use tokio::task::spawn_blocking;

/// Runs `work` on a thread that may block.
pub(super) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down and will drop this future.
            Err(_) => std::future::pending().await,
        },
    }
}

/// A publisher for other threads that can be closed: work that is still running when its
/// source is dropped publishes nothing afterwards.
#[derive(Clone)]
pub(super) struct Gate {
    publisher: StatePublisher,
    is_open: Arc<Mutex<bool>>,
}

impl Gate {
    pub(super) fn new(publisher: StatePublisher) -> Self {
        Self { publisher, is_open: Arc::new(Mutex::new(true)) }
    }

    pub(super) fn publish(&self, publish: impl FnOnce(&StatePublisher)) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_open {
            publish(&self.publisher);
        }
    }

    pub(super) fn close(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, off_thread};
    use relayer_rest_state::{RelayerState, StatePublisher};
    use std::thread;

    #[tokio::test]
    async fn work_runs_on_another_thread() {
        assert_ne!(off_thread(|| thread::current().id()).await, thread::current().id());
    }

    #[test]
    fn a_closed_gate_publishes_nothing() {
        let publisher = StatePublisher::new();
        let gate = Gate::new(publisher.clone());
        gate.close();
        gate.clone().publish(|publisher| publisher.set_state(RelayerState::default()));
        assert!(publisher.reader().snapshot().status().value().is_err());
        let gate = Gate::new(publisher.clone());
        gate.publish(|publisher| publisher.set_state(RelayerState::default()));
        assert!(publisher.reader().snapshot().status().value().is_ok());
    }
}
