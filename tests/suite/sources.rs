//! Files and running relayers as sources of state.

mod dialect;
mod files;
mod hermes_config;
mod polling;
mod status;
mod telemetry;
mod upstream;
