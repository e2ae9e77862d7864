//! Watches files for changes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// The times of a watch.
const TIMES: Times = Times {
    quiet: Duration::from_millis(20),
    max_delay: Duration::from_millis(500),
    unfinished: Duration::from_secs(2),
    max_unfinished: Duration::from_secs(10),
    poll: Duration::from_secs(2),
};

#[derive(Debug, Clone, Copy)]
struct Times {
    /// Changes less than this apart are reported as one.
    quiet: Duration,
    /// The maximum delay of a report while changes continue.
    max_delay: Duration,
    /// While a writer has the file open, a report waits until no change has arrived for
    /// this time.
    unfinished: Duration,
    /// The maximum delay of a report while a writer has the file open.
    max_unfinished: Duration,
    /// The interval at which the file is checked in any case: it may be reached through
    /// folders and links that are not watched.
    poll: Duration,
}

/// Watches a file until it is dropped.
#[derive(Debug)]
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// A failure to watch a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {} for changes: {source}", folder.display())]
pub struct WatchError {
    folder: PathBuf,
    source: notify::Error,
}

/// Calls `changed` on a separate thread: once when the watch begins, and then after each
/// change of the file. By then the file may have been replaced, as editors and
/// orchestrators do, or removed, or may have its old content again.
///
/// A change in the file's folder is noticed at once, a change through links or other
/// folders within two seconds. While a writer has the file open, the call is delayed
/// until the file is closed or has not changed for two seconds, by ten seconds at most.
pub fn watch(file: &Path, changed: impl Fn() + Send + 'static) -> Result<Watch, WatchError> {
    watch_with(TIMES, file, changed)
}

fn watch_with(
    times: Times,
    file: &Path,
    changed: impl Fn() + Send + 'static,
) -> Result<Watch, WatchError> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let watch_error = |source| WatchError { folder: folder.clone(), source };
    let (sender, events) = mpsc::channel();
    let name = file.file_name().map(ToOwned::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let change =
            event.map_or(Some(FileChange::Elsewhere), |event| change(&event, name.as_deref()));
        if let Some(change) = change {
            // A failure can be ignored: the thread ends with the watch.
            sender.send(change).ok();
        }
    })
    .map_err(watch_error)?;
    watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(watch_error)?;
    let file = file.to_owned();
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || call_back(&times, &file, &events, changed))
        .map_err(|error: io::Error| watch_error(error.into()))?;
    Ok(Watch { _watcher: watcher })
}

/// The kind of a change in the file's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileChange {
    /// Another file changed, perhaps a link through which this one is reached.
    Elsewhere,
    /// The file is being written.
    Writing,
    /// The file was replaced, removed or closed by its writer.
    Done,
}

/// The metadata that identifies a version of a file: device and inode, length, times of
/// modification and status change; or the reason why it cannot be read.
type Look = Result<(u64, u64, u64, [i64; 4]), io::ErrorKind>;

fn observe(file: &Path) -> Look {
    let meta = file.metadata().map_err(|error| error.kind())?;
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    Ok((meta.dev(), meta.ino(), meta.len(), times))
}

fn call_back(times: &Times, file: &Path, events: &Receiver<FileChange>, changed: impl Fn()) {
    let mut last = observe(file);
    // The caller may have read the file before the watch began.
    changed();
    loop {
        let is_ours = match events.recv_timeout(times.poll) {
            Ok(change) => settle(times, events, change),
            Err(RecvTimeoutError::Timeout) => Some(false),
            Err(RecvTimeoutError::Disconnected) => None,
        };
        let Some(is_ours) = is_ours else { return };
        let now = observe(file);
        // Two changes in quick succession may leave the same metadata.
        if is_ours || now != last {
            last = now;
            changed();
        }
    }
}

