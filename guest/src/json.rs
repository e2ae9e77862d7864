//! The JSON of each resource, as version 0.7 of the relayer writes it.

mod chain;
mod duration;
mod state;

pub(crate) use chain::ChainJson;
pub(crate) use state::write_state;
