//! Do the commands of docs/live.md work, and are events as in its table?

use std::process::Stdio;
use std::time::Duration;

use relayer_rest_host::state::{Object, Stale, Worker};
use relayer_rest_tests::events::{Event, Events};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, within};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Deserializer, Value};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::page::{Page, code};
use crate::http::live_streams::apply;

/// The address in the page.
const ADDRESS: &str = "localhost:3000";

/// A server whose clients follow the page.
struct Site {
    server: TestServer,
    page: Page,
    home: Folder,
}

/// A shell that runs a part of the page until this is dropped.
struct Shell {
    child: Child,
    output: BufReader<ChildStdout>,
    unread: Vec<u8>,
}

impl Site {
    /// Starts a server with many workers, so that a patch is short.
    async fn start() -> Self {
        let server = TestServer::start().await;
        let home = Folder::new();
        std::os::unix::fs::symlink(Program::path(), home.join("relayer-rest")).unwrap();
        let site = Self { server, page: Page::read("docs/live.md"), home };
        (0..300).for_each(|id| site.add_worker(10_000 + id));
        site
    }

    fn add_worker(&self, id: u64) {
        let object = Object::Wallet { chain_id: "ibc-0".into() };
        let worker = Worker { id, object, data: None };
        self.server.publisher.update_state(|state| state.workers.push(worker));
    }

    /// Returns the state as a client gets it.
    async fn state(&self) -> Value {
        serde_json::from_slice(&self.server.get("/state").await.body).unwrap()
    }

    fn shell(&self, script: &str) -> Shell {
        assert!(script.contains(ADDRESS), "{script}");
        let path = std::env::var("PATH").unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &script.replace(ADDRESS, &self.server.address.to_string())])
            .current_dir(self.home.as_path())
            .env("PATH", format!("{}:{path}", self.home.as_path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Shell { child, output, unread: Vec::new() }
    }

    /// Runs a command until it ends, and returns its output.
    async fn run(&self, script: &str) -> String {
        let mut shell = self.shell(script);
        let mut output = String::new();
        within(script, shell.output.read_to_string(&mut output)).await.unwrap();
        assert!(within(script, shell.child.wait()).await.unwrap().success(), "{script}");
        output
    }
}

impl Shell {
    async fn read(&mut self) {
        let read = self.output.read_buf(&mut self.unread);
        assert!(within("output", read).await.unwrap() > 0, "the command has ended");
    }

    /// Returns the next JSON document of the output.
    async fn json(&mut self) -> Value {
        loop {
            let mut documents = Deserializer::from_slice(&self.unread).into_iter();
            if let Some(Ok(document)) = documents.next() {
                let end = documents.byte_offset();
                self.unread.drain(..end);
                return document;
            }
            self.read().await;
        }
    }

