//! The client of a running server's control socket.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use relayer_rest_common::files;
use relayer_rest_sandbox::MAX_COMPONENT_SIZE;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;
use url::form_urlencoded;

use super::{
    CancelledShadow, ControlFault, ExplainRequest, RolledBack, Status, default_folder, takeover,
};
use crate::registry::{Candidate, Explanation, Source, SwapReport};
use crate::reload::Reloaded;

/// The time in which a server must respond to a request that it handles immediately.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of an error response to a takeover, in bytes.
const MAX_FAULT: usize = 64 << 10;

/// A client of a server's control socket.
#[derive(Debug, Clone)]
pub struct ControlClient {
    path: PathBuf,
}

/// A control request that failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlClientError {
    /// Connecting to the socket failed.
    #[error(
        "control socket {}: {source}; {}",
        path.display(),
        hint(source)
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another user listens on the socket.
    #[error("control socket {}: the server belongs to another user and is not trusted; name the socket with --control PATH to use it", path.display())]
    Stranger {
        /// The socket.
        path: PathBuf,
    },
    /// The component is larger than the server accepts.
    #[error("{0}")]
    TooLarge(String),
    /// The server rejected the request.
    #[error("{0}")]
    Refused(String),
    /// The connection failed.
    #[error("control socket {}: no response: {message}; check the log of the server", path.display())]
    Connection {
        /// The socket.
        path: PathBuf,
        /// The cause.
        message: String,
    },
    /// The component cannot be read.
    #[error("module {}: cannot be read: {source}; {}", file.display(), files::remedy(file, source))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "start a server with `relayer-rest serve --control PATH`, or name a running one's socket"
        }
        io::ErrorKind::PermissionDenied => "only the user who runs relayer-rest may control it",
        _ => "check the path given by --control",
    }
}

impl ControlClient {
    /// Creates a client of the server that listens on this socket.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns the server's status.
    pub async fn status(&self) -> Result<Status, ControlClientError> {
        self.with_timeout(self.send(Method::GET, "/status", &[], Bytes::new())).await
    }

