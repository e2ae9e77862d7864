//! Checks whether threads can be created.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Checks that the system allows this many more threads.
///
/// A runtime with worker threads panics if one of them cannot be created, and then waits
/// for the others forever. So runtimes are built only after this check.
pub fn ensure(count: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // All threads exist at the same time; they end when the gate is opened.
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).try_for_each(|_| {
            let wait = || drop(gate.lock());
            thread::Builder::new().name("probe".to_owned()).spawn_scoped(scope, wait).map(drop)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::ensure;

    #[test]
    fn creatable_threads_pass_the_check() {
        ensure(0).unwrap();
        ensure(8).unwrap();
    }
}
