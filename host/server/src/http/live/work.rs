//! Work for waiting clients that no socket may wait for: patches and compressed events.

use tokio::sync::Semaphore;

use crate::response::background;

/// The maximum number of threads that do such work.
const MAX_THREADS: usize = 4;

static PERMITS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Runs `work` on a thread of a lower priority. Returns `None` if there is none, or if the work
/// panics.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let permit = PERMITS.acquire().await.ok()?;
    background::run(move || {
        // The work goes on when its client is gone, so it holds its permit.
        let _permit = permit;
        work()
    })
    .await
}
