//! A chain as the relayer writes it: in its configuration file, and in its
//! answers, which have the same keys.
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | the shape, key by key |
//! | `value.rs` | values that can be written in more than one way |
//! | `config.rs` | from there to a configuration, with the relayer's defaults or without |

mod chain;
mod config;
mod value;

pub(super) use chain::Chain;
