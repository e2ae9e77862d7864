//! Accepts connections up to their limits, and closes connections that are silent for too
//! long.

use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::log_rate::{LogRate, Permit};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::warn;

use super::activity::ConnectionActivity;
use super::connection::{self, Accepted, Connections};
use super::open_connections::{Counts, OpenConnections};
use super::roster::{Entry, Peer, Roster};
use super::socket::{AssignedSocket, Socket};
use super::tally::ConnectionTally;
use crate::http::error::HostError;
use crate::http::exchange::ClientSide;
use crate::http::limits::HttpLimits;
use crate::http::worker_threads::{WorkerId, WorkerThreads};

/// The maximum number of connections in excess of the limit: evicted ones that have not
/// ended yet, because their thread is busy, or their client has not acknowledged it.
const MAX_EXCESS: usize = 64;

/// The reasons for which a connection is refused.
const FULL: &str =
    "a limit is reached and no connection is idle (http.connections, http.connections-per-peer)";
const EXCESS: &str = "evicted connections have not ended yet: their threads are busy, or their clients do not acknowledge it (http.connections)";

/// The maximum number of refused connections that are still read from.
const MAX_DRAINING: usize = 32;

/// The connections of all threads, which any of them can add to. All end when this is dropped.
pub(in crate::http) struct ConnectionManager {
    limits: HttpLimits,
    /// The context of each worker thread.
    connections: Vec<Arc<Connections>>,
    roster: Arc<Roster>,
    open: Arc<OpenConnections>,
    workers: WorkerThreads,
    tally: ConnectionTally,
    refusals: LogRate,
    /// Permits of refused connections that are still read from.
    draining: Arc<Semaphore>,
}

impl ConnectionManager {
    pub(in crate::http) fn new(
        limits: HttpLimits,
        connections: &Connections,
        workers: WorkerThreads,
        roster: Arc<Roster>,
        tally: ConnectionTally,
    ) -> Self {
        let connections = workers.runtimes().map(|_| Arc::new(connections.for_another_thread()));
        Self {
            limits,
            connections: connections.collect(),
            open: Arc::new(OpenConnections::new(Arc::clone(&roster), workers.loads())),
            roster,
            workers,
            tally,
            refusals: LogRate::new(1),
            draining: Arc::new(Semaphore::new(MAX_DRAINING)),
        }
    }

    /// Returns the runtimes of the threads, in the order of their numbers.
    pub(in crate::http) fn runtimes(&self) -> impl ExactSizeIterator<Item = (WorkerId, &Handle)> {
        self.workers.runtimes()
    }

    /// Serves a connection if there is room, or if an idle connection can be evicted for
    /// it. `here` is the thread that accepted it, if it is one of them.
    pub(in crate::http) fn add(&self, accepted: Accepted, here: Option<WorkerId>) {
        let Accepted { socket, peer, address, tls } = accepted;
        let is_forwarded = address.is_some_and(|address| self.limits.is_proxy(address));
        let peer = if is_forwarded { Peer::SEVERAL } else { peer };
        let mut counts = self.open.counts();
        if let Err(reason) = self.check_room(&counts, peer) {
            drop(counts);
            return self.refuse(socket, tls.is_some(), reason);
        }
        let worker = counts.loads.choose(here);
        let Ok(socket) = AssignedSocket::new(socket, here == Some(worker)) else { return };
        let activity = Arc::new(ConnectionActivity::new(self.roster.clock().clone()));
        let number = counts.add(peer, worker);
        self.roster.insert(Entry { activity: Arc::clone(&activity), peer, worker, number });
        // The end of a connection takes the lock.
        drop(counts);
        // It is in the roster, in case the server begins to drain now. Its thread does not respond
        // yet: the response would not be the last one.
        if self.tally.is_draining() {
            activity.drain();
        }
        let open = self.open.connection(number);
        let connections = Arc::clone(&self.connections[worker.index()]);
        // Not within another future, which would double the memory of each connection.
        let client = ClientSide { address, has_tls: tls.is_some(), is_forwarded };
        let serve = connection::serve(open, socket, tls, client, connections, activity);
        drop(self.workers.runtime(worker).spawn(serve));
    }

