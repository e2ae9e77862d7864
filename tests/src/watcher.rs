//! A client of the API that is to notice nothing of what others do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::Client;

/// Longer than this, an answer of the API would be noticed: a machine that
/// tests run on has other things to do, too.
const TIMELY: Duration = Duration::from_secs(2);

/// Clients of the API that see nothing of what others do.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    watching: tokio::task::JoinHandle<usize>,
}

impl Watcher {
    /// Begins to ask.
    pub async fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut kept = Client::http1(address).await;
        let watching = tokio::spawn({
            let stop = Arc::clone(&stop);
            async move {
                let mut count = 0;
                while !stop.load(Relaxed) {
                    // What is remembered, what is not, and on a new connection.
                    let unknown = format!("/nothing/{count}");
                    for (path, status) in [("/version", 200), (&*unknown, 404)] {
                        let start = Instant::now();
                        let answer = kept.get(path).await;
                        assert_eq!((answer.status.as_u16(), path), (status, path));
                        assert!(start.elapsed() < TIMELY, "{:?}", start.elapsed());
                    }
                    let start = Instant::now();
                    assert_eq!(Client::http1(address).await.get("/version").await.status, 200);
                    assert!(start.elapsed() < TIMELY, "{:?}", start.elapsed());
                    count += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                count
            }
        });
        Self { stop, watching }
    }

    /// Ends, where all was well.
    ///
    /// # Panics
    /// Where an answer was another than 200, or late.
    pub async fn stop(self) {
        self.stop.store(true, Relaxed);
        assert!(self.watching.await.unwrap() > 0);
    }
}
