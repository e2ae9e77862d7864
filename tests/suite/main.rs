//! The integration tests.
//!
//! | folder | topic |
//! |---|---|
//! | `api/` | the responses of the REST API |
//! | `cache/` | the response cache |
//! | `cli/` | the command, as a process |
//! | `docs/` | the documentation, executed |
//! | `http/` | connections, messages, and hostile clients |
//! | `sandbox/` | validation, confinement and limits of modules |
//! | `sources/` | files and running relayers as sources of state |
//! | `swap/` | swaps, rollbacks and the circuit breaker |
//!
//! Each file is about one question.

mod api;
mod cache;
mod cli;
mod docs;
mod fuzz;
mod http;
mod sandbox;
mod sources;
mod swap;
