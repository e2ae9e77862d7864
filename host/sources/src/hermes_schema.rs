//! A chain in the relayer's own format. Configuration files and responses have the same
//! keys.
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | the schema, key by key |
//! | `value.rs` | values that can be written in more than one way |
//! | `config.rs` | converts a chain, with the relayer's defaults or without |

mod chain;
mod config;
mod value;

pub(super) use chain::Chain;
