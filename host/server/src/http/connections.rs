//! The connections of clients: their limits, their activity, and their end.
//!
//! | file | job |
//! |---|---|
//! | `manager.rs` | accepts connections up to their limits |
//! | `connection.rs` | one connection, and its requests |
//! | `admitted.rs` | a request that was not refused because of its client |
//! | `protocol.rs` | the protocol of a connection, and its settings |
//! | `socket.rs` | the socket of a connection: TCP or Unix |
//! | `forward.rs` | reads and writes of an enumeration of streams |
//! | `stream.rs` | the stream of a connection: plain, or encrypted by TLS |
//! | `tracked_stream.rs` | a stream that reports progress of its client |
//! | `activity.rs` | the activity of each connection, and when it must end |
//! | `clock.rs` | the clock of all activities |
//! | `pending_responses.rs`, `sending.rs` | the responses that a client has not taken yet |
//! | `pending_bodies.rs`, `awaited_body.rs` | the request bodies that a client has not sent yet |
//! | `http2_request.rs` | the memory of a request of HTTP/2 |
//! | `closing.rs` | the signal to a connection to end |
//! | `open_connections.rs` | the counts of open connections, by thread and by peer |
//! | `roster.rs` | the open connections, and eviction |
//! | `tally.rs` | counters of connections |

mod activity;
mod admitted;
mod awaited_body;
mod clock;
mod closing;
mod connection;
mod forward;
mod http2_request;
mod manager;
mod open_connections;
mod pending_bodies;
mod pending_responses;
mod protocol;
mod roster;
mod sending;
mod socket;
mod stream;
mod tally;
mod tracked_stream;

pub(super) use activity::{ConnectionActivity, WaitingClient};
pub(super) use admitted::Admitted;
pub(super) use awaited_body::AwaitedBody;
pub(super) use connection::{Accepted, Connections};
pub(super) use http2_request::{Http2Request, RequestMemory};
pub(super) use manager::ConnectionManager;
pub(super) use protocol::{Detected, Protocols};
#[cfg(test)]
pub(super) use roster::Entry;
pub(super) use roster::{Peer, Roster};
pub(super) use sending::Sending;
pub(super) use socket::Socket;
pub(super) use stream::Stream;
pub use tally::{ConnectionStatus, ConnectionTally};
