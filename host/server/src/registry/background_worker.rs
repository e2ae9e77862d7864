//! The thread on which candidates for mounts are checked, one after the other.
//!
//! It leaves the processors to requests. It is reused: a new thread for each candidate
//! would leave its memory behind in another place each time.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use relayer_rest_common::{priority, threads};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// A job, which gets the runtime of the thread.
type Work = Box<dyn FnOnce(&Runtime) + Send>;

/// A thread that is started on demand, and ends when this is dropped.
#[derive(Default)]
pub struct BackgroundWorker {
    thread: Mutex<Option<Sender<Work>>>,
}

impl BackgroundWorker {
    /// Runs `work` after the jobs submitted before. It is cancelled when the returned
    /// future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let (mut sender, receiver) = oneshot::channel();
        self.submit(Box::new(move |runtime| {
            let done = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = sender.closed() => None,
                    done = work => Some(done),
                }
            });
            if let Some(done) = done {
                drop(sender.send(done));
            }
        }))?;
        let panicked = "its thread panicked; this is a bug, please report it";
        receiver.await.map_err(|_| io::Error::other(panicked))
    }

    fn submit(&self, work: Work) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let work = match &*thread {
            None => work,
            Some(there) => match there.send(work) {
                Ok(()) => return Ok(()),
                // The thread panicked in an earlier job.
                Err(unsent) => unsent.0,
            },
        };
        let new = start()?;
        new.send(work).map_err(|_| io::Error::other("the thread has ended"))?;
        *thread = Some(new);
        Ok(())
    }
}

fn start() -> io::Result<Sender<Work>> {
    let (sender, work): (_, Receiver<Work>) = mpsc::channel();
    threads::start_runtime("candidates", move |runtime| {
        priority::lower_thread();
        for work in work {
            work(runtime);
        }
    })?;
    Ok(sender)
}
