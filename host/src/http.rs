//! HTTP: the only part that knows hyper.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | accepts connections, and ends when it is told to |
//! | `limits.rs` | what clients may have of the sockets |
//! | `connection_manager.rs` | accepts connections up to their number |
//! | `roster.rs` | the connections that are open, and which of them make room |
//! | `connection.rs` | one connection |
//! | `connection_tally.rs` | how many there are, and were |
//! | `connection_activity.rs` | what each connection is doing, and when it is to end |
//! | `tracked_stream.rs` | the stream, which tells when the client takes what it is sent |
//! | `cancelled.rs` | what a connection's client has cancelled, and when that is too much |
//! | `headless.rs` | answers to what has no head, in place of the library's own |
//! | `outgoing.rs` | the body of an answer, on its way |
//! | `send_budget.rs` | the bytes of responses that clients have not taken yet |
//! | `send_admission.rs` | admits responses within that budget |
//! | `request_check.rs` | what is looked at before a request is anybody's |
//! | `host.rs` | whether its host is valid, and one that is served |
//! | `service.rs` | one request, from its head to its answer |
//! | `reply.rs` | an answer, as this client wants it |
//! | `conditional.rs` | preconditions: whether the client has got it already, or means another |
//! | `accept_encoding.rs` | which encoding the client would like |
//! | `request_id.rs` | the id under which the log has a request |
//! | `control_server.rs` | answers what is asked over the control socket |
//! | `control_client.rs` | asks a running server over it |
//! | `report.rs` | what clients are not told, in the log |
//! | `error.rs` | the answers that the host makes itself |

mod accept_encoding;
mod cancelled;
mod conditional;
mod connection;
mod connection_activity;
mod connection_manager;
mod connection_tally;
mod control_client;
mod control_server;
mod error;
mod headless;
mod host;
mod limits;
mod outgoing;
mod reply;
mod report;
mod request_check;
mod request_id;
mod roster;
mod send_admission;
mod send_budget;
mod server;
mod service;
mod tracked_stream;

pub use connection_tally::ConnectionTally;
pub use control_client::{ControlClient, ControlClientError};
pub use control_server::ControlServer;
pub use host::{AllowedHost, AllowedHostError};
pub use limits::HttpLimits;
pub use server::Server;
