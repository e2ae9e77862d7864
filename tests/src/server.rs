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

/// The module that comes with the host: compiled once for all tests.
static EMBEDDED: LazyLock<Module> =
    LazyLock::new(|| Module::embedded(&engine(&Limits::default())).unwrap());

/// An engine under these limits.
#[must_use]
pub fn engine(limits: &Limits) -> Engine {
    Engine::new(limits).unwrap()
}

/// A request, as a module sees it.
#[must_use]
pub fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Arc<GuestRequest> {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
    let (method, target) = (method.parse().unwrap(), target.parse().unwrap());
    Arc::new(GuestRequest { method, target, headers })
}

/// A component that is to serve.
#[must_use]
pub fn candidate(component: Vec<u8>) -> Candidate {
    Candidate::new(Source::Bytes { name: "new.wasm".to_owned(), bytes: component.into() })
}

/// A server, until it is dropped or told to stop.
pub struct TestServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it serves.
    pub publisher: StatePublisher,
    /// The modules that serve it.
    pub registry: Arc<Registry>,
    /// Its connections, counted.
    pub connections: ConnectionTally,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl TestServer {
    /// The embedded module, on the sample.
    pub async fn of_sample() -> Self {
        let server = Self::of_nothing().await;
        sample(&server.publisher);
        server
    }

    /// The embedded module, on the chains of a relayer's configuration.
    pub async fn of_config(text: &str) -> Self {
        let server = Self::of_nothing().await;
        let config = HermesConfig::parse(text).unwrap();
        server.publisher.set_chains(config.chains).unwrap();
        server
    }

    /// The embedded module, on nothing.
    pub async fn of_nothing() -> Self {
        Self::of_module(EMBEDDED.clone()).await
    }

    /// A component made from a text under these limits, on the sample.
    pub async fn of_component(component: &[u8], limits: &Limits) -> Self {
        let module = Module::from_bytes(&engine(limits), "test", component).unwrap();
        let server = Self::of_module(module).await;
        sample(&server.publisher);
        server
    }

    /// A module, on nothing.
    pub async fn of_module(module: Module) -> Self {
        Self::of_registry(Registry::new(Mount::api(module))).await
    }

    /// All that is mounted, on nothing.
    pub async fn of_registry(registry: Registry) -> Self {
        Self::of(registry, |server| server).await
    }

    /// The same, under these limits of clients.
    pub async fn with_limits(registry: Registry, limits: HttpLimits) -> Self {
        Self::of(registry, |server| server.with_limits(limits)).await
    }

    /// The same, which has so long to end.
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

    /// The embedded module, on what a relayer answers.
    pub async fn of_upstream(upstream: Upstream) -> Self {
        let server = Self::of_nothing().await;
        tokio::spawn(upstream.run(server.publisher.clone()));
        server
    }

    /// Swaps the API's module for one in any dialect.
    pub async fn swap(&self, component: Vec<u8>) -> SwapReport {
        let dialect = Some(Dialect::Any);
        self.swap_as(Candidate { dialect, ..candidate(component) }).await
    }

    /// Swaps the API's module.
    pub async fn swap_as(&self, candidate: Candidate) -> SwapReport {
        self.registry.at("/").unwrap().swap(candidate, &self.publisher.reader()).await
    }

    /// A new connection.
    pub async fn connect(&self) -> Client {
        Client::http1(self.address).await
    }

    /// GET, on a connection of its own.
    pub async fn get(&self, path: &str) -> Answer {
        self.connect().await.get(path).await
    }

    /// Tells the server to stop; what is returned completes when it has.
    #[must_use]
    pub fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }
}
