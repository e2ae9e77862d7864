//! A client of the API that must not be affected by other clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::client::Client;
use crate::wait::within;

/// The shortest time after which a server may close a connection without a request: the
/// minimum of `http.idle`.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// A client that checks the API's responses continuously.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    watching: tokio::task::JoinHandle<usize>,
}

impl Watcher {
    /// Starts to send requests.
    #[must_use]
    pub fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watching = tokio::spawn({
            let stop = Arc::clone(&stop);
            async move {
                let mut kept = Client::http1(address).await.idle(MIN_IDLE);
                let mut count = 0;
                while !stop.load(Relaxed) {
                    // A cached response, an uncached one, and one on a new connection.
                    let unknown = format!("/nothing/{count}");
                    for (path, status) in [("/version", 200), (&*unknown, 404)] {
                        let response = within("a response to the watcher", kept.get(path)).await;
                        assert_eq!((response.status.as_u16(), path), (status, path));
                    }
                    let mut new = Client::http1(address).await.idle(MIN_IDLE);
                    let response = new.get("/version");
                    assert_eq!(within("a new connection", response).await.status, 200);
                    count += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                count
            }
        });
        Self { stop, watching }
    }

    /// Stops, and checks that at least one round of requests was completed.
    ///
    /// # Panics
    ///
    /// Panics if a response had an unexpected status or did not arrive, or if no round
    /// was completed.
    pub async fn stop(self) {
        self.stop.store(true, Relaxed);
        assert!(self.watching.await.unwrap() > 0);
    }
}