/// Waits until the changes stop. Returns whether the file itself was among them, or
/// `None` if the watch has ended.
fn settle(times: &Times, events: &Receiver<FileChange>, first: FileChange) -> Option<bool> {
    let start = Instant::now();
    let mut is_ours = first != FileChange::Elsewhere;
    let mut is_written = first == FileChange::Writing;
    loop {
        let (quiet, max_delay) = if is_written {
            (times.unfinished, times.max_unfinished)
        } else {
            (times.quiet, times.max_delay)
        };
        if start.elapsed() >= max_delay {
            return Some(is_ours);
        }
        match events.recv_timeout(quiet) {
            Ok(FileChange::Elsewhere) => {}
            Ok(change) => (is_ours, is_written) = (true, change == FileChange::Writing),
            Err(RecvTimeoutError::Timeout) => return Some(is_ours),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Classifies an event. Reading the file is ignored, because the callback reads it.
fn change(event: &Event, name: Option<&OsStr>) -> Option<FileChange> {
    let is_ours = event.paths.iter().any(|path| path.file_name() == name);
    let change = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => FileChange::Done,
        EventKind::Access(_) => return None,
        EventKind::Create(CreateKind::File) | EventKind::Modify(ModifyKind::Data(_)) => {
            FileChange::Writing
        }
        _ => FileChange::Done,
    };
    Some(if is_ours { change } else { FileChange::Elsewhere })
}

#[cfg(test)]
mod tests {
    use super::{FileChange, Times, settle, watch_with};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::mpsc::{self, Receiver};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A writer takes any time, and changes of other folders are noticed soon.
    const TIMES: Times = Times {
        unfinished: Duration::from_hours(1),
        max_unfinished: Duration::from_hours(1),
        poll: Duration::from_millis(50),
        ..super::TIMES
    };

    /// Sends the file's content on each call.
    fn watched(file: &Path) -> (super::Watch, Receiver<Option<String>>) {
        let (sender, contents) = mpsc::channel();
        let path = file.to_owned();
        let watch = watch_with(TIMES, file, move || {
            sender.send(fs::read_to_string(&path).ok()).ok();
        });
        (watch.unwrap(), contents)
    }

    /// Waits for the expected content, after any other contents.
    #[track_caller]
    fn until(contents: &Receiver<Option<String>>, expected: Option<&str>) {
        while contents.recv_timeout(Duration::from_mins(3)).unwrap().as_deref() != expected {}
    }

    #[test]
    fn a_file_is_reported_initially_and_at_each_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let (_watch, contents) = watched(&file);
        assert_eq!(contents.recv().unwrap(), None);
        fs::write(&file, "1").unwrap();
        until(&contents, Some("1"));
        fs::write(folder.path().join("b"), "2").unwrap();
        fs::rename(folder.path().join("b"), &file).unwrap();
        until(&contents, Some("2"));
        fs::remove_file(&file).unwrap();
        until(&contents, None);
    }

    #[test]
    fn changes_of_other_files_are_not_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let (_watch, contents) = watched(&file);
        assert_eq!(contents.recv().unwrap().as_deref(), Some("1"));
        for _ in 0..20 {
            fs::write(folder.path().join("log"), "line").unwrap();
            thread::sleep(2 * TIMES.quiet);
        }
        // The first report is of the next change of the file.
        fs::remove_file(&file).unwrap();
        assert_eq!(contents.recv().unwrap(), None);
    }

    #[test]
    fn changes_through_links_and_other_folders_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for release in ["1", "2"] {
            fs::create_dir(path(release)).unwrap();
            fs::write(path(release).join("a"), release).unwrap();
        }
        symlink("1", path("current")).unwrap();
        let (_watch, contents) = watched(&path("current").join("a"));
        until(&contents, Some("1"));
        symlink("2", path("next")).unwrap();
        fs::rename(path("next"), path("current")).unwrap();
        until(&contents, Some("2"));
        fs::remove_dir_all(path("2")).unwrap();
        until(&contents, None);
        fs::create_dir(path("2")).unwrap();
        fs::write(path("2").join("a"), "3").unwrap();
        until(&contents, Some("3"));
    }

    #[test]
    fn a_file_is_reported_once_its_writer_has_finished() {
        let (sender, events) = mpsc::channel();
        let start = Instant::now();
        let writer = thread::spawn(move || {
            for change in
                [FileChange::Writing, FileChange::Elsewhere, FileChange::Writing, FileChange::Done]
            {
                thread::sleep(5 * TIMES.quiet);
                sender.send(change).unwrap();
            }
            // Keeps the channel open.
            sender
        });
        assert_eq!(settle(&TIMES, &events, FileChange::Writing), Some(true));
        assert!(start.elapsed() >= 20 * TIMES.quiet);
        drop(writer.join().unwrap());
        assert_eq!(settle(&TIMES, &events, FileChange::Elsewhere), None);
    }
}
