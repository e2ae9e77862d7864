//! A server in this process, on a free port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::header::HeaderName;
use relayer_rest_host::config::{Layers, ListenAddress, ListenConfig};
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::control::ConnectionTally;
use relayer_rest_host::module::{CodeCache, Digest, Engine, GuestRequest, Limits, Module};
use relayer_rest_host::registry::{Candidate, Mount, Registry, Source, SwapLimits, SwapReport};
use relayer_rest_host::reload::{ModuleContext, Modules};
use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_host::state::{StatePublisher, StateReader, Upstream, sample};
use relayer_rest_host::{HttpLimits, Listener, LiveLimits, LiveTally, Server, ServerSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, Response};

/// The bundled module, compiled once for all tests.
static BUNDLED: LazyLock<Module> = LazyLock::new(|| Module::embedded(&engine(&patient())).unwrap());

/// Returns the default limits, except that a request may wait for a processor, and use
/// one, for as long as it takes on a busy machine.
#[must_use]
pub fn patient() -> Limits {
    Limits {
        time: Duration::from_mins(10),
        queue_wait: Duration::from_mins(10),
        ..Limits::default()
    }
}

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
    let method = method.parse().unwrap();
    let target = target.parse().unwrap();
    Arc::new(GuestRequest::new(method, target, headers))
}

/// Creates the mount of the API. A swap may take as long as it takes on a busy machine.
fn api(module: Module) -> Mount {
    Mount::api(module)
        .with_swap_limits(SwapLimits { time: patient().time, ..SwapLimits::default() })
}

/// Creates an extension, whose name is the last segment of its path.
#[must_use]
pub fn extension(path: &str, engine: &Engine, component: &[u8]) -> Mount {
    let name = path.rsplit('/').next().unwrap();
    let module = Module::from_bytes(engine, name, component).unwrap().named(name);
    Mount::extension(path.parse().unwrap(), module)
}

/// Loads the modules that a file of settings names, for a server with this state. Compiled code is
/// kept in a folder.
pub async fn modules(settings: PathBuf, code_cache: &Path, state: &StateReader) -> Modules {
    let layers = Layers::new(Some(settings));
    let settings = layers.read().unwrap();
    let context = ModuleContext {
        layers,
        relayer_dialect: None,
        code_cache: Some(CodeCache::open(code_cache).unwrap()),
        compiler: None,
        waits: true,
    };
    Modules::load(context, settings, state).await.unwrap()
}

/// Wraps a component for a swap.
#[must_use]
pub fn candidate(component: Vec<u8>) -> Candidate {
    Candidate::new(Source::Bytes { name: "new.wasm".to_owned(), bytes: component.into() })
}

/// Wraps a component of any dialect for a swap.
#[must_use]
pub fn any_dialect(component: Vec<u8>) -> Candidate {
    Candidate { dialect: Some(Dialect::Any), ..candidate(component) }
}

/// Returns the short digest of a component, as in messages.
#[must_use]
pub fn short(component: &[u8]) -> String {
    Digest::new(component).short()
}

/// Returns the `x-relayer-module` header of a component that serves the API.
#[must_use]
pub fn label(component: &[u8]) -> String {
    format!("api@{}", short(component))
}

/// A server, which runs until it is dropped or stopped.
pub struct TestServer {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The state that it serves.
    pub publisher: StatePublisher,
    /// Its mounts.
    pub registry: Arc<Registry>,
    /// The counters of its connections.
    pub connections: ConnectionTally,
    /// The counters of the clients that wait for a change.
    pub live: LiveTally,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// The settings of a server: by default the bundled module, with [`patient`] limits, and
/// the sample state.
#[must_use]
pub struct Builder {
    api: Api,
    limits: Limits,
    extensions: Vec<Mount>,
    http: HttpLimits,
    live: LiveLimits,
    settings: ServerSettings,
    is_metered: bool,
    state: State,
    listen: ListenConfig,
}

/// The module of the API.
enum Api {
    Bundled,
    Component(Vec<u8>),
    Mount(Mount),
    Registry(Arc<Registry>),
}

/// The source of the state.
enum State {
    Sample,
    Unknown,
    Config(String),
    Upstream(Upstream),
}

impl Builder {
    /// Sets the component of the API.
    pub fn component(self, component: &[u8]) -> Self {
        Self { api: Api::Component(component.to_owned()), ..self }
    }

