//! The contract's types, in the form that crosses to a module.
//!
//! Each has the fields of the type of the same name in `wit/`, in the same order: the
//! linker checks that when a module is loaded. The types of the state are separate, so
//! they are independent of this form; their values are converted once for each content
//! and shared by all requests. Capsules have the values in this form, too: a module that
//! is replayed gets the recorded bytes, and the SDK's types have the same names.
//!
//! | file | job |
//! |---|---|
//! | `chain.rs` | the configuration of a chain |
//! | `json.rs` | shared texts and numbers in JSON |
//! | `message.rs` | requests, responses and log levels |
//! | `source.rs` | the sources of the state |
//! | `telemetry.rs` | families of metrics |
//! | `state.rs` | components, the relayer's state and its readiness |
#![allow(unsafe_code, reason = "the derives implement unsafe traits")]

mod chain;
mod json;
mod message;
mod source;
mod state;
mod telemetry;

use std::time::{SystemTime, UNIX_EPOCH};

pub(super) use chain::ChainConfig;
use json::{number, shared, shared_list};
pub(super) use message::{Header, Level, Request, Response};
pub(super) use source::{Source, sources};
pub(super) use state::{
    Component, Known, NotReady, RelayerState, chain_ids, components, known, relayer_state,
};
pub(super) use telemetry::MetricFamily;

/// Returns a time in nanoseconds since 1970. Times before 1970 become 0, and times after
/// 2554 the maximum.
pub(super) fn timestamp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
