//! The responses of the REST API.

mod endpoints;
mod mounts;
mod state;
