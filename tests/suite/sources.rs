//! Files and running relayers as sources of state.

mod files;
mod hermes_config;
mod polling;
mod upstream;
