//! Does `top` show the requests of each mount, and restore the terminal?

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::send_signal;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::wait::{until, until_async, within};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::write;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use tokio::process::Child;

use super::check_failure;

/// The sequences by which a program takes the whole screen, and gives it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A `top` in a terminal.
struct Top {
    child: Child,
    /// The program's side of the terminal.
    terminal: OwnedFd,
    /// The user's side of the terminal.
    user: OwnedFd,
    screen: Arc<Mutex<String>>,
}

impl Top {
    /// Starts `top` in a terminal, and waits until it shows its table.
    async fn start(serving: &Serving) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let program = Program::new(["top", "--interval", "100ms"]).socket(&serving.socket);
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = program.command();
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&screen);
        let mut output = File::from(user.try_clone().unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                written.lock().unwrap().push_str(&text);
            }
        });
        let top = Self { child, terminal, user, screen };
        top.shows("QUEUE").await;
        assert!(!top.is_cooked());
        top
    }

    async fn shows(&self, text: &str) {
        until(text, || self.screen.lock().unwrap().contains(text)).await;
    }

    /// Returns whether the terminal echoes input, and interrupts at Ctrl-C.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    fn press(&self, keys: &[u8]) {
        assert_eq!(write(&self.user, keys).unwrap(), keys.len());
    }

    /// Waits until it ends, and checks that the terminal is as before.
    async fn ends(mut self) {
        let status = within("the end of top", self.child.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
        assert!(self.is_cooked());
        self.shows(LEAVE).await;
        let screen = self.screen.lock().unwrap();
        assert_eq!((screen.matches(ENTER).count(), screen.matches(LEAVE).count()), (1, 1));
        assert!(screen.rfind("\u{1b}[?25h") > screen.rfind("\u{1b}[?25l"), "the cursor is hidden");
    }
}

fn sample(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_sample_has_the_rates_of_each_mount() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "extension = [{ name = 'health' }]");
    let serving = Program::server().args(["--config", &config]).start().await;
    let mut client = serving.connect().await;
    client.get("/version").await;
    // Samples are taken until the requests, which are sent meanwhile, are in one.
    let requests = async {
        loop {
            assert_eq!(client.get("/version").await.status, 200);
        }
    };
    let mut report = Value::Null;
    let sampling = until_async("a sample with requests", async || {
        let top = serving.control(&["top", "--once", "--json", "--interval", "200ms"]).await;
        assert_eq!((top.status, top.stderr.as_str()), (Some(0), ""));
        report = sample(&top.stdout);
        report["mounts"][0]["requests_per_second"].as_f64().unwrap() > 0.0
    });
    tokio::select! {
        () = requests => {}
        () = sampling => {}
    }
    assert_eq!(report["pid"], serving.id());
    assert_eq!(report["ready"], true);
    assert_eq!(report["sources"][0]["kind"], "sample");
    assert_eq!(report["connections"]["open"], 1);
    assert!(report["snapshot"]["generation"].as_u64().unwrap() > 0);
    assert!(report["uptime_seconds"].is_number());
    assert!(report["interval_seconds"].as_f64().unwrap() >= 0.2);
    let api = &report["mounts"][0];
    assert_eq!(
        (&api["mount"], &api["name"], &api["state"]),
        (&Value::from("/"), &Value::from("api"), &Value::from("serving"))
    );
    assert_eq!(api["cache_hit_ratio"], 1.0);
    assert_eq!(api["errors_per_second"], 0.0);
    assert_eq!(api["queue_depth"], 0);
    let p50 = api["latency_p50_seconds"].as_f64().unwrap();
    assert!(p50 > 0.0 && p50 <= api["latency_p99_seconds"].as_f64().unwrap());
    let health = &report["mounts"][1];
    assert_eq!(health["mount"], "/ext/health");
    assert_eq!(health["requests_per_second"], 0.0);
    assert_eq!(health["latency_p50_seconds"], Value::Null);
}

#[tokio::test]
async fn a_sample_is_a_table() {
    let serving = Program::server().start().await;
    let top = serving.control(&["top", "--once", "--interval", "100ms"]).await;
    assert_eq!((top.status, top.stderr.as_str()), (Some(0), ""));
    let lines: Vec<_> = top.stdout.lines().collect();
    assert!(lines[0].contains(&format!("process {}, up ", serving.id())), "{}", lines[0]);
    let title = lines.iter().position(|line| line.starts_with("MOUNT")).unwrap();
    assert_eq!(lines[title - 1], "");
    let titles: Vec<_> = lines[title].split_whitespace().collect();
    let expected = ["MOUNT", "MODULE", "STATE", "REQ/S", "P50", "P99", "HITS", "ERR/S", "QUEUE"];
    assert_eq!(titles, expected);
    let cells: Vec<_> = lines[title + 1].split_whitespace().collect();
    assert!(cells[1].starts_with("api@"));
    assert_eq!((cells[0], &cells[2..]), ("/", &["serving", "0", "-", "-", "-", "0", "0"][..]));
    assert_eq!(lines.len(), title + 2);
}

#[tokio::test]
async fn failures_have_a_remedy() {
    let top = Program::new(["top"]).run().await;
    check_failure(&top, 2, "stdout is not a terminal; use --once to print one sample");
    let folder = Folder::new();
    let nowhere = folder.join("nowhere.sock");
    let top = Program::new(["top", "--once", "--control", nowhere.to_str().unwrap()]).run().await;
    let message = format!("control socket {}: No such file or directory", nowhere.display());
    check_failure(&top, 2, &message);
    for (args, message) in [
        (["--interval", "1"], "time unit needed"),
        (["--interval", "0s"], "not from 100ms to 1h"),
        (["--interval", "61m"], "not from 100ms to 1h"),
        (["--json", "--interval=1s"], "  --once\n"),
    ] {
        let top = Program::new(["top"]).args(args).run().await;
        assert_eq!(top.status, Some(2));
        assert!(top.stderr.contains(message), "{}", top.stderr);
    }
}

#[tokio::test]
async fn keys_and_signals_end_the_view_and_restore_the_terminal() {
    let serving = Program::server().start().await;
    for key in [b"q".as_slice(), b"\x1b", b"\x03"] {
        let top = Top::start(&serving).await;
        top.press(b"s");
        top.press(key);
        top.ends().await;
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = Top::start(&serving).await;
        send_signal(top.child.id().unwrap().try_into().unwrap(), signal);
        top.ends().await;
    }
}

#[tokio::test]
async fn the_view_outlives_the_server() {
    let serving = Program::server().start().await;
    let socket = serving.socket.clone();
    let top = Top::start(&serving).await;
    serving.stop().await;
    top.shows("UNREACHABLE").await;
    let serving = Program::server().socket(socket).start().await;
    // All of its line is drawn again, in another style.
    top.shows(&format!("process {}", serving.id())).await;
    top.press(b"q");
    top.ends().await;
}
