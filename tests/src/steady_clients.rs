//! Clients that send requests without a pause while servers take turns at an address.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::client::{Client, Response};
use crate::wait::until;

/// The clients that keep their connections, and those with a connection for each request.
const CLIENTS: [bool; 6] = [true, true, true, false, false, false];

/// Requests that clients send until they are told to end.
pub struct SteadyClients {
    counts: Arc<Counts>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    pause: Duration,
    responses: AtomicUsize,
    failures: Mutex<Vec<String>>,
    times: Mutex<Vec<Duration>>,
    has_ended: AtomicBool,
}

impl SteadyClients {
    /// Lets clients send requests, each after a pause.
    #[must_use]
    pub fn start(address: SocketAddr, pause: Duration) -> Self {
        let counts = Arc::new(Counts { pause, ..Counts::default() });
        let client = |keeps| {
            let counts = Arc::clone(&counts);
            tokio::spawn(async move { counts.send(address, keeps).await })
        };
        let tasks = CLIENTS.map(client).into();
        Self { counts, tasks }
    }

    /// Waits for this number of further responses.
    pub async fn progress(&self, responses: usize) {
        let enough = self.counts.responses.load(SeqCst) + responses;
        until("there are responses", || self.counts.responses.load(SeqCst) >= enough).await;
    }

    /// Returns the times of the requests since the last call.
    #[must_use]
    pub fn take_times(&self) -> Vec<Duration> {
        std::mem::take(&mut self.counts.times.lock().unwrap())
    }

    /// Stops the clients. Returns the requests that failed.
    pub async fn end(self) -> Vec<String> {
        self.counts.has_ended.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut self.counts.failures.lock().unwrap())
    }
}

impl Counts {
    async fn send(&self, address: SocketAddr, keeps: bool) {
        while !self.has_ended.load(SeqCst) {
            if let Err(failure) = self.send_on_one(address, keeps).await {
                self.failures.lock().unwrap().push(failure);
            }
        }
    }

    /// Sends requests on one connection, until its end.
    async fn send_on_one(&self, address: SocketAddr, keeps: bool) -> Result<(), String> {
        // A connection for each request takes longer, which counts as well.
        let mut start = Instant::now();
        let mut client = Client::try_http1(address).await.map_err(|error| error.to_string())?;
        loop {
            let response = client.try_request_with("GET", "/chains", &[]).await;
            let Response { status, headers, .. } = response.map_err(|error| error.to_string())?;
            self.times.lock().unwrap().push(start.elapsed());
            if status != 200 {
                return Err(format!("status {status}"));
            }
            self.responses.fetch_add(1, SeqCst);
            sleep(self.pause).await;
            let is_last = headers.get("connection").is_some_and(|end| end == "close");
            if !keeps || is_last || self.has_ended.load(SeqCst) {
                return Ok(());
            }
            start = Instant::now();
        }
    }
}
