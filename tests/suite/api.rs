//! The responses of the REST API.

mod endpoints;
mod golden;
mod mounts;
mod state;