    /// Sets the limits of the API's module.
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: limits.clone(), ..self }
    }

    /// Sets the module of the API, which has limits already.
    pub fn module(self, module: Module) -> Self {
        self.mount(Mount::api(module))
    }

    /// Sets the mount of the API, which has a module already.
    pub fn mount(self, mount: Mount) -> Self {
        Self { api: Api::Mount(mount), ..self }
    }

    /// Sets all mounts, which have modules already.
    pub fn registry(self, registry: Arc<Registry>) -> Self {
        Self { api: Api::Registry(registry), ..self }
    }

    /// Adds an extension.
    pub fn extension(mut self, mount: Mount) -> Self {
        self.extensions.push(mount);
        self
    }

    /// Sets the limits on clients.
    pub fn http(self, http: HttpLimits) -> Self {
        Self { http, ..self }
    }

    /// Sets the limits on clients that wait for a change.
    pub fn live(self, live: LiveLimits) -> Self {
        Self { live, ..self }
    }

    /// Counts requests for metrics.
    pub fn metered(self) -> Self {
        Self { is_metered: true, ..self }
    }

    /// Sets the number of threads that serve connections.
    pub fn workers(mut self, workers: u32) -> Self {
        self.settings.workers = workers;
        self
    }

    /// Sets the grace period for shutdown.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets the time for another request at shutdown.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Sets the listener, on a TCP port.
    pub fn listen(self, listen: ListenConfig) -> Self {
        Self { listen, ..self }
    }

    /// Leaves the state unknown.
    pub fn without_state(self) -> Self {
        Self { state: State::Unknown, ..self }
    }

    /// Serves the chains of a relayer's configuration, and leaves the rest unknown.
    pub fn relayer_config(self, text: &str) -> Self {
        Self { state: State::Config(text.to_owned()), ..self }
    }

    /// Serves the state of an upstream relayer.
    pub fn upstream(self, upstream: Upstream) -> Self {
        Self { state: State::Upstream(upstream), ..self }
    }

    /// Starts the server.
    pub async fn start(self) -> TestServer {
        let extensions = self.extensions;
        let with = |api| {
            let add = |registry: Registry, mount| registry.with(mount).unwrap();
            Arc::new(extensions.into_iter().fold(Registry::new(api), add))
        };
        let registry = match self.api {
            Api::Bundled if self.limits == patient() => with(api(BUNDLED.clone())),
            Api::Bundled => with(api(Module::embedded(&engine(&self.limits)).unwrap())),
            Api::Component(component) => {
                let module = Module::from_bytes(&engine(&self.limits), "test", &component);
                with(api(module.unwrap()))
            }
            Api::Mount(mount) => with(mount),
            Api::Registry(registry) => registry,
        };
        let publisher = StatePublisher::new();
        match self.state {
            State::Sample => sample(&publisher),
            State::Unknown => {}
            State::Config(text) => {
                publisher.set_chains(HermesConfig::parse(&text).unwrap().chains).unwrap();
            }
            State::Upstream(upstream) => {
                tokio::spawn(upstream.run(publisher.clone()));
            }
        }
        let listener = Listener::bind(&self.listen).await.unwrap();
        let address = listener.address().unwrap().to_string().parse().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Server::with_registry(Arc::clone(&registry), publisher.reader())
            .with_limits(self.http)
            .with_live_limits(self.live)
            .with_settings(self.settings);
        let server = if self.is_metered { server.with_metrics() } else { server };
        let connections = server.connections();
        let live = server.connections().live().clone();
        let serving = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
        TestServer { address, publisher, registry, connections, live, stop, serving }
    }
}

impl TestServer {
    /// Returns the settings of a server, to be changed and started.
    pub fn builder() -> Builder {
        Builder {
            api: Api::Bundled,
            limits: patient(),
            extensions: Vec::new(),
            http: HttpLimits::default(),
            live: LiveLimits::default(),
            settings: ServerSettings::default(),
            is_metered: false,
            state: State::Sample,
            listen: "127.0.0.1:0".parse::<ListenAddress>().unwrap().into(),
        }
    }

    /// Starts a server with the bundled module and the sample state.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Returns the mount of the API.
    #[must_use]
    pub fn api(&self) -> Arc<Mount> {
        self.registry.at("/").unwrap()
    }

    /// Swaps the API's module for a component, in any dialect.
    pub async fn swap(&self, component: Vec<u8>) -> SwapReport {
        self.swap_as(any_dialect(component)).await
    }

    /// Swaps the API's module for a candidate.
    pub async fn swap_as(&self, candidate: Candidate) -> SwapReport {
        self.api().swap(candidate, &self.publisher.reader()).await
    }

    /// Opens a new HTTP/1.1 connection.
    pub async fn connect(&self) -> Client {
        Client::http1(self.address).await
    }

    /// Sends a GET request on a new connection.
    pub async fn get(&self, path: &str) -> Response {
        self.connect().await.get(path).await
    }

    /// Stops the server. The returned handle completes when the server has
    /// stopped.
    #[must_use]
    pub fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }
}
