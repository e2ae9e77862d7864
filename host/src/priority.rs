//! Who leaves the processors to whom: requests come first; what takes long, or no
//! client waits for, comes after them. A process that a thread starts has its
//! priority.

use rustix::process::{getpriority_process, setpriority_process};

/// The priority of what comes after: a tenth of the processors where all of them
/// are busy, enough for a module to be swapped in 2 s then. The least there is, 19,
/// was tried: that took 13 s, and requests gained nothing by it.
const ASIDE: i32 = 10;

/// Lets this thread come after those that have the sockets.
pub(crate) fn lower_thread() {
    // Whoever has less keeps that; and where the system does not allow it, it is
    // done all the same.
    if getpriority_process(None).is_ok_and(|priority| priority < ASIDE) {
        setpriority_process(None, ASIDE).ok();
    }
}
