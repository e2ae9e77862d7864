//! What the tests of the whole share.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | a server in this process, on a free port |
//! | `client.rs` | one connection to it, HTTP/1.1 or HTTP/2, or raw bytes |
//! | `command.rs` | the command, as a process |
//! | `component.rs` | components that do what no good module does |
//!
//! Nothing here sleeps or uses a fixed port. What goes wrong in a test's own
//! set-up panics where it happens.
#![expect(clippy::missing_panics_doc, reason = "a harness fails by panicking")]

pub mod client;
pub mod command;
pub mod component;
pub mod server;
