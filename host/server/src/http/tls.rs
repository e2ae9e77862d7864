//! TLS: the certificates of a listener, which are read again when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use relayer_rest_common::files;
use relayer_rest_sources::{Watch, WatchError, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::aws_lc_rs::{self, Ticketer};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{
    ClientHello, NoClientAuth, ParsedCertificate, ResolvesServerCert, VerifierBuilderError,
    WebPkiClientVerifier,
};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, RootCertStore};
use tracing::{error, info};

use super::connections::{Detected, Socket, Stream};
use super::error::HostError;
use super::listen_config::{CertificateConfig, ListenConfig};

pub(super) use tokio_rustls::rustls::ServerConfig as TlsConfig;

/// The protocols that are negotiated, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS of a listener, whose files are watched until this is dropped.
#[derive(Debug)]
pub(super) struct Tls {
    state: Arc<TlsState>,
    _watches: Vec<Watch>,
}

/// The configuration of TLS, and its files.
#[derive(Debug)]
pub(super) struct TlsState {
    files: TlsFiles,
    current: ArcSwap<TlsConfig>,
    /// The content of the files, of which the current configuration is made.
    read: ArcSwap<Vec<Vec<u8>>>,
}

#[derive(Debug)]
struct TlsFiles {
    certificates: Vec<CertificateConfig>,
    client_ca: Option<PathBuf>,
}

/// A problem with the files of TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file is not in PEM, or lacks its content.
    #[error("{}: no valid {wanted} in PEM: {source}", file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// The content that the file should have.
        wanted: &'static str,
        /// The reason.
        source: PemError,
    },
    /// A certificate and a key cannot be used together.
    #[error("{}: {source}; give the key of this certificate", certificate.display())]
    Certificate {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// The certificates of authorities cannot be used.
    #[error("{}: {source}", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: VerifierBuilderError,
    },
    /// A file cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The system has no random numbers.
    #[error("TLS cannot be used: {0}")]
    System(rustls::Error),
}

impl Tls {
    /// Reads the files of a listener, if it has TLS, now and when they change.
    pub(super) fn load(config: &ListenConfig) -> Result<Option<Self>, TlsError> {
        if config.tls.is_empty() {
            return Ok(None);
        }
        let files =
            TlsFiles { certificates: config.tls.clone(), client_ca: config.client_ca.clone() };
        let read = files.read()?;
        let current = ArcSwap::from_pointee(files.config(&read)?);
        let state = Arc::new(TlsState { files, current, read: ArcSwap::from_pointee(read) });
        let changed = |state: Weak<TlsState>| {
            move || {
                let Some(state) = state.upgrade() else { return };
                if let Err(problem) = state.reload() {
                    error!(%problem, "certificates not reloaded; the former ones stay in use");
                }
            }
        };
        let watch = |file| Ok(watch(file, changed(Arc::downgrade(&state)))?);
        let watches = state.files.paths().map(watch).collect::<Result<_, TlsError>>()?;
        Ok(Some(Self { state, _watches: watches }))
    }

    /// Returns the configuration for a new connection.
    pub(super) fn current(&self) -> Arc<TlsConfig> {
        self.state.current.load_full()
    }

    pub(super) fn state(&self) -> Arc<TlsState> {
        Arc::clone(&self.state)
    }
}

impl TlsState {
    /// Reads the files again. If one is invalid, the configuration stays.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        let read = self.files.read()?;
        if **self.read.load() == read {
            return Ok(());
        }
        self.current.store(Arc::new(self.files.config(&read)?));
        self.read.store(Arc::new(read));
        let certificate = self.files.certificates.first();
        let file = certificate.map(|config| config.certificate.display().to_string());
        info!(file, "certificates reloaded");
        Ok(())
    }
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let pairs = self.certificates.iter();
        let pairs = pairs.flat_map(|config| [&*config.certificate, &*config.key]);
        pairs.chain(self.client_ca.as_deref())
    }

    /// Returns the content of each file.
    fn read(&self) -> Result<Vec<Vec<u8>>, TlsError> {
        let read = |file: &Path| {
            files::read(file, files::MAX_TEXT)
                .map_err(|source| TlsError::Unreadable { file: file.to_owned(), source })
        };
        self.paths().map(read).collect()
    }

    /// Returns the configuration with the content of the files.
    fn config(&self, read: &[Vec<u8>]) -> Result<TlsConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut keys = Vec::new();
        for (config, content) in self.certificates.iter().zip(read.chunks(2)) {
            let CertificateConfig { certificate, key } = config;
            let chain = certificates(certificate, &content[0])?;
            let key = PrivateKeyDer::from_pem_slice(&content[1]).map_err(|source| {
                TlsError::Pem { file: key.clone(), wanted: "private key", source }
            })?;
            let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|source| {
                TlsError::Certificate { certificate: certificate.clone(), source }
            })?;
            keys.push(Arc::new(certified));
        }
        let verifier = match (&self.client_ca, read.last()) {
            (Some(file), Some(content)) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(file, content)?);
                let builder = WebPkiClientVerifier::builder_with_provider(
                    roots.into(),
                    Arc::clone(&provider),
                );
                builder
                    .build()
                    .map_err(|source| TlsError::Authorities { file: file.clone(), source })?
            }
            _ => Arc::new(NoClientAuth),
        };
        let mut config = TlsConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::System)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Certificates(keys)));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config.ticketer = Ticketer::new().map_err(TlsError::System)?;
        Ok(config)
    }
}

/// Encrypts a connection. Returns its protocol, too.
pub(super) async fn accept(
    socket: Socket,
    config: Arc<TlsConfig>,
) -> io::Result<(Stream, Detected)> {
    let mut first = [0];
    socket.peek(&mut first).await?;
    // A handshake begins with the byte 22.
    if first[0].is_ascii_uppercase() {
        socket.try_write(&HostError::TlsRequired.raw_response()).ok();
        socket.drain().await;
        return Err(io::Error::other("a request without TLS"));
    }
    let stream = TlsAcceptor::from(config).accept(socket).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(PROTOCOLS[0]);
    let protocol = if is_http2 { Detected::Http2 } else { Detected::Http1 };
    Ok((Stream::Tls(Box::new(stream)), protocol))
}

/// Returns the certificates of a file, of which there must be one.
fn certificates(file: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.and_then(|certificates| {
        if certificates.is_empty() { Err(PemError::NoItemsFound) } else { Ok(certificates) }
    });
    let wanted = "certificate";
    certificates.map_err(|source| TlsError::Pem { file: file.to_owned(), wanted, source })
}

/// The certificates by the names in them, the first one for all others.
#[derive(Debug)]
struct Certificates(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let is_for = |key: &&Arc<CertifiedKey>| {
            let certificate =
                key.cert.first().and_then(|first| ParsedCertificate::try_from(first).ok());
            let (Some(certificate), Some(name)) = (certificate, &name) else { return false };
            verify_server_name(&certificate, name).is_ok()
        };
        self.0.iter().find(is_for).or(self.0.first()).cloned()
    }
}
