//! Do changes appear, without other requests, and leave the view in place?

use std::time::{Duration, Instant};

use relayer_rest_host::LiveLimits;
use relayer_rest_host::state::{ChainConfig, Object, Stale, Worker};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{until, until_async};

use super::{
    COUNT, FOCUS, HASH, PROBLEMS, ROWS, SPOTS, STATUS, WORKERS, looking_at, looking_at_server,
    server_with, spot,
};
use crate::browser::Browser;
use crate::relayers::Relayer;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_change_appears_and_keeps_the_view() {
    let relayer = Relayer::of_size(25, 400);
    let (server, browser) = looking_at(&relayer, "#chain=cosmoshub-4").await;
    browser.type_into("#find", "new").await;
    assert_eq!(browser.count(ROWS).await, 0);
    browser.run("window.before = true; scrollTo(0, 40)").await;
    let find_at = "return document.querySelector('#find').getBoundingClientRect().top";
    let before = browser.run(find_at).await;
    let spot = format!("window.spot = document.querySelector(\"{}\")", self::spot("cosmoshub-4"));
    browser.run(&spot).await;
    server.publisher.update_state(|state| {
        let object = Object::Packet {
            dst_chain_id: "cosmoshub-4".into(),
            src_chain_id: "new-chain".into(),
            src_channel_id: "channel-0".into(),
            src_port_id: "transfer".into(),
        };
        state.workers.push(Worker { id: 9_999, object, data: None });
    });
    browser.wait(&format!("{ROWS} === 1")).await;
    assert_eq!(browser.run("return window.before === true && window.spot.isConnected").await, true);
    assert_eq!(browser.text(HASH).await, "#chain=cosmoshub-4&find=new");
    assert_eq!(browser.text(FOCUS).await, "find");
    // There is a new problem above: the chain is not configured.
    browser.wait(&format!("{PROBLEMS} === 3")).await;
    assert_eq!(browser.run(find_at).await, before);
    assert_eq!(browser.count(SPOTS).await, 26);
    assert_eq!(browser.text(COUNT).await, "1 of 401 workers");
    // A focused chain keeps the focus.
    let focus = format!("document.querySelector(\"{}\").parentNode.focus()", self::spot("juno-1"));
    browser.run(&focus).await;
    server.publisher.update_state(|state| {
        state.workers.retain(|worker| worker.id != 9_999);
    });
    browser.wait(&format!("{ROWS} === 0")).await;
    assert!(browser.text(FOCUS).await.starts_with("juno-1: "));
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_refresh_keeps_the_focus_and_moves_nothing() {
    let relayer = Relayer::of_size(24, 400).without(14);
    let (server, browser) = looking_at(&relayer, "").await;
    browser
        .run(
            "window.shifts = [];
            new PerformanceObserver(list => shifts.push(...list.getEntries().map(entry => entry.value)))
                .observe({ type: 'layout-shift' })",
        )
        .await;
    let wallet = |id, chain: &ChainConfig| {
        let object = Object::Wallet { chain_id: chain.id.clone() };
        Worker { id, object, data: None }
    };
    let first = &relayer.chains[0];
    server.publisher.update_state(|state| state.workers.push(wallet(9_999, first)));
    browser.wait(&format!("{COUNT} === '401 workers'")).await;
    // The browser reports the movements a frame later.
    browser.run("return new Promise(done => requestAnimationFrame(() => setTimeout(() => done(1), 50)))").await;
    assert_eq!(browser.run("return shifts").await, serde_json::json!([]));
    // A focused button in a row that moves keeps the focus.
    let last = relayer.chains.last().unwrap();
    let chain = &last.id;
    let focus = format!(
        "[...document.querySelectorAll('#chain-table button.plain')].find(button => button.textContent === '{chain}').focus({{ preventScroll: true }})"
    );
    browser.run(&focus).await;
    let row = "return document.activeElement.closest('tr')?.rowIndex ?? 0";
    let before = browser.count(row).await;
    server.publisher.update_state(|state| {
        state.workers.extend((10_000..10_390).map(|id| wallet(id, last)));
    });
    browser.wait(&format!("{COUNT} === '791 workers'")).await;
    assert!(before > 1 && browser.count(row).await == 1, "the row moves");
    assert_eq!(browser.text("return document.activeElement.textContent").await, chain.as_str());
    // A link whose problem is gone leaves the focus among the problems.
    browser.run("document.querySelector('#problem-list a').focus({ preventScroll: true })").await;
    relayer.without(0).publish(&server.publisher);
    browser.wait(&format!("{PROBLEMS} === 0")).await;
    assert_eq!(browser.text(FOCUS).await, "problems");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn changes_appear_without_further_requests_for_the_data() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    for id in 0..5 {
        add_worker(&server, 1_000 + id);
        browser.wait(&format!("{COUNT} === '{} workers'", 11 + id)).await;
    }
    let since = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
    server.publisher.set_stale(Some(Stale { since, chains: true }));
    browser.wait(&format!("{STATUS}.startsWith('Stale since ')")).await;
    server.publisher.set_stale(None);
    browser.wait(&format!("{STATUS} === 'No problems'")).await;
    assert_eq!(requests_for_data(&browser).await, 1);
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// The telemetry may take as long as the server runs a module.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn changes_appear_while_the_telemetry_is_awaited() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    streams(&server, 1).await;
    browser
        .run(
            "const send = fetch;
            window.awaited = 0;
            window.fetch = (address, options) => {
                if (!String(address).endsWith('/telemetry')) { return send(address, options); }
                window.awaited += 1;
                return new Promise(() => {});
            };
            const now = Date.now;
            let passed = 0;
            Date.now = () => now() + (passed += 60000);",
        )
        .await;
    for id in 0..3 {
        add_worker(&server, 1_000 + id);
        browser.wait(&format!("{COUNT} === '{} workers'", 11 + id)).await;
    }
    assert_eq!(browser.count("return window.awaited").await, 1);
}

/// The browser's copy is revalidated instead of sent again, and a hidden page sends no
/// requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn unchanged_data_is_not_sent_again() {
    let server = server_with(LiveLimits { waiters: 0, ..LiveLimits::default() }).await;
    let (_server, browser) = looking_at_server(server, &Relayer::of_size(2, 10), "").await;
    // A refused stream is aborted, and may have no status.
    let entries = "return performance.getEntriesByType('resource').filter(
        entry => entry.name.endsWith('/data') && ![0, 503].includes(entry.responseStatus))";
    browser.wait(&format!("{entries}.length === 2")).await;
    let statuses = browser.run(&format!("{entries}.map(entry => entry.responseStatus)")).await;
    assert_eq!(statuses, serde_json::json!([200, 304]));
    browser.run(&visibility("hidden")).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(browser.run(&format!("{entries}.length")).await, 2);
    browser.run(&visibility("visible")).await;
    browser.wait(&format!("{entries}.length === 3")).await;
}

