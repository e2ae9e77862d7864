//! Accepts connections up to their limits, and closes connections that are silent for too
//! long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::log_rate::{LogRate, Permit};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::warn;

use super::activity::ConnectionActivity;
use super::connection::{self, Accepted, Connections};
use super::roster::{Entry, Peer, Roster};
use super::socket::Socket;
use super::tally::ConnectionTally;
use crate::http::error::HostError;
use crate::http::exchange::ClientSide;
use crate::http::limits::HttpLimits;
use crate::http::worker_threads::WorkerThreads;

/// The maximum number of connections in excess of the limit: evicted ones that have not
/// ended yet, because their thread is busy, or their client has not acknowledged it.
const MAX_EXCESS: usize = 64;

/// The reasons for which a connection is refused.
const FULL: &str =
    "a limit is reached and no connection is idle (http.connections, http.connections-per-peer)";
const EXCESS: &str = "evicted connections have not ended yet: their threads are busy, or their clients do not acknowledge it (http.connections)";

/// The maximum number of refused connections that are still read from.
const MAX_DRAINING: usize = 32;

pub(in crate::http) struct ConnectionManager {
    limits: HttpLimits,
    /// The context of each worker thread.
    connections: Vec<Arc<Connections>>,
    roster: Arc<Roster>,
    tasks: JoinSet<()>,
    peers: HashMap<Peer, u32>,
    count: u64,
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
        let connections = (0..workers.count()).map(|_| Arc::new(connections.for_another_thread()));
        Self {
            limits,
            connections: connections.collect(),
            roster,
            tasks: JoinSet::new(),
            peers: HashMap::new(),
            count: 0,
            workers,
            tally,
            refusals: LogRate::new(1),
            draining: Arc::new(Semaphore::new(MAX_DRAINING)),
        }
    }

    /// Serves a connection if there is room, or if an idle connection can be evicted for
    /// it.
    pub(in crate::http) fn add(&mut self, accepted: Accepted) {
        let Accepted { socket, peer, address, tls } = accepted;
        let is_forwarded = address.is_some_and(|address| self.limits.is_proxy(address));
        let peer = if is_forwarded { Peer::SEVERAL } else { peer };
        if self.has_excess() {
            return self.refuse(socket, tls.is_some(), EXCESS);
        }
        let of_peer = self.peers.get(&peer).copied().unwrap_or_default();
        // Evicting a connection of this peer makes room in the server, too.
        let has_room = if peer.has_address() && of_peer >= self.limits.connections_per_peer {
            self.roster.evict_idlest(|entry| entry.peer == peer)
        } else {
            self.tasks.len() < self.limits.connections as usize
                || self.roster.evict_idlest(|_| true)
        };
        if !has_room {
            return self.refuse(socket, tls.is_some(), FULL);
        }
        // The thread that serves it registers it with its own runtime.
        let Ok(socket) = socket.detach() else { return };
        let activity = Arc::new(ConnectionActivity::new(self.roster.clock().clone()));
        // Before its thread may respond: afterwards, the response would not be the last one.
        if self.tally.is_draining() {
            activity.drain();
        }
        let (worker, runtime) = self.workers.assign();
        let connections = Arc::clone(&self.connections[worker.index()]);
        let counted = self.tally.accepted();
        // Not within another future, which would double the memory of each connection.
        let client = ClientSide { address, has_tls: tls.is_some(), is_forwarded };
        let activity_of = Arc::clone(&activity);
        let serve = connection::serve(socket, tls, client, connections, activity_of, counted);
        let task = self.tasks.spawn_on(serve, runtime);
        *self.peers.entry(peer).or_default() += 1;
        self.count += 1;
        self.roster.insert(task.id(), Entry { activity, peer, worker, number: self.count });
    }

    /// Returns whether too many evicted connections have not ended yet. These end
    /// immediately then.
    fn has_excess(&self) -> bool {
        let has_excess = self.tasks.len() >= self.limits.connections as usize + MAX_EXCESS;
        if has_excess {
            self.roster.hasten();
        }
        has_excess
    }

    /// Waits until all connections have ended.
    pub(in crate::http) async fn all_ended(&mut self) {
        while self.len() > 0 {
            self.ended().await;
        }
    }

    /// Waits until a connection has ended; if there are none, forever.
    pub(in crate::http) async fn ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        let Some(Entry { peer, worker, .. }) = self.roster.remove(id) else { return };
        self.workers.release(worker);
        if let Some(count) = self.peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
    }

    pub(in crate::http) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Advances the clock by a second, measures the load of the threads, and closes
    /// connections whose clients were silent or stalled for too long.
    pub(in crate::http) fn tick(&mut self) {
        self.workers.measure();
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
    pub(in crate::http) fn abort_all(&mut self) {
        self.tasks.abort_all();
    }

    fn refuse(&self, socket: Socket, has_tls: bool, reason: &str) {
        self.tally.refused();
        if let Permit::Granted(before) = self.refusals.acquire(1) {
            let HttpLimits { connections, connections_per_peer, .. } = self.limits;
            warn!(before, connections, connections_per_peer, "connection refused: {reason}");
        }
        // A response would need a handshake, which is what a server without room avoids.
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
        let mut workers = WorkerThreads::start(NonZeroUsize::MIN);
        let (release, released) = mpsc::channel::<()>();
        // The thread is busy for as long as the channel exists.
        let busy = workers.assign().1.spawn(async move { released.recv().is_ok() });
        let mut manager =
            ConnectionManager::new(limits, &connections, workers, roster, tally.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            let socket = Socket::Tcp(listener.accept().await.unwrap().0);
            let peer = IpAddr::from(Ipv4Addr::LOCALHOST).into();
            manager.add(Accepted { socket, peer, address: None, tls: None });
        }
        assert_eq!(manager.len(), 4 + MAX_EXCESS);
        assert_eq!(tally.status().refused, 100 - 4 - MAX_EXCESS as u64);
        drop(release);
        assert!(!busy.await.unwrap());
        while manager.len() > 4 {
            manager.ended().await;
        }
    }

    /// The thread of the acceptor allocates them, next to those of connections on other threads.
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
