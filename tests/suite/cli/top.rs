//! Does `top` show the requests of each mount, and restore the terminal?

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::process::send_signal;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::terminal::Terminal;
use relayer_rest_tests::wait::{until_async, within};
use rustix::process::Signal;
use serde_json::Value;

use super::check_failure;

/// The sequences by which a program takes the whole screen, and gives it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Starts `top` in a terminal, and waits until it shows its table.
async fn start(serving: &Serving) -> Terminal {
    let program = Program::new(["top", "--interval", "100ms"]).socket(&serving.socket);
    let top = Terminal::start(&program);
    top.shows("QUEUE").await;
    assert!(!top.is_cooked());
    top
}

/// Waits until `top` ends, and checks that the terminal is as before.
async fn ends(mut top: Terminal) {
    let status = within("the end of top", top.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(top.is_cooked());
    top.shows(LEAVE).await;
    let screen = top.screen();
    assert_eq!((screen.matches(ENTER).count(), screen.matches(LEAVE).count()), (1, 1));
    assert!(screen.rfind("\u{1b}[?25h") > screen.rfind("\u{1b}[?25l"), "the cursor is hidden");
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
        let top = start(&serving).await;
        top.press(b"s");
        top.press(key);
        ends(top).await;
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = start(&serving).await;
        send_signal(top.child.id().unwrap().try_into().unwrap(), signal);
        ends(top).await;
    }
}

#[tokio::test]
async fn the_view_outlives_the_server() {
    let serving = Program::server().start().await;
    let socket = serving.socket.clone();
    let top = start(&serving).await;
    serving.stop().await;
    top.shows("UNREACHABLE").await;
    let serving = Program::server().socket(socket).start().await;
    // All of its line is drawn again, in another style.
    top.shows(&format!("process {}", serving.id())).await;
    top.press(b"q");
    ends(top).await;
}
