//! The JSON of each resource, in the relayer's format.

mod chain;
mod chain_1_13;
mod duration;
mod schema;
mod state;

pub(crate) use chain::ChainJson;
pub(crate) use chain_1_13::Chain113Json;
pub(crate) use schema::{StateSchema, Worker113Schema, WorkerSchema};
pub(crate) use state::write_state;
