//! HTTP: the only part that knows hyper.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | accepts connections, and ends when it is told to |
//! | `connection.rs` | one connection |
//! | `service.rs` | one request, from its head to its answer |
//! | `request_id.rs` | the id under which the log has a request |
//! | `error.rs` | the answers that the host makes itself |

mod connection;
mod error;
mod request_id;
mod server;
mod service;

pub use server::Server;
