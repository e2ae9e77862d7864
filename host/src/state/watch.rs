//! Files that change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Changes that follow each other faster than this are one.
const QUIET: Duration = Duration::from_millis(20);

/// A file that never stops changing is looked at this often.
const PATIENCE: Duration = Duration::from_millis(500);

/// Watches as long as it lives.
#[derive(Debug)]
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// A file cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {} for changes: {source}", folder.display())]
pub struct WatchError {
    folder: PathBuf,
    source: notify::Error,
}

/// Calls back, on a thread of its own, once it watches and then after something
/// in the file's folder changed: the file may be another one of the same name by then, as editors
/// and orchestrators put it there, or not have changed at all.
pub fn watch(file: &Path, changed: impl Fn() + Send + 'static) -> Result<Watch, WatchError> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let fault = |source| WatchError { folder: folder.clone(), source };
    let (sender, events) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.map_or(true, |event| is_change(&event)) {
            // The thread ends with the watch.
            sender.send(()).ok();
        }
    })
    .map_err(fault)?;
    watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(fault)?;
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || call_back(&events, changed))
        .map_err(|error: io::Error| fault(error.into()))?;
    Ok(Watch { _watcher: watcher })
}

fn call_back(events: &Receiver<()>, changed: impl Fn()) {
    // What the caller knows of the file is from before it was watched.
    changed();
    while events.recv().is_ok() {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match events.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        changed();
    }
}

/// Reading a file is no change: whoever is called back reads it.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}
