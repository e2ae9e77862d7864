//! The settings of the server, and its start.

use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;

use crossbeam_channel::Sender;
use ibc_relayer::rest::request::Request;
use relayer_rest_host::config::Place;
use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::state::Polling;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::channel::Channel;
use crate::error::SpawnError;
use crate::service::{Service, Settings};

type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The settings of the server.
#[derive(Default)]
pub struct Builder {
    settings: Settings,
    shutdown: Option<Shutdown>,
}

impl Builder {
    /// Creates the default settings: dialect 1.13, no extensions, the control socket on which
    /// the commands of `relayer-rest` find the server, and the code cache of
    /// `relayer-rest serve`, which `RELAYER_REST_CODE_CACHE` names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the settings of the environment: `RELAYER_REST_CONFIG` names the file of the
    /// settings, and variables such as `RELAYER_REST_CONTROL` and
    /// `RELAYER_REST_HTTP_CONNECTIONS` override its keys.
    #[must_use]
    pub fn from_env() -> Self {
        let settings = Settings { reads_environment: true, ..Settings::default() };
        Self { settings, shutdown: None }
    }

    /// Sets the file of the settings: limits, extensions and the module of the API. It is read
    /// again by `relayer-rest reload`.
    #[must_use]
    pub fn with_settings(mut self, file: impl Into<PathBuf>) -> Self {
        self.settings.file = Some(file.into());
        self
    }

    /// Sets the dialect of the API, instead of the one of the settings or 1.13.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.settings.dialect = Some(dialect);
        self
    }

    /// Sets the path of the control socket.
    #[must_use]
    pub fn with_control(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.control = Some(Place::At(path.into()));
        self
    }

    /// Disables the control socket.
    #[must_use]
    pub fn without_control(mut self) -> Self {
        self.settings.control = Some(Place::Disabled);
        self
    }

    /// Sets the folder for compiled modules, whose code the process executes: no other user may
    /// be able to write to it.
    #[must_use]
    pub fn with_code_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.code_cache = Some(Place::At(folder.into()));
        self
    }

    /// Disables the code cache: each start compiles the modules.
    #[must_use]
    pub fn without_code_cache(mut self) -> Self {
        self.settings.code_cache = Some(Place::Disabled);
        self
    }

    /// Sets the pace of the requests to the relayer.
    #[must_use]
    pub fn with_polling(mut self, polling: Polling) -> Self {
        self.settings.polling = polling;
        self
    }

    /// Ends the server when this future completes; requests in flight are completed.
    #[must_use]
    pub fn with_shutdown(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { shutdown: Some(Box::pin(shutdown)), ..self }
    }

    /// Serves the API at an address, with the state of the relayer at the other end of the
    /// channel, until the task ends or is dropped. The server has threads of its own: the
    /// current runtime only waits for its end.
    ///
    /// # Errors
    /// Returns an error if the address is in use, or if a setting is invalid.
    ///
    /// # Panics
    /// Panics outside of a runtime of tokio.
    pub fn spawn(
        self,
        addr: impl ToSocketAddrs,
        sender: Sender<Request>,
    ) -> Result<JoinHandle<()>, SpawnError> {
        let listener = listen(addr)?;
        let Self { settings, shutdown } = self;
        let channel = Channel::new(sender);
        let (started, start) = mpsc::channel();
        // Both are dropped with the task or the thread.
        let (handle, is_dropped) = oneshot::channel::<()>();
        let (running, has_ended) = oneshot::channel::<()>();
        let serve = async move {
            match Service::start(settings, listener, channel).await {
                Ok(service) => {
                    started.send(Ok(())).ok();
                    let shutdown = async move {
                        let requested = async {
                            match shutdown {
                                Some(shutdown) => shutdown.await,
                                None => std::future::pending().await,
                            }
                        };
                        tokio::select! {
                            () = requested => {}
                            _ = is_dropped => {}
                        }
                    };
                    service.serve(shutdown).await;
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("relayer-rest")
            .enable_all()
            .build()
            .map_err(SpawnError::Start)?;
        let thread = thread::Builder::new().name("relayer-rest".to_owned()).spawn(move || {
            let _running = running;
            runtime.block_on(serve);
            // A request to the relayer may wait for ever.
            runtime.shutdown_background();
        });
        thread.map_err(SpawnError::Start)?;
        let ended =
            || SpawnError::Start(io::Error::other("its thread has ended; the log has the cause"));
        start.recv().map_err(|_| ended())??;
        Ok(tokio::spawn(async move {
            let _handle = handle;
            has_ended.await.ok();
        }))
    }
}

fn listen(addr: impl ToSocketAddrs) -> Result<TcpListener, SpawnError> {
    let addresses: Vec<_> = addr.to_socket_addrs().map_err(SpawnError::Address)?.collect();
    let none = || SpawnError::Address(io::Error::other("there is no address"));
    let address = *addresses.first().ok_or_else(none)?;
    let listen_error = |source| SpawnError::Listen { address, source };
    let listener = TcpListener::bind(&*addresses).map_err(listen_error)?;
    listener.set_nonblocking(true).map_err(listen_error)?;
    Ok(listener)
}
