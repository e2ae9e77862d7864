//! One file an endpoint.

mod chain;
mod chains;
mod state;
mod version;

pub(crate) use chain::chain;
pub(crate) use chains::chains;
pub(crate) use state::state;
pub(crate) use version::version;
