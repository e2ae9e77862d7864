//! Do the script of docs/live.md in a browser, and its command with `jq`, follow changes?

use std::fs;
use std::process::Stdio;

use relayer_rest_host::state::{Object, Worker};
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::within;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::browser::Browser;

/// Returns the only code block of the page in a language with this text, for a server.
fn block(language: &str, part: &str, server: &TestServer) -> String {
    let page = fs::read_to_string(root().join("docs/live.md")).unwrap();
    let start = format!("```{language}\n");
    let blocks = page.split(&start).skip(1);
    let blocks: Vec<_> = blocks.map(|rest| rest.split("```").next().unwrap()).collect();
    let found: Vec<_> = blocks.iter().filter(|block| block.contains(part)).collect();
    assert_eq!(found.len(), 1);
    found[0].replace("localhost:3000", &server.address.to_string())
}

fn add_worker(server: &TestServer, id: u64) {
    let object = Object::Wallet { chain_id: "ibc-0".into() };
    server.publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_script_of_the_page_follows_changes() {
    let server = TestServer::start().await;
    let browser = Browser::start().await;
    browser.visit(&format!("http://{}/version", server.address)).await;
    let script = block("js", "EventSource", &server);
    let shows = "const show = (state) => { window.state = state; };";
    browser.run(&format!("{shows}\n{script}\nwindow.events = events;")).await;
    for id in 0..3 {
        let now = server.get("/state").await;
        let state = serde_json::to_string(now.text()).unwrap();
        let is_shown = "return JSON.stringify(window.state) === JSON.stringify(JSON.parse(STATE))";
        browser.wait(&is_shown.replace("STATE", &state)).await;
        add_worker(&server, 1_000 + id);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs jq: apt-get install jq"]
async fn the_command_of_the_page_prints_the_data_of_each_event() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server, 10_000 + id));
    let home = Folder::new();
    std::os::unix::fs::symlink(Program::path(), home.join("relayer-rest")).unwrap();
    let path = format!("{}:{}", home.as_path().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh")
        .args(["-c", &block("sh", "relayer-rest watch", &server)])
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_raw(shell.id().unwrap().try_into().unwrap()).unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    for id in 0..3 {
        // Each document is on several lines; the last one is not indented.
        let mut text = String::new();
        let document: Value = loop {
            let line = within("the next line", lines.next_line()).await.unwrap().unwrap();
            text += &line;
            if let Ok(document) = serde_json::from_str(&text) {
                break document;
            }
        };
        if id == 0 {
            let now: Value = serde_json::from_slice(&server.get("/state").await.body).unwrap();
            assert_eq!(document, now);
        } else {
            assert!(text.contains(&(999 + id).to_string()) && document.is_array(), "{text}");
        }
        add_worker(&server, 1_000 + id);
    }
    kill_process_group(group, Signal::KILL).unwrap();
    within("the end of the shell", shell.wait()).await.unwrap();
}
