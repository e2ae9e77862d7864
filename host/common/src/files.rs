//! Reads files of bounded size.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The maximum size of settings and of relayers' configuration files, in bytes. A chain
/// takes less than 2 KiB there; parsing TOML takes many times a file's size.
pub const MAX_TEXT: u64 = 4 << 20;

/// Returns the content of a regular file of at most `limit` bytes. Others, such as
/// devices and pipes, can be endless, and are not read.
pub fn read(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // A pipe that replaces the file would block the thread until it has a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    read_up_to(file, limit)
}

/// Returns the remedy for a file that cannot be read, with the folder in which a relative path
/// was resolved.
#[must_use]
pub fn remedy(file: &Path, error: &io::Error) -> String {
    match std::env::current_dir() {
        Ok(folder) if file.is_relative() && error.kind() == io::ErrorKind::NotFound => {
            format!("check the path, which is relative to {}", folder.display())
        }
        _ => "check the path and its permissions".to_owned(),
    }
}

/// Returns the content of a file of any type, since settings may come from a pipe.
/// Returns an error if it has more than `limit` bytes.
pub fn read_any(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(File::open(file)?, limit)
}

fn read_up_to(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        let message = format!("larger than {}", bytesize::ByteSize::b(limit));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::{read, read_any, remedy};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::ErrorKind;
    use std::path::Path;
    use std::sync::mpsc::{self, TryRecvError};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 10]).unwrap();
        assert_eq!(read(file.path(), 10).unwrap(), [7; 10]);
        assert_eq!(read(file.path(), 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn the_remedy_for_a_missing_file_names_the_folder_of_a_relative_path() {
        let of = |file: &str, kind: ErrorKind| remedy(Path::new(file), &kind.into());
        let folder = std::env::current_dir().unwrap();
        let relative = format!("check the path, which is relative to {}", folder.display());
        assert_eq!(of("a/b.wasm", ErrorKind::NotFound), relative);
        for (file, kind) in
            [("/a/b.wasm", ErrorKind::NotFound), ("a/b.wasm", ErrorKind::PermissionDenied)]
        {
            assert_eq!(of(file, kind), "check the path and its permissions");
        }
    }

    #[test]
    fn a_pipe_instead_of_a_file_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe, target] = ["file", "pipe", "target"].map(|name| folder.path().join(name));
        std::fs::write(&file, "content").unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::hard_link(&file, &target).unwrap();
        let (done, is_done) = mpsc::channel();
        let path = target.clone();
        thread::spawn(move || {
            for _ in 0..20_000 {
                match read(&path, 10) {
                    Ok(content) => assert_eq!(content, b"content"),
                    Err(error) => assert_eq!(error.to_string(), "not a regular file"),
                }
            }
            done.send(()).unwrap();
        });
        let next = folder.path().join("next");
        let until = Instant::now() + Duration::from_secs(60);
        for source in [&pipe, &file].into_iter().cycle() {
            std::fs::hard_link(source, &next).unwrap();
            std::fs::rename(&next, &target).unwrap();
            match is_done.try_recv() {
                Ok(()) => break,
                Err(error) => assert_eq!(error, TryRecvError::Empty),
            }
            assert!(Instant::now() < until, "reading blocks");
        }
    }

    #[test]
    fn endless_files_are_not_read() {
        for path in ["/dev/zero", "/"] {
            let error = read(Path::new(path), 10).unwrap_err().to_string();
            assert_eq!(error, "not a regular file");
        }
        let error = read_any(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.to_string(), "larger than 1000 B");
        assert_eq!(read(Path::new("/nowhere"), 10).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
