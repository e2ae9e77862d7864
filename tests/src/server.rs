//! A server in this process, on a free port.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::header::HeaderName;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::ConnectionTally;
use relayer_rest_host::module::{Engine, GuestRequest, Limits, Module};
use relayer_rest_host::registry::{Candidate, Mount, Registry, Source, SwapReport};
use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_host::state::{StatePublisher, Upstream, sample};
use relayer_rest_host::{HttpLimits, Server};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Answer, Client};

/// The embedded module, compiled once for all tests.
static EMBEDDED: LazyLock<Module> =
    LazyLock::new(|| Module::embedded(&engine(&Limits::default())).unwrap());

/// Creates an engine with these limits.
#[must_use]
pub fn engine(limits: &Limits) -> Engine {
    Engine::new(limits).unwrap()
}

/// Creates a request as a module receives it.
#[must_use]
pub fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Arc<GuestRequest> {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let (method, target) = (method.parse().unwrap(), target.parse().unwrap());
    Arc::new(GuestRequest { method, target, headers })
}

/// Wraps a component for a swap.
#[must_use]
pub fn candidate(component: Vec<u8>) -> Candidate {
    Candidate::new(Source::Bytes { name: "new.wasm".to_owned(), bytes: component.into() })
}

/// A server, which runs until it is dropped or told to stop.
pub struct TestServer {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The state that it serves.
    pub publisher: StatePublisher,
    /// Its mounts.
    pub registry: Arc<Registry>,
    /// The counters of its connections.
    pub connections: ConnectionTally,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server with the embedded module and the sample state.
    pub async fn of_sample() -> Self {
        let server = Self::of_nothing().await;
        sample(&server.publisher);
        server
    }

    /// Starts a server with the embedded module and the chains of a relayer's
    /// configuration.
    pub async fn of_config(text: &str) -> Self {
        let server = Self::of_nothing().await;
        let config = HermesConfig::parse(text).unwrap();
        server.publisher.set_chains(config.chains).unwrap();
        server
    }

    /// Starts a server with the embedded module and no state.
    pub async fn of_nothing() -> Self {
        Self::of_module(EMBEDDED.clone()).await
    }

    /// Starts a server with a component under these limits, and the sample state.
    pub async fn of_component(component: &[u8], limits: &Limits) -> Self {
        let module = Module::from_bytes(&engine(limits), "test", component).unwrap();
        let server = Self::of_module(module).await;
        sample(&server.publisher);
        server
    }

    /// Starts a server with a module and no state.
    pub async fn of_module(module: Module) -> Self {
        Self::of_registry(Registry::new(Mount::api(module))).await
    }

    /// Starts a server with these mounts and no state.
    pub async fn of_registry(registry: Registry) -> Self {
        Self::of(registry, |server| server).await
    }

    /// Starts a server with these mounts, these limits on clients, and no state.
    pub async fn with_limits(registry: Registry, limits: HttpLimits) -> Self {
        Self::of(registry, |server| server.with_limits(limits)).await
    }

    /// Starts a server with these mounts, this grace period for shutdown, and no state.
    pub async fn with_grace(registry: Registry, grace: Duration) -> Self {
        Self::of(registry, |server| server.with_grace(grace)).await
    }

    async fn of(registry: Registry, set: impl FnOnce(Server) -> Server) -> Self {
        let registry = Arc::new(registry);
        let publisher = StatePublisher::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = set(Server::of(Arc::clone(&registry), publisher.reader()));
        let connections = server.connections();
        let serving = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
        Self { address, publisher, registry, connections, stop, serving }
    }

    /// Starts a server with the embedded module and the state of an upstream relayer.
    pub async fn of_upstream(upstream: Upstream) -> Self {
        let server = Self::of_nothing().await;
        tokio::spawn(upstream.run(server.publisher.clone()));
        server
    }

    /// Swaps the API's module for a component, in any dialect.
    pub async fn swap(&self, component: Vec<u8>) -> SwapReport {
        let dialect = Some(Dialect::Any);
        self.swap_as(Candidate { dialect, ..candidate(component) }).await
    }

    /// Swaps the API's module for a candidate.
    pub async fn swap_as(&self, candidate: Candidate) -> SwapReport {
        self.registry.at("/").unwrap().swap(candidate, &self.publisher.reader()).await
    }

    /// Opens a new HTTP/1.1 connection.
    pub async fn connect(&self) -> Client {
        Client::http1(self.address).await
    }

    /// Sends a GET request on a new connection.
    pub async fn get(&self, path: &str) -> Answer {
        self.connect().await.get(path).await
    }

    /// Tells the server to stop. The returned handle completes when the server has
    /// stopped.
    #[must_use]
    pub fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }
}
