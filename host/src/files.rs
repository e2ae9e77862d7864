//! Reading files of bounded size.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Settings and relayers' configuration files are no larger, in bytes. A chain
/// takes less than 2 KiB there; reading TOML takes many times a file's size.
pub(crate) const MOST_TEXT: u64 = 4 << 20;

/// The content of a file that is no larger than this, in bytes. What is no
/// file, such as a device or a pipe, may have no end, and is not read.
pub(crate) fn read(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_any(file, limit)
}

/// The same of what need not be a file: settings may come from a pipe.
pub(crate) fn read_any(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        let message = format!("it is larger than {}", bytesize::ByteSize::b(limit));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::{read, read_any};
    use std::io::ErrorKind;
    use std::path::Path;

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 10]).unwrap();
        assert_eq!(read(file.path(), 10).unwrap(), [7; 10]);
        assert_eq!(read(file.path(), 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        for path in ["/dev/zero", "/"] {
            let error = read(Path::new(path), 10).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file");
        }
        let error = read_any(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1000 B");
        assert_eq!(read(Path::new("/nowhere"), 10).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