/// A hidden page has no stream. When it is visible again, it gets the data only if that has
/// changed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_hidden_page_has_no_stream() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    streams(&server, 1).await;
    browser
        .run(
            "const parse = JSON.parse;
            window.events = 0;
            JSON.parse = (text) => { window.events += 1; return parse(text); };",
        )
        .await;
    for (events, count) in [(0, 10), (1, 11), (1, 11), (2, 12)] {
        browser.run(&visibility("hidden")).await;
        streams(&server, 0).await;
        if count > browser.count(WORKERS).await {
            add_worker(&server, count);
        }
        browser.requested_addresses().await;
        browser.run(&visibility("visible")).await;
        streams(&server, 1).await;
        browser.wait(&format!("{WORKERS} === {count}")).await;
        // The telemetry is requested after the first event or comment.
        let is_connected = async || {
            let addresses = browser.requested_addresses().await;
            addresses.iter().any(|address| address.ends_with("/telemetry"))
        };
        until_async("the stream continues", is_connected).await;
        assert_eq!(browser.count("return window.events").await, events);
    }
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// A page without a stream polls, and tries later to open one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_page_polls_while_its_stream_is_refused() {
    let server = server_with(LiveLimits { waiters: 1, ..LiveLimits::default() }).await;
    let mut client = server.connect().await;
    let relayer = Relayer::of_size(2, 10);
    relayer.publish(&server.publisher);
    let other = Events::open(&mut client, "/state", &[]).await;
    let (server, browser) = looking_at_server(server, &relayer, "").await;
    for id in 0..3 {
        add_worker(&server, 1_000 + id);
        browser.wait(&format!("{COUNT} === '{} workers'", 11 + id)).await;
    }
    assert!(server.live.status().refused > 0);
    drop((other, client));
    streams(&server, 0).await;
    browser.run("const now = Date.now; Date.now = () => now() + 60000").await;
    streams(&server, 1).await;
    browser.requested_addresses().await;
    add_worker(&server, 2_000);
    browser.wait(&format!("{COUNT} === '14 workers'")).await;
    assert_eq!(requests_for_data(&browser).await, 0);
    // Only Chromium's own notes about error responses are expected.
    for complaint in browser.complaints().await {
        assert!(complaint.contains("status of 503"), "{complaint}");
    }
}