    /// Returns the server's [metrics](super::metrics), in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ControlClientError> {
        let exchange = self.exchange(Method::GET, "/metrics", &[], Bytes::new());
        let body = self.with_timeout(exchange).await?;
        String::from_utf8(body.into()).map_err(|error| self.unexpected(error))
    }

    /// Explains the response to a request.
    pub async fn explain(
        &self,
        request: &ExplainRequest,
    ) -> Result<Explanation, ControlClientError> {
        // Writing texts to memory does not fail.
        let body = serde_json::to_vec(request).unwrap_or_default();
        self.send(Method::POST, "/explain", &[], body.into()).await
    }

    /// Returns the capsule of the recent request with this id, as JSON.
    pub async fn capsule(&self, id: &str) -> Result<Bytes, ControlClientError> {
        self.exchange(Method::GET, "/capsule", &[("id", Some(id))], Bytes::new()).await
    }

    /// Swaps the module of a mount. A rejection is a report, not an error.
    pub async fn swap(
        &self,
        mount: &str,
        candidate: Candidate,
    ) -> Result<SwapReport, ControlClientError> {
        let name = candidate.source.name();
        let mut module = None;
        let mut signer = None;
        // The server pulls a module of a registry itself.
        if let Source::Registry(of_registry) = &candidate.source {
            module = Some(of_registry.reference.to_string());
            signer = of_registry.access.signer.as_deref();
        }
        let bytes = if module.is_some() {
            Ok(Bytes::new())
        } else {
            candidate.source.bytes(MAX_COMPONENT_SIZE)
        };
        let bytes = bytes.map_err(|source| ControlClientError::Unreadable {
            file: PathBuf::from(&name),
            source,
        })?;
        let sha256 = candidate.sha256.map(|digest| digest.to_string());
        let dialect = candidate.dialect.map(|dialect| dialect.to_string());
        let shadow = candidate.shadow.as_ref();
        let time = shadow.map(|shadow| shadow.time.to_string());
        let expected = shadow.map(|shadow| shadow.expected.as_str());
        let min_requests = shadow.map(|shadow| shadow.min_requests.to_string());
        let max_slowdown = shadow.and_then(|shadow| shadow.max_slowdown);
        let max_slowdown = max_slowdown.map(|max| max.to_string());
        let abort = shadow.filter(|shadow| shadow.abort).map(|_| "true");
        let parameters = [
            ("mount", Some(mount)),
            ("name", Some(&name)),
            ("module", module.as_deref()),
            ("signer", signer),
            ("sha256", sha256.as_deref()),
            ("dialect", dialect.as_deref()),
            ("dry-run", candidate.dry_run.then_some("true")),
            ("force", candidate.force.then_some("true")),
            ("shadow", time.as_deref()),
            ("expect", expected),
            ("min-requests", min_requests.as_deref()),
            ("max-slowdown", max_slowdown.as_deref()),
            ("abort", abort),
        ];
        self.send(Method::POST, "/swap", &parameters, bytes).await.map_err(|error| match error {
            ControlClientError::TooLarge(message) => {
                ControlClientError::TooLarge(format!("module {name}: {message}"))
            }
            error => error,
        })
    }

    /// Ends the shadow in progress of a mount, whose candidate is rejected.
    pub async fn cancel_shadow(&self, mount: &str) -> Result<CancelledShadow, ControlClientError> {
        let parameters = [("mount", Some(mount))];
        self.with_timeout(self.send(Method::DELETE, "/swap", &parameters, Bytes::new())).await
    }

    /// Rolls a mount back to its previous module.
    pub async fn rollback(&self, mount: &str) -> Result<RolledBack, ControlClientError> {
        let parameters = [("mount", Some(mount))];
        self.with_timeout(self.send(Method::POST, "/rollback", &parameters, Bytes::new())).await
    }

    /// Reloads the server's settings.
    pub async fn reload(&self) -> Result<Reloaded, ControlClientError> {
        self.send(Method::POST, "/reload", &[], Bytes::new()).await
    }

    /// Begins a takeover. Returns the connection, and the bytes that were received early.
    pub(super) async fn take_over(&self) -> Result<(UnixStream, Bytes), ControlClientError> {
        let request = Request::post("/takeover")
            .header(HOST, "control")
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, takeover::UPGRADE)
            .body(Full::<Bytes>::default())
            .expect("its parts are valid");
        let stream = self.connect().await?;
        let failed = |error: hyper::Error| self.connection_error(error.to_string());
        let exchange = async {
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
            tokio::spawn(connection.with_upgrades());
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            if status != StatusCode::SWITCHING_PROTOCOLS {
                let body = Limited::new(response.into_body(), MAX_FAULT).collect().await;
                let body = body.map_err(|error| self.unexpected(error))?.to_bytes();
                let fault = serde_json::from_slice::<ControlFault>(&body);
                return Err(match fault {
                    Ok(ControlFault { error }) => ControlClientError::Refused(error),
                    Err(error) => self.unexpected(error),
                });
            }
            let upgraded = hyper::upgrade::on(response).await.map_err(failed)?;
            let parts = upgraded.downcast::<TokioIo<UnixStream>>();
            let parts = parts.map_err(|_| self.unexpected("the connection is another one"))?;
            Ok((parts.io.into_inner(), parts.read_buf))
        };
        self.with_timeout(exchange).await
    }

    /// Sends a request that the server handles immediately, with a timeout of
    /// [`TIMEOUT`].
    async fn with_timeout<T>(
        &self,
        exchange: impl Future<Output = Result<T, ControlClientError>>,
    ) -> Result<T, ControlClientError> {
        timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(self.connection_error(format!("timeout after {TIMEOUT:?}"))))
    }

    /// Sends a request, and parses the response as JSON.
    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, Option<&str>)],
        body: Bytes,
    ) -> Result<T, ControlClientError> {
        let body = self.exchange(method, path, parameters, body).await?;
        serde_json::from_slice(&body).map_err(|error| self.unexpected(error))
    }

    /// Sends a request, and returns the body of the response.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, Option<&str>)],
        body: Bytes,
    ) -> Result<Bytes, ControlClientError> {
        let stream = self.connect().await?;
        let target = Uri::try_from(target(path, parameters)).map_err(|_| {
            let message = "request: the mount and the file name are too long; use shorter ones";
            ControlClientError::Refused(message.to_owned())
        })?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let request = Request::builder()
                .method(method)
                .uri(target)
                .header(HOST, "control")
                .body(Full::new(body))
                .expect("its parts are valid");
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let (status, body) =
            exchange.await.map_err(|error| self.connection_error(error.to_string()))?;
        if status != StatusCode::OK
            && let Ok(ControlFault { error }) = serde_json::from_slice(&body)
        {
            return Err(match status {
                StatusCode::PAYLOAD_TOO_LARGE => ControlClientError::TooLarge(error),
                _ => ControlClientError::Refused(error),
            });
        }
        Ok(body)
    }

    async fn connect(&self) -> Result<UnixStream, ControlClientError> {
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|source| ControlClientError::Connect { path: self.path.clone(), source })?;
        // A socket outside of the default folder was chosen by the user. The default
        // folder may be in one that other users can write to, such as `/tmp`, and theirs
        // if they create it first.
        let server = stream.peer_cred().map(|peer| peer.uid());
        let is_trusted = |uid| uid == 0 || uid == rustix::process::geteuid().as_raw();
        if self.path.starts_with(default_folder()) && !server.is_ok_and(is_trusted) {
            return Err(ControlClientError::Stranger { path: self.path.clone() });
        }
        Ok(stream)
    }

    /// Returns the error for a response that this version cannot read.
    fn unexpected(&self, error: impl Display) -> ControlClientError {
        self.connection_error(format!("the response is not of this version: {error}"))
    }

    fn connection_error(&self, message: String) -> ControlClientError {
        ControlClientError::Connection { path: self.path.clone(), message }
    }
}

fn target(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
