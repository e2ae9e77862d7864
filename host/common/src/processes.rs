//! Waits for a child process.
//!
//! A runtime with the processes of tokio takes locks that all runtimes share whenever it waits for
//! events, to look for processes that are not awaited. Servers have a runtime for each core.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use tokio::time::sleep;

/// The time between two checks whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until a process ends. It still runs if the future is dropped before.
///
/// # Errors
/// Returns an error if the process is not a child any more.
pub async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::wait;
    use std::process::{Command, Stdio};

    #[tokio::test]
    async fn the_status_of_a_process_is_known_when_it_ends() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line; exit 3"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        tokio::select! {
            biased;
            status = wait(&mut child) => panic!("{status:?}"),
            () = tokio::task::yield_now() => drop(stdin),
        }
        assert_eq!(wait(&mut child).await.unwrap().code(), Some(3));
        // It is known afterwards, too.
        assert_eq!(wait(&mut child).await.unwrap().code(), Some(3));
    }
}
