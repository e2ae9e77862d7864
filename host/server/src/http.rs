//! The API over HTTP: connections, requests and responses.
//!
//! Hyper itself responds to bytes that are not a request (400), and to a target or a head
//! that exceed its buffers (414, 431), with a bare status and without a request id.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | the server, and graceful shutdown |
//! | `listen_config.rs` | the setting `listen` |
//! | `listener.rs`, `listen_socket.rs` | the listeners of clients, and the sockets of each: TCP and Unix |
//! | `acceptors.rs` | the tasks that accept connections |
//! | `arrivals.rs`, `proxy_header.rs` | connections that wait for their header of the PROXY protocol, and the header |
//! | `tls.rs`, `no_tls.rs` | the certificates of a listener; and without the feature `tls` |
//! | `live.rs` | clients that wait for the next version of a response |
//! | `worker_threads.rs` | the threads that serve connections |
//! | `forwarded.rs` | the clients of trusted proxies |
//! | `limits.rs` | limits of connections and requests |
//! | `connections.rs` | the connections of clients: their limits, their activity, and their end |
//! | `cancelled.rs` | a limit of cancelled requests per connection |
//! | `outgoing.rs` | the body of a response, counted until it is sent |
//! | `held.rs` | a response that a connection holds, with its memory |
//! | `send_budget.rs` | the budget of response bytes that clients have not taken yet |
//! | `send_admission.rs` | admission of responses within that budget |
//! | `received_body.rs` | the bodies of requests, kept within a budget |
//! | `request_check.rs` | checks of requests before routing |
//! | `host.rs` | checks of the `Host` header |
//! | `exchange.rs` | a request with its response, as observers get it |
//! | `base_path.rs` | the path below which a proxy serves everything |
//! | `service.rs` | one request, from its head to its response |
//! | `reply.rs` | the HTTP response for one client |
//! | `cors.rs` | requests of web pages from other origins |
//! | `conditional.rs` | preconditions (304 and 412) |
//! | `accept_encoding.rs` | content negotiation of the encoding |
//! | `quality.rs` | the quality of a member of a list |
//! | `request_id.rs` | request ids |
//! | `fleet_generation.rs` | the headers with generations of a fleet |
//! | `source_header.rs` | the header with the sources of the state |
//! | `report.rs` | log messages for failed requests |
//! | `error.rs` | error responses of the host |

mod accept_encoding;
mod acceptors;
mod arrivals;
mod base_path;
mod cancelled;
mod conditional;
mod connections;
mod cors;
mod error;
mod exchange;
mod field_values;
mod fleet_generation;
mod forwarded;
mod held;
mod host;
mod limits;
mod listen_config;
mod listen_socket;
mod listener;
mod live;
mod outgoing;
mod proxy_header;
mod quality;
mod received_body;
mod reply;
mod report;
mod request_check;
mod request_id;
mod send_admission;
mod send_budget;
mod server;
mod service;
mod source_header;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "http/no_tls.rs"]
mod tls;
mod worker_threads;

pub use base_path::BasePath;
pub use connections::{ConnectionStatus, ConnectionTally};
pub use cors::{AllowedOrigin, CorsConfig};
pub use exchange::{Exchange, ExchangeResponse, Handling, RequestObservation, RequestObserver};
#[cfg(feature = "control")]
pub(crate) use host::is_for;
pub use host::{AllowedHost, AllowedHostError};
pub use limits::{HttpLimits, ServerSettings};
pub use listen_config::{
    CertificateConfig, FileMode, ListenAddress, ListenConfig, Listeners, Owner, OwnerError,
};
#[cfg(feature = "control")]
pub(crate) use listen_socket::ListenSocket;
pub use listener::{ListenError, Listener};
pub use live::{LiveLimits, LiveStatus, LiveTally};
pub use server::Server;
pub use tls::TlsError;
