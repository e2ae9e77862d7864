//! The command, as a process.

mod check;
mod control;
mod control_socket;
mod extensions;
mod log;
mod reload;
mod resources;
mod serve;
mod shutdown;
mod watch;
