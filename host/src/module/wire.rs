//! The contract's types, as they cross to a module.
//!
//! Each has the fields of the type of its name in `wit/`, in their order: the
//! linker checks that when a module is loaded. The state's own types are not
//! used here so that they need not know how they cross; what is made from
//! them is made once for each content and shared by all requests.
#![allow(unsafe_code, reason = "the derives implement unsafe traits")]

mod chain;
mod message;
mod state;

use std::time::{SystemTime, UNIX_EPOCH};

pub(super) use chain::ChainConfig;
pub(super) use message::{Header, Level, Request, Response};
pub(super) use state::{
    Component, Known, RelayerState, chain_ids, components, known, relayer_state,
};

/// A moment in nanoseconds; those before 1970 and after 2554 are the first and the
/// last that there are.
pub(super) fn timestamp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