    /// Returns the lines up to the next empty one.
    async fn block(&mut self) -> String {
        loop {
            let text = str::from_utf8(&self.unread).unwrap_or_default();
            if let Some((block, _)) = text.split_once("\n\n") {
                let block = block.to_owned();
                self.unread.drain(..block.len() + 2);
                return block;
            }
            self.read().await;
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Also the programs that the shell has started.
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap())) {
            kill_process_group(id, Signal::KILL).ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_the_page_waits_for_a_change() {
    let site = Site::start().await;
    let block = site.page.block("sh", "prefer: wait=30");
    let (first, second) = block.split_once('\n').unwrap();
    // The tag of the page is that of another response.
    let printed = site.run(second).await;
    assert!(
        printed.starts_with("HTTP/1.1 200 ")
            && printed.contains("\r\npreference-applied: wait=30\r\n")
    );
    for id in 0.. {
        let tag = site.run(first).await;
        let tag = tag.trim().strip_prefix("etag: ").unwrap();
        let mut waiting = site.shell(&second.replace("\"TAG\"", tag));
        until("the client waits", || site.server.live.status().waiters == 1).await;
        site.add_worker(id);
        let mut printed = String::new();
        within("the response", waiting.output.read_to_string(&mut printed)).await.unwrap();
        // The time may be over on a busy machine.
        if !printed.starts_with("HTTP/1.1 304 ") {
            assert!(printed.starts_with("HTTP/1.1 200 "), "{printed}");
            let (_, body) = printed.split_once("\r\n\r\n").unwrap();
            assert_eq!(serde_json::from_str::<Value>(body).unwrap(), site.state().await);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loop_of_the_page_prints_each_change() {
    let site = Site::start().await;
    let mut shell = site.shell(site.page.block("sh", "while sleep"));
    for id in 0..3 {
        assert_eq!(shell.json().await, site.state().await);
        site.add_worker(id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_streams_of_the_page_have_all_changes() {
    let site = Site::start().await;
    let blocks = site.page.blocks("sh");
    assert_eq!(blocks.len(), 5);
    let streams = blocks.into_iter().filter(|block| block.starts_with("curl -N"));
    let streams: Vec<_> = streams.collect();
    assert_eq!(streams.len(), 2);
    for (script, later) in streams.into_iter().zip(["change", "patch"]) {
        let mut shell = site.shell(script);
        let mut document = Value::Null;
        for name in ["change", later, later] {
            let block = shell.block().await;
            let lines: Vec<_> = block.lines().filter_map(|line| line.split_once(": ")).collect();
            let [("id", id), ("event", event), ("data", data)] = lines[..] else {
                panic!("{block}");
            };
            assert_eq!((id, event), (site.server.get("/state").await.header("etag"), name));
            let data = serde_json::from_str(data).unwrap();
            if event == "patch" {
                apply(&mut document, data);
            } else {
                document = data;
            }
            assert_eq!(document, site.state().await);
            site.add_worker(site.server.live.status().wakeups);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_of_the_page_prints_all_events() {
    let site = Site::start().await;
    let block = site.page.block("sh", "relayer-rest watch");
    let (command, filter) = block.split_once(" | ").unwrap();
    // The filter is another program: `tests/outside/live.rs` has it.
    assert!(filter.starts_with("jq "));
    let mut shell = site.shell(command);
    let change = shell.json().await;
    let mut document = change["data"].clone();
    assert_eq!((&change["event"], &document), (&"change".into(), &site.state().await));
    for id in 0..2 {
        site.add_worker(id);
        let patch = shell.json().await;
        assert_eq!(patch["event"], "patch");
        apply(&mut document, patch["data"].clone());
        assert_eq!(document, site.state().await);
    }
}

/// Returns the fields of an object, with the JSON types of their values except for `…`.
fn fields(object: &Value, shown: &Value) -> Vec<(String, Option<std::mem::Discriminant<Value>>)> {
    let kind = |(name, value): (&String, &Value)| {
        let is_any = shown[name] == "…";
        (name.clone(), (!is_any).then(|| std::mem::discriminant(value)))
    };
    object.as_object().unwrap().iter().map(kind).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_as_in_the_table_of_the_page() {
    let site = Site::start().await;
    let mut client = site.server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[("prefer", "patch")]).await;
    let mut sent: Vec<(Event, Option<Value>)> = Vec::new();
    let change = events.next().await.unwrap();
    let mut document = change.json();
    assert_eq!(document, site.state().await);
    sent.push((change, None));
    site.add_worker(1);
    let patch = events.next().await.unwrap();
    apply(&mut document, patch.json());
    assert_eq!(document, site.state().await);
    sent.push((patch, None));
    let failing = TestServer::builder().without_state().start().await;
    let mut other = failing.connect().await;
    let mut failures = Events::open(&mut other, "/state", &[]).await;
    let failed = failures.next().await.unwrap();
    assert_eq!(failed.id.as_deref(), Some(""));
    let since = std::time::Instant::now().checked_sub(Duration::from_secs(12)).unwrap();
    site.server.publisher.set_stale(Some(Stale { since, chains: false }));
    let stale = events.next().await.unwrap();
    site.server.publisher.set_stale(None);
    let confirmed = events.next().await.unwrap();
    for event in [failed, stale, confirmed] {
        let data = event.json();
        sent.push((event, Some(data)));
    }
    let rows = site.page.table("## Follow all changes");
    assert_eq!(rows.len(), sent.len());
    for (row, (event, data)) in rows.iter().zip(sent) {
        let [name, shown, _] = &row[..] else { panic!("{row:?}") };
        assert_eq!(code(name), event.name);
        match (&**shown, data) {
            ("the body" | "a patch", None) => {}
            (shown, Some(data)) => {
                let shown: Value =
                    serde_json::from_str(&code(shown).replace('…', "\"…\"")).unwrap();
                assert_eq!(fields(&data, &shown), fields(&shown, &shown), "{data}");
                if event.name == "failed" {
                    assert_eq!(data["status"], shown["status"]);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}