    /// Checks that there is room for a connection of this peer, or makes room.
    fn check_room(&self, counts: &Counts, peer: Peer) -> Result<(), &'static str> {
        let limit = self.limits.connections as usize;
        let open = self.len();
        if open >= limit + MAX_EXCESS {
            // Evicted connections that have not ended yet end immediately then.
            self.roster.hasten();
            return Err(EXCESS);
        }
        // Evicting a connection of this peer makes room in the server, too.
        let is_full_of_peer = counts.of_peer(peer) >= self.limits.connections_per_peer;
        let has_room = if peer.has_address() && is_full_of_peer {
            self.roster.evict_idlest(|entry| entry.peer == peer)
        } else {
            open < limit || self.roster.evict_idlest(|_| true)
        };
        has_room.then_some(()).ok_or(FULL)
    }

    /// Waits until all connections have ended.
    pub(in crate::http) async fn all_ended(&self) {
        self.open.all_ended().await;
    }

    pub(in crate::http) fn len(&self) -> usize {
        self.roster.len()
    }

    /// Advances the clock by a second, measures the load of the threads, and closes
    /// connections whose clients were silent or stalled for too long.
    pub(in crate::http) fn tick(&self) {
        self.open.counts().loads.measure(&self.workers);
        self.roster.clock().tick();
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        self.roster.close_after(seconds(self.limits.idle), seconds(self.limits.stalled));
    }

    /// Lets the next response of each connection be the last one.
    pub(in crate::http) fn drain(&self) {
        self.roster.drain();
    }

    /// Tells all connections to end.
    pub(in crate::http) fn close_all(&self) {
        self.roster.close_all();
    }

    /// Drops all connections, which end when their tasks yield.
    pub(in crate::http) fn abort_all(&self) {
        self.roster.abort_all();
    }

    fn refuse(&self, socket: Socket, has_tls: bool, reason: &str) {
        self.tally.refused();
        if let Permit::Granted(before) = self.refusals.acquire(1) {
            let HttpLimits { connections, connections_per_peer, .. } = self.limits;
            warn!(before, connections, connections_per_peer, "connection refused: {reason}");
        }
        // A response would need a handshake, which a server without room avoids.
        if has_tls {
            return;
        }
        // If the response does not fit into the socket's buffer, the client only sees the
        // connection closed.
        socket.try_write(&HostError::ConnectionsTooMany.raw_response()).ok();
        if let Ok(permit) = Arc::clone(&self.draining).try_acquire_owned() {
            tokio::spawn(async move {
                socket.drain().await;
                drop(permit);
            });
        }
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        self.abort_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Accepted, ConnectionActivity, ConnectionManager, ConnectionTally, Connections, HostError,
        MAX_EXCESS, Roster, Socket,
    };
    use crate::http::connections::protocol::Protocols;
    use crate::http::exchange::Observers;
    use crate::http::forwarded::ForwardedClients;
    use crate::http::limits::HttpLimits;
    use crate::http::live::{Live, LiveLimits, LiveTally};
    use crate::http::received_body::RequestBodies;
    use crate::http::send_admission::SendAdmission;
    use crate::http::service::Service;
    use crate::http::worker_threads::WorkerThreads;
    use crate::openapi::OpenApiDocument;
    use crate::registry::{Mount, Registry};
    use relayer_rest_modules::DEFAULT_MODULE;
    use relayer_rest_sandbox::{Engine, Limits, Module};
    use relayer_rest_state::StatePublisher;
    use std::net::{IpAddr, Ipv4Addr};
    use std::num::NonZeroUsize;
    use std::sync::{Arc, mpsc};
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn evicted_connections_that_have_not_ended_exceed_the_limit_by_few() {
        let engine = Engine::new(&Limits::default()).unwrap();
        let module = Module::from_bytes(&engine, "test", DEFAULT_MODULE).unwrap();
        let registry = Arc::new(Registry::new(Mount::api(module)));
        let limits = HttpLimits { connections: 4, ..HttpLimits::default() };
        let tally = ConnectionTally::default();
        let roster = Arc::new(Roster::new(tally.clone()));
        let admission = SendAdmission::new(tally.budget(), Arc::clone(&roster), limits.unsent);
        let state = StatePublisher::new().reader();
        let live = LiveLimits::default();
        let live = Live::new(Arc::clone(&registry), state.clone(), live, LiveTally::default());
        let connections = Connections {
            service: Arc::new(Service {
                registry,
                state,
                live,
                commands: None,
                tally: ConnectionTally::default(),
                is_metered: false,
                cors: None,
                base_path: limits.base_path.clone(),
                openapi: OpenApiDocument::new(None),
                observers: Observers::default(),
                capsules: None,
            }),
            protocols: Arc::new(Protocols::new(&limits)),
            clients: Arc::new(ForwardedClients::new(Arc::new(limits.clone()))),
            limits: Arc::new(limits.clone()),
            admission: Arc::new(admission),
            bodies: RequestBodies::new(),
        };
        let workers = WorkerThreads::start(NonZeroUsize::MIN);
        let (release, released) = mpsc::channel::<()>();
        // The thread is busy for as long as the channel exists.
        let (_, runtime) = workers.runtimes().next().unwrap();
        let busy = runtime.spawn(async move { released.recv().is_ok() });
        let manager = ConnectionManager::new(limits, &connections, workers, roster, tally.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            let socket = Socket::Tcp(listener.accept().await.unwrap().0);
            let peer = IpAddr::from(Ipv4Addr::LOCALHOST).into();
            manager.add(Accepted { socket, peer, address: None, tls: None }, None);
        }
        assert_eq!(manager.len(), 4 + MAX_EXCESS);
        assert_eq!(tally.status().refused, 100 - 4 - MAX_EXCESS as u64);
        drop(release);
        assert!(!busy.await.unwrap());
        while manager.len() > 4 {
            tokio::task::yield_now().await;
        }
    }

    /// The thread that accepts a connection allocates them, next to those of connections on
    /// other threads.
    #[test]
    fn memory_that_requests_write_has_cache_lines_for_each_thread() {
        assert_eq!(align_of::<Connections>(), 128);
        assert_eq!(align_of::<SendAdmission>(), 128);
        assert_eq!(align_of::<ConnectionActivity>(), 64);
    }

    #[test]
    fn a_refusal_has_the_length_and_headers_of_a_response() {
        let refusal = HostError::ConnectionsTooMany.raw_response();
        let refusal = String::from_utf8(refusal).unwrap();
        let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"));
        for line in [format!("content-length: {}", body.len()), "retry-after: 1".to_owned()] {
            assert!(head.lines().any(|known| known == line), "{line}: {head}");
        }
        assert!(head.contains("\r\nx-request-id: "), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["result"]["name"], "Overloaded");
    }
}