/// The server sends at least a comment from time to time: a connection without any is lost.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_page_polls_when_its_stream_is_silent() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    streams(&server, 1).await;
    // Times of the page are a thousandth from now on.
    browser
        .run("const set = setTimeout; window.setTimeout = (run, time) => set(run, time / 1000)")
        .await;
    add_worker(&server, 1_000);
    streams(&server, 0).await;
    browser.requested_addresses().await;
    let polls = async || requests_for_data(&browser).await > 0;
    until_async("the page polls", polls).await;
    assert_eq!(browser.text(COUNT).await, "11 workers");
    assert_eq!(browser.text(STATUS).await, "No problems");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_failure_with_an_empty_id_makes_the_page_load_the_data_again() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    streams(&server, 1).await;
    browser.run(&visibility("hidden")).await;
    streams(&server, 0).await;
    browser
        .run(
            "const send = fetch;
            const headers = { 'content-type': 'text/event-stream' };
            window.validators = [];
            window.fetch = async (address, options) => {
                if (!String(address).endsWith('/data')) { return send(address, options); }
                if (options.headers.accept === headers['content-type']) {
                    return new Response('event: failed\\nid:\\ndata: {}\\n\\n', { headers });
                }
                window.validators.push(options.headers['if-none-match'] ?? 'none');
                return send(address, options);
            };",
        )
        .await;
    browser.run(&visibility("visible")).await;
    browser.wait("return window.validators[0] === 'none'").await;
}

/// A server that ends its streams tells their clients when to connect again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_page_continues_with_the_server_that_takes_over() {
    let files = Folder::new();
    let settings = files.write("c.toml", "[[extension]]\nname = 'dashboard'\n");
    let program = Program::server().args(["--config", &settings, "--grace", "4s"]);
    let old = program.clone().start().await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/ext/dashboard", old.url())).await;
    stream_of(&old).await;
    browser.requested_addresses().await;
    let new = program.args(["--takeover"]).start().await;
    assert_eq!(old.ended().await.status, Some(0));
    stream_of(&new).await;
    assert_eq!(requests_for_data(&browser).await, 1);
    assert_eq!(browser.complaints().await, [""; 0]);
    new.stop().await;
}

/// Returns a script that hides or shows the page, as if it were in a background tab.
fn visibility(state: &str) -> String {
    format!(
        "Object.defineProperty(document, 'visibilityState', {{ value: '{state}', configurable: true }});
        document.dispatchEvent(new Event('visibilitychange'))"
    )
}

/// Adds a worker with this number.
fn add_worker(server: &TestServer, id: u64) {
    let object = Object::Wallet { chain_id: "cosmoshub-4".into() };
    server.publisher.update_state(|state| state.workers.push(Worker { id, object, data: None }));
}

async fn streams(server: &TestServer, count: u64) {
    until("the page has a stream, or none", || server.live.status().waiters == count).await;
}

/// Waits until a server has one stream.
async fn stream_of(serving: &Serving) {
    let control = serving.control_client();
    let has_stream = async || {
        let metrics = control.metrics().await.unwrap();
        metrics.lines().any(|line| line == "relayer_rest_live_waiters 1")
    };
    until_async("the page has a stream", has_stream).await;
}

/// Returns the number of requests for the data since the last call.
async fn requests_for_data(browser: &Browser) -> usize {
    let addresses = browser.requested_addresses().await;
    addresses.iter().filter(|address| address.ends_with("/data")).count()
}
