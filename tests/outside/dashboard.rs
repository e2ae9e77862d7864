//! Does the dashboard show the whole state on every screen, and do updates leave the
//! user's view in place?
//!
//! | file | question |
//! |---|---|
//! | `layout.rs` | Is everything shown on every screen, and legible? |
//! | `selection.rs` | Can a user select, search and sort, with a pointer and with the keyboard? |
//! | `problems.rs` | Are problems shown first, in words? |
//! | `updates.rs` | Do changes appear, without other requests, and leave the view in place? |

mod layout;
mod problems;
mod selection;
mod updates;

use relayer_rest_host::LiveLimits;
use relayer_rest_host::module::{BundledExtension, Grants, Limits, Module};
use relayer_rest_host::registry::Mount;
use relayer_rest_tests::server::{TestServer, engine};

use crate::browser::{Browser, Screen};
use crate::relayers::Relayer;

fn dashboard(name: &str, path: &str) -> Mount {
    let included = BundledExtension::named("dashboard").unwrap();
    let engine = engine(&Limits::default()).with_grants(Grants::from(&included));
    let module = Module::from_bytes(&engine, "dashboard", included.component).unwrap().named(name);
    Mount::extension(path.parse().unwrap(), module)
}

async fn server() -> TestServer {
    server_with(LiveLimits::default()).await
}

async fn server_with(live: LiveLimits) -> TestServer {
    let server = TestServer::builder().extension(dashboard("dashboard", "/ext/dashboard"));
    server.extension(dashboard("other", "/a/b")).live(live).without_state().start().await
}

fn address(server: &TestServer, hash: &str) -> String {
    format!("http://{}/ext/dashboard{hash}", server.address)
}

/// Opens the dashboard of a relayer in a browser.
async fn looking_at(relayer: &Relayer, hash: &str) -> (TestServer, Browser) {
    looking_at_server(server().await, relayer, hash).await
}

async fn looking_at_server(
    server: TestServer,
    relayer: &Relayer,
    hash: &str,
) -> (TestServer, Browser) {
    relayer.publish(&server.publisher);
    let browser = Browser::start().await;
    browser.look(Screen::Desktop, "light").await;
    browser.open(&address(&server, hash)).await;
    (server, browser)
}

const SPOTS: &str = "return document.querySelectorAll('#graph .spot').length";
const LINES: &str = "return document.querySelectorAll('#graph .line').length";
const ROWS: &str = "return document.querySelectorAll('#table tbody tr').length";
const COUNT: &str = "return document.querySelector('#count').textContent";
/// A script that returns the number of workers that the table counts.
const WORKERS: &str = "return Number.parseInt(document.querySelector('#count').textContent, 10)";
const HASH: &str = "return location.hash";
const NOTICE: &str = "return document.querySelector('#problem-list').innerText";
const STATUS: &str = "return document.querySelector('#status-text').textContent";
const LEVEL: &str = "return document.querySelector('#status').dataset.level";
const PROBLEMS: &str = "return document.querySelectorAll('#problem-list > li').length";
const CHAIN_ROWS: &str = "return document.querySelectorAll('#chain-table tbody tr').length";
const FOCUS: &str =
    "return document.activeElement.getAttribute('aria-label') ?? document.activeElement.id";

/// Returns the selector of a chain in the graph.
fn spot(chain: &str) -> String {
    format!("#graph .spot[aria-label^='{chain}:'] circle")
}
