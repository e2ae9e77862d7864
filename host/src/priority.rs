//! Who leaves the processors to whom: requests come first; what takes long, or no
//! client waits for, comes after them.

use rustix::process::{Pid, getpriority_process, setpriority_process};

/// The priority of what comes after: a tenth of the processors where all of them
/// are busy, enough for a module to be swapped in 2 s then. The least there is, 19,
/// was tried: that took 13 s, and requests gained nothing by it.
const ASIDE: i32 = 10;

/// Lets this thread come after those that have the sockets.
pub(crate) fn lower_thread() {
    lower(None);
}

/// The same for a process that was just started, and has no second thread yet.
pub(crate) fn lower_process(number: Option<u32>) {
    if let Some(number) = number.and_then(|number| Pid::from_raw(number.try_into().ok()?)) {
        lower(Some(number));
    }
}

/// Where the system does not allow it, it is done all the same.
fn lower(who: Option<Pid>) {
    // Whoever has less keeps that.
    if getpriority_process(who).is_ok_and(|priority| priority < ASIDE) {
        setpriority_process(who, ASIDE).ok();
    }
}
