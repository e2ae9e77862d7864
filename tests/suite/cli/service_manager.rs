//! Does a service manager learn when the server is ready, reloads, lives and stops?

use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::DEADLINE;
use rustix::process::Signal;

/// The socket of a service manager. A thread reads it: a server whose messages are not read waits.
struct Manager {
    messages: Receiver<String>,
    path: String,
    _folder: Folder,
}

impl Manager {
    fn new() -> Self {
        let folder = Folder::new();
        let path = folder.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer)
                && sender.send(String::from_utf8(buffer[..length].to_vec()).unwrap()).is_ok()
            {
            }
        });
        Self { messages, path, _folder: folder }
    }

    /// Waits for the next message other than one of the watchdog.
    fn next(&self) -> String {
        loop {
            let message = self.any();
            if message != "WATCHDOG=1\n" {
                return message;
            }
        }
    }

    fn any(&self) -> String {
        self.messages.recv_timeout(DEADLINE).unwrap()
    }
}

#[tokio::test]
async fn the_service_manager_is_notified() {
    let manager = Manager::new();
    let program = Program::server().env("NOTIFY_SOCKET", &manager.path);
    let serving = program.env("WATCHDOG_USEC", "20000").start().await;
    let address = serving.address();
    assert_eq!(manager.next(), format!("READY=1\nSTATUS=listening on {address}\n"));
    for _ in 0..3 {
        assert_eq!(manager.any(), "WATCHDOG=1\n");
    }
    serving.signal(Signal::HUP);
    let reloading = manager.next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.next(), "READY=1\n");
    assert_eq!(serving.control(&["reload"]).await.status, Some(0));
    assert!(manager.next().starts_with("RELOADING=1\n"));
    assert_eq!(manager.next(), "READY=1\n");
    serving.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1\n");
    assert_eq!(serving.ended().await.status, Some(0));
}

/// The unit must not end with the old process.
#[tokio::test(flavor = "multi_thread")]
async fn the_new_process_is_the_main_one_after_a_takeover() {
    let manager = Manager::new();
    let program = Program::server().env("NOTIFY_SOCKET", &manager.path);
    let old = program.clone().env("WATCHDOG_USEC", "3600000000").start().await;
    let ready = format!("READY=1\nSTATUS=listening on {}\n", old.address());
    assert_eq!(manager.next(), ready);
    let mut new = program.args(["--takeover"]).start().await;
    assert_eq!(manager.next(), format!("MAINPID={}\n", new.id()));
    assert_eq!(manager.next(), ready);
    assert_eq!(old.ended().await.status, Some(0));
    // The service manager does not tell the new process.
    new.logged("watchdog of the service manager enabled timeout=3600s").await;
    new.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1\n");
    assert_eq!(new.ended().await.status, Some(0));
}

#[tokio::test]
async fn a_server_runs_without_its_service_manager() {
    let folder = Folder::new();
    let program = Program::server().env("NOTIFY_SOCKET", folder.path("missing"));
    let mut serving = program.start().await;
    assert_eq!(serving.connect().await.get("/version").await.status, 200);
    serving.logged("the service manager cannot be notified").await;
    serving.stop().await;
}
