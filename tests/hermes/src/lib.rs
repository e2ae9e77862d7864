//! Scripted chains, and processes of the real Hermes and of the host, for tests.
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | the state of a scripted chain: its client, connection, channels and events |
//! | `node.rs` | the server of a chain, for JSON-RPC and gRPC |
//! | `json_rpc.rs` | the responses to JSON-RPC requests |
//! | `grpc.rs` | the responses to gRPC requests |
//! | `hermes.rs` | a process of Hermes that relays between two scripted chains |
//! | `host.rs` | a process of `relayer-rest` in front of Hermes |
//! | `settings.rs` | the settings of the host, in front of Hermes and inside it |
//! | `proxy.rs` | a server between the two that records the requests |
//! | `process.rs` | a child process with a log |
//! | `api.rs` | the comparison of an API with the one of Hermes |
//! | `load.rs` | clients that send requests as fast as they can |
//! | `http.rs` | a client of the API |
//! | `wait.rs` | waiting for conditions |

pub mod api;
pub mod chain;
mod grpc;
pub mod hermes;
pub mod host;
pub mod http;
mod json_rpc;
pub mod load;
pub mod node;
mod process;
pub mod proxy;
pub mod settings;
pub mod wait;
