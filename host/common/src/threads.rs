//! Threads that can be missing: the system may allow no more.

use std::sync::{Mutex, PoisonError, mpsc};
use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};

/// Starts a thread with a runtime of its own, and returns the runtime's handle.
///
/// The runtime is built by its thread: one that is dropped by asynchronous code, for want
/// of a thread, panics.
pub fn start_runtime(
    name: &str,
    run: impl FnOnce(&Runtime) + Send + 'static,
) -> io::Result<Handle> {
    let (sender, started) = mpsc::channel();
    let start = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            drop(sender.send(Ok(runtime.handle().clone())));
            run(&runtime);
        }
        Err(error) => drop(sender.send(Err(error))),
    };
    thread::Builder::new().name(name.to_owned()).spawn(start)?;
    started.recv().map_err(io::Error::other)?
}

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
    use super::{ensure, start_runtime};
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn creatable_threads_pass_the_check() {
        ensure(0).unwrap();
        ensure(8).unwrap();
    }

    #[test]
    fn a_runtime_has_a_thread_of_its_own() {
        let (sender, end) = mpsc::channel::<()>();
        let name = || thread::current().name().map(str::to_owned);
        let handle = start_runtime("its", move |runtime| {
            runtime.block_on(async { tokio::task::spawn_blocking(move || end.recv()).await }).ok();
        });
        let task = handle.unwrap().spawn(async move { name() });
        let test = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(test.block_on(task).unwrap().as_deref(), Some("its"));
        drop(sender);
    }
}
