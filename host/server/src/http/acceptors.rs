//! The tasks that accept connections.
//!
//! Each thread accepts from a socket of its own, if the address has several. One task on the
//! runtime of the program accepts from all others: Unix sockets, and sockets that another program
//! has opened.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::connections::ConnectionManager;
use super::listener::{AcceptSocket, Arrival, Listener};
use super::worker_threads::WorkerId;

/// The pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The number of connections that are accepted before other tasks of the thread have a turn.
const BATCH: usize = 16;

/// The maximum wait for the tasks to stop, of which a guest that does not yield can occupy a thread.
const MAX_STOP_TIME: Duration = Duration::from_millis(100);

/// The tasks, which end when this is dropped.
pub(super) struct Acceptors {
    tasks: JoinSet<()>,
    stop: watch::Sender<()>,
}

/// A task that accepts from some sockets.
struct Acceptor {
    /// The listener of each socket, and the number of the socket.
    places: Vec<(Arc<Listener>, usize)>,
    /// The thread that it runs on, if that serves connections.
    here: Option<WorkerId>,
    /// Not owned: a runtime that is not run any more does not drop its tasks.
    open: Weak<ConnectionManager>,
    /// Receives the connections that have a header of the PROXY protocol.
    with_header: mpsc::Sender<Arrival>,
    stop: watch::Receiver<()>,
}

impl Acceptors {
    /// Accepts the connections of the listeners.
    pub(super) fn start(
        listeners: Vec<Listener>,
        open: &Arc<ConnectionManager>,
        with_header: mpsc::Sender<Arrival>,
    ) -> Self {
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        let listeners: Vec<_> = listeners.into_iter().map(Arc::new).collect();
        let acceptor = move |here, places| Acceptor {
            places,
            here,
            open: Arc::downgrade(open),
            with_header: with_header.clone(),
            stop: stopped.clone(),
        };
        let runtimes = open.runtimes();
        let count = runtimes.len();
        for (worker, runtime) in runtimes {
            let grouped = listeners.iter().filter(|listener| listener.is_group());
            let places = grouped.flat_map(|listener| {
                let numbers = (worker.index()..listener.socket_count()).step_by(count);
                numbers.map(|number| (Arc::clone(listener), number))
            });
            tasks.spawn_on(acceptor(Some(worker), places.collect()).run(), runtime);
        }
        let single = listeners.iter().filter(|listener| !listener.is_group());
        tasks.spawn(acceptor(None, single.map(|single| (Arc::clone(single), 0)).collect()).run());
        Self { tasks, stop }
    }

    /// Closes the sockets. Connections that have been accepted are served.
    pub(super) async fn stop(&mut self) {
        self.stop.send_replace(());
        let stopped = async { while self.tasks.join_next().await.is_some() {} };
        timeout(MAX_STOP_TIME, stopped).await.ok();
    }
}

impl Acceptor {
    /// Accepts until it is stopped.
    async fn run(mut self) {
        let mut sockets = Vec::new();
        let mut next = 0;
        for count in 1_usize.. {
            if count.is_multiple_of(BATCH) {
                yield_now().await;
            }
            let accept = async {
                while let Some((listener, number)) = self.places.get(sockets.len()) {
                    sockets.push(AcceptSocket::new(listener, *number)?);
                }
                accept(&sockets, &mut next).await
            };
            let accepted = tokio::select! {
                biased;
                _ = self.stop.changed() => return,
                accepted = accept => accepted,
            };
            match accepted {
                Ok(Arrival { accepted, has_proxy_header: false }) => {
                    let Some(open) = self.open.upgrade() else { return };
                    open.add(accepted, self.here);
                }
                Ok(arrival) => drop(self.with_header.send(arrival).await),
                Err(error) => pause(&error).await,
            }
        }
    }
}

/// Accepts a connection of any socket. Each is the first that is asked in its turn.
async fn accept(sockets: &[AcceptSocket], next: &mut usize) -> io::Result<Arrival> {
    poll_fn(|context| {
        for place in 0..sockets.len() {
            let place = (*next + place) % sockets.len();
            if let Poll::Ready(accepted) = sockets[place].poll_accept(context) {
                *next = place + 1;
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// Pauses after a failure to accept. A connection that failed before it was accepted
/// causes none: that is its client's problem.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        warn!(%error, "cannot accept a connection; retrying");
        sleep(ACCEPT_PAUSE).await;
    }
}
