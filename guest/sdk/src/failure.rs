//! Reports panics to the host, which otherwise only sees that the module trapped.

use std::panic::{self, PanicHookInfo};

use crate::bindings::relayer::rest::failure;

/// Lets the host know the message and the location of a panic.
pub fn report_panics() {
    panic::set_hook(Box::new(|info| failure::report(&describe(info))));
}

/// Returns the message of a panic in one line, such as `panicked at src/lib.rs:9:5: no
/// chain`.
fn describe(info: &PanicHookInfo<'_>) -> String {
    // The standard library puts the message into a line of its own.
    info.to_string().replacen(":\n", ": ", 1)
}
