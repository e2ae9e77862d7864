//! What the tests of the whole share.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | a server in this process, on a free port |
//! | `client.rs` | one connection to it, HTTP/1.1 or HTTP/2, or raw bytes |
//! | `http2.rs` | frames of HTTP/2 as no library would send them |
//! | `cargo.rs` | builds of modules |
//! | `command.rs` | the command, as a process |
//! | `relayer.rs` | a scripted relayer, that answers well or goes wrong as told |
//! | `heap.rs` | an allocator that counts |
//! | `measure.rs` | what benchmarks measure with |
//! | `component.rs` | components that do what no good module does |
//! | `component/` | … and components that are hostile, or keep secrets |
//! | `watcher.rs` | a client that is to notice nothing of what others do |
//! | `load.rs` | as many requests as the server answers |
//! | `fuzz.rs` | what is done with bytes of whatever kind |
//! | `bin/soak.rs` | everything at once, for as long as one likes |
//!
//! Nothing here uses a fixed port, or waits for a time to pass but the scripted
//! relayer, which is slow where a test wants it. What goes wrong in a test's own
//! set-up panics where it happens.
#![expect(clippy::missing_panics_doc, reason = "a harness fails by panicking")]

pub mod cargo;
pub mod client;
pub mod command;
pub mod component;
pub mod fuzz;
pub mod heap;
pub mod http2;
pub mod load;
pub mod measure;
pub mod relayer;
pub mod server;
pub mod watcher;
