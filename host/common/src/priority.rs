//! Processor priorities: requests come first; slow runs, and work that no client waits
//! for, have a lower priority. A process inherits the priority of the thread that starts
//! it.

use rustix::process::{getpriority_process, setpriority_process};

/// The lower priority, as a nice value: a tenth of the processors when all of them are
/// busy, which is enough to swap a module in 2 s. The lowest priority, 19, was tried: a
/// swap took 13 s, and requests gained nothing.
const LOWER_PRIORITY: i32 = 10;

/// Lowers the priority of this thread below that of the threads that serve requests.
pub fn lower_thread() {
    // A thread with a lower priority keeps it. If the system does not allow the change,
    // the thread continues without it.
    if getpriority_process(None).is_ok_and(|priority| priority < LOWER_PRIORITY) {
        setpriority_process(None, LOWER_PRIORITY).ok();
    }
}
