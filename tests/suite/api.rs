//! The responses of the REST API.

mod commands;
mod endpoints;
mod golden;
mod mounts;
mod state;
