//! Reads a file once it no longer changes.

use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use rustix::io::Errno;
use tracing::warn;

use crate::files;

/// A file that is unchanged after this time is complete.
const STABLE_TIME: Duration = Duration::from_millis(30);

/// The time between two attempts to read a file while it cannot be read.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The number of attempts after which a file that keeps changing is used.
const MAX_ATTEMPTS: usize = 20;

/// Returns whether an error is a shortage of the system, not a missing file: clients that
/// take all descriptors must not make the server miss a change.
fn passes(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|error| short.contains(&error))
}

/// Returns the content of a file of at most this many bytes once it no longer changes:
/// half a file may be valid, too. Waits while the system is short of something.
pub fn read(file: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut is_said = false;
    loop {
        match try_read(file, max) {
            Err(error) if passes(&error) => {
                if !std::mem::replace(&mut is_said, true) {
                    let file = file.display();
                    warn!(%file, %error, "cannot read the file for now; retrying");
                }
                thread::sleep(RETRY_INTERVAL);
            }
            content => return content,
        }
    }
}

fn try_read(file: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut content = files::read(file, max)?;
    for _ in 0..MAX_ATTEMPTS {
        let before = blake3::hash(&content);
        // This keeps only one of the two in memory.
        drop(content);
        thread::sleep(STABLE_TIME);
        content = files::read(file, max)?;
        if blake3::hash(&content) == before {
            break;
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::passes;
    use rustix::io::Errno;

    #[test]
    fn only_shortages_of_the_system_pass() {
        assert!(passes(&Errno::MFILE.into()));
        for lasting in [Errno::IO, Errno::AGAIN, Errno::NOENT, Errno::ACCESS] {
            assert!(!passes(&lasting.into()), "{lasting}");
        }
    }
}
