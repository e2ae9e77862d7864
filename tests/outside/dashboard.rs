//! Does the dashboard show the whole state on every screen, and do updates leave the
//! user's view in place?

use std::time::{Duration, Instant, SystemTime};

use relayer_rest_host::LiveLimits;
use relayer_rest_host::module::{BundledExtension, Grants, Limits, Module};
use relayer_rest_host::registry::Mount;
use relayer_rest_host::state::{
    ChainConfig, ChainKind, MetricFamily, MetricKind, NotReady, Object, OtherObject, RelayerState,
    Sample, SourceKind, Stale, Value, Worker,
};
use relayer_rest_tests::events::Events;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::server::{TestServer, engine};
use relayer_rest_tests::wait::{until, until_async};

use crate::browser::{Browser, DOWN, ENTER, ESCAPE, RIGHT, Screen, TAB};
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn relayers_of_every_size_are_shown_on_every_screen() {
    let browser = Browser::start().await;
    // All servers run until the end, since a page polls until another one replaces it.
    let mut servers = Vec::new();
    for (chains, workers) in [(1, 1), (2, 10), (8, 90), (25, 400), (40, 700), (40, 5_000)] {
        let relayer = Relayer::of_size(chains, workers);
        let server = server().await;
        relayer.publish(&server.publisher);
        for screen in [Screen::Desktop, Screen::Phone] {
            for scheme in ["light", "dark"] {
                browser.look(screen, scheme).await;
                browser.open(&address(&server, "")).await;
                let name = format!("{chains}-{workers}-{screen:?}-{scheme}").to_lowercase();
                browser.picture(&name).await;
                let rows = browser.count(CHAIN_ROWS).await;
                assert_eq!(rows, chains as u64, "{name}");
                let choices = "return document.getElementById('chain').options.length";
                assert_eq!(browser.count(choices).await, chains as u64 + 1, "{name}");
                if screen == Screen::Desktop {
                    assert_eq!(browser.count(SPOTS).await, chains as u64, "{name}");
                }
                if screen == Screen::Desktop && chains <= 12 {
                    assert_eq!(browser.count(LINES).await, relayer.pairs() as u64, "{name}");
                }
                assert_eq!(browser.count(ROWS).await, workers.min(50) as u64, "{name}");
                let count = browser.text(COUNT).await.replace(',', "");
                let s = if workers == 1 { "" } else { "s" };
                assert_eq!(count, format!("{workers} worker{s}"));
                check_layout(&browser, screen, &name).await;
            }
        }
        browser.look(Screen::Desktop, "dark").await;
        browser.open(&address(&server, "#chain=cosmoshub-4")).await;
        browser.picture(&format!("{chains}-{workers}-chosen")).await;
        assert_eq!(browser.complaints().await, [""; 0]);
        servers.push(server);
        for address in browser.requested_addresses().await {
            // The log may also have the last poll of the page before.
            let is_own = servers.iter().rev().take(2).any(|server| {
                address.starts_with(&format!("http://{}/ext/dashboard", server.address))
            });
            assert!(is_own || address == "about:blank" || address == "data:,", "{address}");
        }
    }
}

/// Checks that nothing overflows, touch targets are large enough, and texts are legible.
async fn check_layout(browser: &Browser, screen: Screen, name: &str) {
    let (width, _) = screen.size();
    let wide = browser.count("return document.documentElement.scrollWidth").await;
    assert!(wide <= u64::from(width), "{name}: {wide}");
    let cut = browser
        .run(
            "const room = document.querySelector('#graph').getBoundingClientRect();
            return [...document.querySelectorAll('#graph text')].filter(text => {
                const { left, right, top, bottom } = text.getBoundingClientRect();
                return left < room.left || right > room.right || top < room.top || bottom > room.bottom;
            }).map(text => text.textContent)",
        )
        .await;
    assert_eq!(cut, serde_json::json!([]), "{name}");
    let faint = browser.run(FAINT).await;
    assert_eq!(faint, serde_json::json!([]), "{name}");
    if screen == Screen::Phone {
        let small = browser
            .run(
                "return [...document.querySelectorAll('select, input[type=search], button, a:not(.skip), .check, #kinds label, summary')]
                .filter(control => control.checkVisibility() && control.getBoundingClientRect().height < 44)
                .map(control => control.outerHTML)",
            )
            .await;
        assert_eq!(small, serde_json::json!([]), "{name}");
    }
}

/// A script that finds texts with a contrast below 4.5 to their background.
const FAINT: &str = "
    const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const light = color => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = color;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(byte => byte / 255)
            .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = element => {
        for (let at = element; at !== null; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (color !== 'rgba(0, 0, 0, 0)') return color;
        }
        return 'white';
    };
    const hasText = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== '');
    return [...document.querySelectorAll('body *')].filter(element => {
        if (!hasText(element) || element.closest('script, style, noscript, title, select, :disabled') !== null
            || !element.checkVisibility()) return false;
        const style = getComputedStyle(element);
        const two = [light(element instanceof SVGElement ? style.fill : style.color), light(behind(element))];
        return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05) < 4.5;
    }).map(element => element.outerHTML.slice(0, 200))";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_selection_filters_the_table_and_is_in_the_address() {
    let relayer = Relayer::of_size(25, 400);
    let (_server, browser) = looking_at(&relayer, "").await;
    browser.click(&spot("osmosis-1")).await;
    assert_eq!(browser.text(HASH).await, "#chain=osmosis-1");
    let of_osmosis = relayer.workers_of("osmosis-1");
    assert_eq!(browser.text(COUNT).await, format!("{of_osmosis} of 400 workers"));
    assert_eq!(
        browser.text("return document.querySelector('#chosen-title').textContent").await,
        "osmosis-1"
    );
    browser.type_into("#find", "ICAHOST channel").await;
    assert_eq!(browser.text(HASH).await, "#chain=osmosis-1&find=ICAHOST+channel");
    let all_are = "return [...document.querySelectorAll('#table tbody tr')].every(row =>
        row.textContent.includes('icahost') && row.textContent.includes('osmosis-1'))";
    assert_eq!(browser.run(all_are).await, true);
    assert!(browser.count(ROWS).await > 0);
    browser.click("#kinds label[data-kind='Client']").await;
    assert_eq!(browser.text(HASH).await, "#chain=osmosis-1&kind=Client&find=ICAHOST+channel");
    assert_eq!(
        browser.text("return document.querySelector('#empty').innerText").await,
        "No worker matches."
    );
    // A shared address shows the same view.
    let shared = browser.text("return location.href").await;
    browser.open(&shared).await;
    let find = "return document.querySelector('#find').value";
    assert_eq!(browser.text(find).await, "ICAHOST channel");
    assert_eq!(browser.count(ROWS).await, 0);
    // The history has an entry for each selection, not for each letter.
    browser.click("#kinds label[data-kind='']").await;
    browser.run("history.back()").await;
    browser.wait("return location.hash.includes('kind=Client') && document.querySelector('[name=kind][value=Client]').checked").await;
    browser.click("#all").await;
    assert_eq!(browser.text(HASH).await, "#kind=Client&find=ICAHOST+channel");
    // A line selects two chains.
    browser.open(&address_of(&shared, "#chain=cosmoshub-4")).await;
    browser.run(
        "document.querySelector('#graph .line[aria-label^=\"cosmoshub-4 and osmosis-1:\"] .hit')
            .dispatchEvent(new MouseEvent('click', { bubbles: true }))",
    ).await;
    assert_eq!(browser.text(HASH).await, "#chain=cosmoshub-4&with=osmosis-1");
    let rows = browser.count("return [...document.querySelectorAll('#chosen-counts td')].reduce((all, cell) => all + Number(cell.textContent), 0)").await;
    assert_eq!(browser.text(COUNT).await, format!("{rows} of 400 workers"));
    browser.picture("line").await;
    // The text view has the same selections.
    browser.click("#all").await;
    browser.click("#as-text summary").await;
    let texts = "return document.querySelectorAll('#text-of-pairs tr').length";
    browser.wait(&format!("{texts} > 0")).await;
    assert_eq!(browser.count(texts).await, relayer.pairs() as u64);
    browser.picture("as-text").await;
    browser.click("#text-of-pairs button").await;
    assert!(browser.text(HASH).await.contains("&with="));
    assert_eq!(browser.complaints().await, [""; 0]);
}

fn address_of(address: &str, hash: &str) -> String {
    format!("{}{hash}", address.split('#').next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_dashboard_can_be_used_with_the_keyboard_alone() {
    let (_server, browser) = looking_at(&Relayer::of_size(8, 90), "").await;
    // The link to the table, the list of chains, and the graph, which is a single tab
    // stop.
    browser.press(&[TAB]).await;
    assert_eq!(browser.text(FOCUS).await, "skip");
    browser.press(&[TAB]).await;
    assert_eq!(browser.text(FOCUS).await, "chain");
    browser.press(&[TAB]).await;
    assert!(browser.text(FOCUS).await.starts_with("axelar-dojo-1: "));
    assert_eq!(browser.text(HASH).await, "", "coming along chooses nothing");
    browser.picture("focus").await;
    browser.press(&[RIGHT, RIGHT]).await;
    assert!(browser.text(FOCUS).await.starts_with("cosmoshub-4: "));
    assert_eq!(browser.text(HASH).await, "#chain=cosmoshub-4");
    browser.press(&[DOWN]).await;
    assert!(browser.text(FOCUS).await.starts_with("axelar-dojo-1 and cosmoshub-4: "));
    assert_eq!(browser.text(HASH).await, "#chain=cosmoshub-4&with=axelar-dojo-1");
    browser.press(&[ENTER]).await;
    assert_eq!(browser.text(HASH).await, "");
    browser.press(&[RIGHT, ESCAPE]).await;
    assert_eq!(browser.text(HASH).await, "");
    let stops = browser.count("return document.querySelectorAll('#graph [tabindex=\"0\"]').length");
    assert_eq!(stops.await, 1);
    // The list of chains is next: the region, four headers and a button for each chain.
    browser.press(&[TAB]).await;
    assert_eq!(browser.text(FOCUS).await, "List of chains");
    browser.press(&[TAB; 4 + 8 + 2]).await;
    assert_eq!(browser.text(FOCUS).await, "find");
    assert_eq!(browser.complaints().await, [""; 0]);
}

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
async fn an_unknown_state_is_described_in_words() {
    let server = server().await;
    let browser = Browser::start().await;
    browser.look(Screen::Desktop, "light").await;
    browser.open(&address(&server, "")).await;
    let why = "The state of the relayer is not known: the relayer's state is not known yet.";
    assert_eq!(browser.text(NOTICE).await, why);
    assert_eq!(
        browser.text("return document.querySelector('#no-chains').innerText").await,
        "The chains are not known."
    );
    // The chains are shown once they are known, the rest afterwards.
    server.publisher.set_chains(Relayer::of_size(8, 90).chains).unwrap();
    browser.wait(&format!("{SPOTS} === 8")).await;
    assert_eq!(
        browser.text("return document.querySelector('#empty').innerText").await,
        "The workers are not known."
    );
    browser.picture("not-ready").await;
    Relayer::of_size(8, 90).publish(&server.publisher);
    browser.wait(&format!("{ROWS} === 50")).await;
    assert_eq!(browser.text(NOTICE).await, "");
    // A state that becomes unknown is not shown any more.
    let reason = NotReady { message: "gone <b>".into(), retry_after: Duration::from_secs(1) };
    server.publisher.set_not_ready(reason);
    browser.wait(&format!("{ROWS} === 0")).await;
    assert_eq!(browser.text(NOTICE).await, "The state of the relayer is not known: gone <b>.");
    server.publisher.set_ready();
    browser.wait(&format!("{ROWS} === 50")).await;
    // Only Chromium's own notes about error responses are expected.
    for complaint in browser.complaints().await {
        assert!(complaint.contains("status of 503"), "{complaint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_stale_state_is_shown_with_a_warning() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    assert_eq!(browser.text(NOTICE).await, "");
    let since = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
    server.publisher.set_stale(Some(Stale { since, chains: true }));
    browser
        .wait(&format!(
            r"{NOTICE}.match(/^The relayer has not responded since .+, for 3\d s\. /) !== null"
        ))
        .await;
    assert!(browser.text(STATUS).await.starts_with("Stale since "));
    assert_eq!(browser.text(LEVEL).await, "bad");
    assert_eq!(browser.count(ROWS).await, 10);
    browser.picture("old").await;
    server.publisher.set_stale(None);
    browser.wait(&format!("{NOTICE} === ''")).await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn an_unreachable_server_is_reported() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    server.stop().await.unwrap();
    browser
        .wait(&format!("{NOTICE}.startsWith('The server does not respond. This is the state at ')"))
        .await;
    assert_eq!(browser.count(ROWS).await, 10, "what was known stays");
    let told = "return document.querySelector('#announcer').textContent";
    assert!(browser.text(told).await.starts_with("The server does not respond."));
    browser.picture("gone").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn problems_come_first_with_counts_and_links() {
    let relayer = Relayer::of_size(24, 400).without(14);
    let (_server, browser) = looking_at(&relayer, "").await;
    assert_eq!(browser.text(STATUS).await, "14 of 24 chains not connected");
    assert_eq!(browser.text(LEVEL).await, "bad");
    assert_eq!(
        browser.text("return document.querySelector('#problems-title').textContent").await,
        "2 problems"
    );
    let problem = |number: u32| format!("#problem-list > li:nth-child({number})");
    let sentence =
        |number| format!("return document.querySelector('{} p span').textContent", problem(number));
    assert_eq!(browser.text(&sentence(1)).await, "14 of 24 chains are not connected.");
    let blocked = relayer.blocked();
    let expected = format!("{blocked} of 400 workers are blocked: a chain is not connected.");
    assert_eq!(browser.text(&sentence(2)).await, expected);
    // Screen readers hear the problems, too.
    let told = browser.text("return document.querySelector('#announcer').textContent").await;
    assert!(told.starts_with("14 of 24 chains are not connected. "), "{told}");
    // The chains with most workers are linked to them.
    let links = format!("[...document.querySelectorAll('{} .links a')]", problem(1));
    let names = browser.run(&format!("return {links}.map(link => link.textContent)")).await;
    let names: Vec<_> =
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let (more, chains) = names.split_last().unwrap();
    assert_eq!((*more, chains.len()), ("6 more", 8));
    let counts: Vec<_> = chains.iter().map(|chain| relayer.workers_of(chain)).collect();
    assert!(counts.is_sorted_by(|one, other| one >= other), "{counts:?}");
    browser.click(&format!("{} .links a", problem(1))).await;
    assert_eq!(browser.text(HASH).await, format!("#chain={}", chains[0]));
    assert_eq!(browser.text(COUNT).await, format!("{} of 400 workers", counts[0]));
    assert_eq!(browser.text(FOCUS).await, "workers");
    // The link to the blocked workers shows exactly these.
    browser.click(&format!("{} p a", problem(2))).await;
    assert_eq!(browser.text(HASH).await, "#only=problems");
    assert_eq!(browser.text(COUNT).await, format!("{blocked} of 400 workers"));
    let shared = browser.text("return location.href").await;
    browser.open(&shared).await;
    assert_eq!(browser.text(COUNT).await, format!("{blocked} of 400 workers"));
    browser.click("#only").await;
    assert_eq!(browser.text(COUNT).await, "400 workers");
    // The link to the chains shows the list, in which these are first.
    browser.click(&format!("{} p a", problem(1))).await;
    assert_eq!(browser.text(FOCUS).await, "List of chains");
    let states = "return [...document.querySelectorAll('#chain-table td.state')].map(cell => cell.textContent)";
    let states = browser.run(states).await;
    let states = states.as_array().unwrap();
    assert!(states[..14].iter().all(|state| state == "not connected"), "{states:?}");
    assert!(states[14..].iter().all(|state| state == "connected"), "{states:?}");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_status_follows_the_worst_problem() {
    let relayer = Relayer::of_size(4, 40);
    let (server, browser) = looking_at(&relayer, "").await;
    assert_eq!(browser.text(STATUS).await, "No problems");
    assert_eq!(browser.text(LEVEL).await, "good");
    assert_eq!(
        browser.text("return document.querySelector('#healthy').textContent").await,
        "The state is current, and all 4 chains are connected."
    );
    let color = "return getComputedStyle(document.querySelector('#status-text')).color";
    let good = browser.text(color).await;
    // The sample is marked even while there are worse problems.
    server.publisher.add_source(SourceKind::Sample, "").responded();
    browser.wait(&format!("{STATUS} === 'Sample'")).await;
    assert_eq!(browser.text(LEVEL).await, "warn");
    assert!(browser.text(NOTICE).await.starts_with("This is the built-in sample, not a relayer."));
    let warn = browser.text(color).await;
    browser.picture("sample").await;
    relayer.clone().without(1).publish(&server.publisher);
    browser.wait(&format!("{STATUS} === '1 of 4 chains not connected'")).await;
    assert_eq!(browser.text(LEVEL).await, "bad");
    assert_eq!(browser.count(PROBLEMS).await, 3);
    assert_eq!(
        browser.run("return document.querySelector('#sample').checkVisibility()").await,
        true
    );
    let bad = browser.text(color).await;
    assert!(good != warn && warn != bad && good != bad, "{good} {warn} {bad}");
    // A stale state is worse, because the rest may have changed since.
    let since = Instant::now().checked_sub(Duration::from_mins(5)).unwrap();
    server.publisher.set_stale(Some(Stale { since, chains: true }));
    browser.wait(&format!("{STATUS}.startsWith('Stale since ')")).await;
    assert_eq!(browser.count(PROBLEMS).await, 4);
    server.publisher.set_stale(None);
    relayer.publish(&server.publisher);
    browser.wait(&format!("{STATUS} === 'Sample'")).await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_failing_source_is_named_with_the_time() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    let file = server.publisher.add_source(SourceKind::StateFile, "/secret/a\"b,c;d.json");
    server.publisher.add_source(SourceKind::RelayerConfig, "config.toml").responded();
    file.failed("not valid JSON");
    browser.wait(&format!("{STATUS} === 'Source fails'")).await;
    let text = browser.text(NOTICE).await;
    assert!(text.starts_with("The source state-file a\"b,c;d.json has failed since "), "{text}");
    assert_eq!(browser.count(PROBLEMS).await, 1);
    file.responded();
    browser.wait(&format!("{STATUS} === 'No problems'")).await;
}

/// Returns a family of gauges, with the names and values of labels separated by spaces.
fn family(name: &str, samples: &[(&str, f64)]) -> MetricFamily {
    let sample = |(labels, value): &(&str, f64)| {
        let words: Vec<_> = labels.split(' ').collect();
        let labels = words.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect();
        Sample { name: name.into(), labels, value: *value, since: SystemTime::UNIX_EPOCH }
    };
    let samples = samples.iter().map(sample).collect();
    MetricFamily { name: name.into(), kind: MetricKind::Gauge, help: String::new(), samples }
}

/// Returns the telemetry of a relayer with a pending packet and these balances.
fn telemetry(balances: [f64; 2]) -> Vec<MetricFamily> {
    let channel = "chain cosmoshub-4 counterparty osmosis-1 channel channel-141 port transfer";
    let [hub, osmosis] = [
        "chain cosmoshub-4 account cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu denom uatom",
        "chain osmosis-1 account osmo1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5nwxq9m denom uosmo",
    ];
    let client = "src_chain cosmoshub-4 dst_chain osmosis-1 client 07-tendermint-1";
    let error = "account cosmos1qypqxpq9 error_code 13 error_description insufficient-fee";
    vec![
        family("backlog_oldest_sequence", &[(channel, 4711.0)]),
        family("backlog_size", &[(channel, 12.0)]),
        family("wallet_balance", &[(hub, balances[0]), (osmosis, balances[1])]),
        family("client_updates_submitted_total", &[(client, 42.0)]),
        family("client_updates_skipped_total", &[(client, 3.0)]),
        family("broadcast_errors_total", &[(error, 5.0)]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_telemetry_is_shown_with_its_problems() {
    const HIDDEN: &str = "return document.querySelector('#telemetry').hidden";
    const CELLS: &str = "return [...document.querySelectorAll('#telemetry tbody tr')]\
        .map((row) => [...row.cells].map((cell) => cell.textContent).join(' | ')).join('\\n')";
    let (server, browser) = looking_at(&Relayer::of_size(8, 20), "").await;
    assert_eq!(browser.run(HIDDEN).await, true);
    let start = SystemTime::UNIX_EPOCH + Duration::from_hours(490_000);
    let publisher = &server.publisher;
    publisher.set_telemetry(telemetry([1_500_000.0, 2.5]), start);
    publisher.set_telemetry(telemetry([1_500_000.0, 2.5]), start + Duration::from_mins(5));
    browser.wait("return !document.querySelector('#telemetry').hidden").await;
    let rows = browser.text(CELLS).await;
    let expected = [
        "5 min | cosmoshub-4 | osmosis-1 | channel-141 transfer | 4,711 | 12",
        "cosmoshub-4 | 1,500,000 | uatom | cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu",
        "osmosis-1 | 2.5 | uosmo | osmo1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5nwxq9m",
        "cosmos1qypqxpq9 | broadcast | insufficient-fee | 5",
        "cosmoshub-4 | osmosis-1 | 07-tendermint-1 | 42 | 3",
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    assert_eq!(browser.text(STATUS).await, "No problems");
    publisher.set_telemetry(telemetry([1_500_000.0, 0.0]), start + Duration::from_hours(2));
    browser.wait("return document.querySelectorAll('#problem-list > li').length === 2").await;
    let problems = browser.text(NOTICE).await;
    for text in [
        "1 channel has packets that have been pending for more than 10 min, the oldest for 2 h.",
        "1 wallet is empty, on osmosis-1.",
    ] {
        assert!(problems.contains(text), "{problems}");
    }
    browser.click("#problem-list li:first-child a").await;
    assert_eq!(browser.text(FOCUS).await, "packets");
    for screen in [Screen::Desktop, Screen::Phone] {
        for scheme in ["light", "dark"] {
            browser.look(screen, scheme).await;
            let name = format!("telemetry-{screen:?}-{scheme}").to_lowercase();
            browser.run("document.querySelector('#telemetry').scrollIntoView()").await;
            browser.picture(&name).await;
            check_layout(&browser, screen, &name).await;
        }
    }
    publisher.set_telemetry_stale(Some(Instant::now()));
    browser.wait("return document.querySelectorAll('#problem-list > li').length === 3").await;
    assert!(browser.text(NOTICE).await.contains("The telemetry has not been readable since "));
    publisher.set_telemetry_not_ready(NotReady::default());
    browser.wait("return document.querySelector('#telemetry').hidden").await;
    assert_eq!(browser.text(STATUS).await, "No problems");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn tables_are_sorted_by_pointer_and_keyboard() {
    let relayer = Relayer::of_size(24, 400).without(14);
    let (_server, browser) = looking_at(&relayer, "").await;
    let column = |table: &str, number: u32| {
        format!(
            "[...document.querySelectorAll('#{table} tbody tr')].map(row => row.children[{number}].textContent)"
        )
    };
    let sorted_headers = "return [...document.querySelectorAll('#table [aria-sort]')].map(header => `${header.dataset.column} ${header.ariaSort}`)";
    // Problems are first.
    assert_eq!(browser.run(sorted_headers).await, serde_json::json!(["state descending"]));
    let all_blocked = format!("return {}.every(state => state === 'blocked')", column("table", 0));
    assert_eq!(browser.run(&all_blocked).await, true);
    // The pointer sorts by a column, and then in the other direction.
    browser.click("#table th.number button").await;
    assert_eq!(browser.run(sorted_headers).await, serde_json::json!(["number ascending"]));
    assert_eq!(browser.text(HASH).await, "#sort=number");
    let expected: Vec<_> = (1..=50).map(|id| id.to_string()).collect();
    let numbers = format!("return {}", column("table", 6));
    assert_eq!(browser.run(&numbers).await, serde_json::json!(expected));
    browser.click("#table th.number button").await;
    let expected: Vec<_> = (351..=400).rev().map(|id| id.to_string()).collect();
    assert_eq!(browser.run(&numbers).await, serde_json::json!(expected));
    // A shared address has the same order.
    let shared = browser.text("return location.href").await;
    browser.open(&shared).await;
    assert_eq!(browser.run(sorted_headers).await, serde_json::json!(["number descending"]));
    // The keyboard sorts, too, and stays at the header.
    browser.run("document.querySelector('#table th.from button').focus()").await;
    browser.press(&[ENTER]).await;
    assert_eq!(browser.run(sorted_headers).await, serde_json::json!(["from ascending"]));
    assert_eq!(browser.text("return document.activeElement.textContent").await, "From");
    let is_sorted = format!(
        "const names = {}; return names.every((name, at) => at === 0 || names[at - 1] <= name)",
        column("table", 2)
    );
    assert_eq!(browser.run(&is_sorted).await, true);
    // So is the list of chains.
    browser.click("#chain-table th[data-column='workers'] button").await;
    let most = browser.text(&format!("return {}[0]", column("chain-table", 1))).await;
    let max = relayer.chains.iter().map(|chain| relayer.workers_of(chain.id.as_str())).max();
    assert_eq!(Some(relayer.workers_of(&most)), max);
    assert_eq!(browser.text(HASH).await, "#sort=from&sort-chains=-workers");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_graph_of_many_chains_has_the_lines_of_one() {
    let relayer = Relayer::of_size(40, 700);
    let (_server, browser) = looking_at(&relayer, "").await;
    // Without a choice, these are the lines of the chain with most blocked workers.
    let [down] = &*relayer
        .chains
        .iter()
        .filter(|chain| !relayer.state.chains.contains(&chain.id))
        .collect::<Vec<_>>()
    else {
        panic!("one chain is not connected");
    };
    let down = down.id.as_str();
    assert_eq!(browser.count(LINES).await, relayer.neighbours(down) as u64);
    assert_eq!(
        browser.text("return document.querySelector('#focus').textContent").await,
        format!("Only the lines of {down}, which has the most blocked workers, are drawn.")
    );
    assert_eq!(browser.text(COUNT).await, "700 workers");
    // The pointer, the keyboard and the list of chains choose another chain.
    let focused = |chain: &str| {
        format!(
            "return document.querySelector('#focus').textContent === 'Only the lines of {chain} are drawn.'"
        )
    };
    browser.click(&spot("osmosis-1")).await;
    browser.wait(&focused("osmosis-1")).await;
    assert_eq!(browser.count(LINES).await, relayer.neighbours("osmosis-1") as u64);
    browser
        .run(&format!("document.querySelector(\"{}\").parentNode.focus()", spot("juno-1")))
        .await;
    browser.press(&[ENTER]).await;
    browser.wait(&focused("juno-1")).await;
    assert_eq!(browser.count(LINES).await, relayer.neighbours("juno-1") as u64);
    browser.run("const list = document.querySelector('#chain'); list.value = 'noble-1'; list.dispatchEvent(new Event('change'))").await;
    browser.wait(&focused("noble-1")).await;
    assert_eq!(browser.count(LINES).await, relayer.neighbours("noble-1") as u64);
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn unhealthy_parts_of_the_graph_stand_out() {
    let relayer = Relayer::of_size(10, 120);
    let (_server, browser) = looking_at(&relayer, "").await;
    let down = relayer.chains[9].id.as_str();
    let styles = browser
        .run(&format!(
            "const style = (element, name) => getComputedStyle(element)[name];
            const of = (element, name) => Number.parseFloat(style(element, name));
            const lines = [...document.querySelectorAll('#graph .line')];
            const isDown = line => line.getAttribute('aria-label').includes('{down}');
            const opacities = which => lines.filter(which).map(line => of(line.querySelector('.stroke'), 'opacity'));
            const spot = document.querySelector(\"{}\").parentNode;
            return [
                Math.min(...opacities(isDown)) > Math.max(...opacities(line => !isDown(line))),
                lines.findLastIndex(line => !isDown(line)) < lines.findIndex(isDown),
                style(spot.querySelector('.cross'), 'display') !== 'none',
                Number(style(spot.querySelector('text'), 'fontWeight')) > 400,
            ]",
            spot(down)
        ))
        .await;
    assert_eq!(styles, serde_json::json!([true, true, true, true]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn unhealthy_and_healthy_relayers_fit_on_every_screen() {
    let browser = Browser::start().await;
    let mut servers = Vec::new();
    for (name, down) in [("healthy", 0), ("unhealthy", 14)] {
        let relayer = Relayer::of_size(24, 400).without(down);
        let server = server().await;
        relayer.publish(&server.publisher);
        for screen in [Screen::Desktop, Screen::Tablet, Screen::Phone] {
            for scheme in ["light", "dark"] {
                browser.look(screen, scheme).await;
                browser.open(&address(&server, "")).await;
                let name = format!("{name}-{screen:?}-{scheme}").to_lowercase();
                browser.picture(&name).await;
                let level = if down == 0 { "good" } else { "bad" };
                assert_eq!(browser.text(LEVEL).await, level, "{name}");
                let graph = "return document.querySelector('#graph').checkVisibility()";
                assert_eq!(browser.run(graph).await, screen != Screen::Phone, "{name}");
                assert_eq!(browser.count(CHAIN_ROWS).await, 24, "{name}");
                check_layout(&browser, screen, &name).await;
            }
        }
        servers.push(server);
    }
    // On a phone, the list selects as the graph does.
    browser.click("#chain-table tbody tr:nth-child(2) button").await;
    assert!(browser.text(HASH).await.starts_with("#chain="));
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

/// Returns the number of requests for the data since the last call.
async fn requests_for_data(browser: &Browser) -> usize {
    let addresses = browser.requested_addresses().await;
    addresses.iter().filter(|address| address.ends_with("/data")).count()
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

/// Waits until a server has one stream.
async fn stream_of(serving: &Serving) {
    let control = serving.control_client();
    let has_stream = async || {
        let metrics = control.metrics().await.unwrap();
        metrics.lines().any(|line| line == "relayer_rest_live_waiters 1")
    };
    until_async("the page has a stream", has_stream).await;
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_dashboard_works_at_any_mount() {
    let (server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    for path in ["/ext/dashboard", "/ext/dashboard/", "/ext/dashboard?a=b", "/a/b", "/a/b/#find=x"]
    {
        browser.open(&format!("http://{}{path}", server.address)).await;
        assert_eq!(browser.count(SPOTS).await, 2, "{path}");
    }
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn the_light_and_dark_themes_differ() {
    let (_server, browser) = looking_at(&Relayer::of_size(2, 10), "").await;
    let colours = "const { backgroundColor, color } = getComputedStyle(document.body);
        return `${backgroundColor} ${color}`";
    assert_eq!(browser.text(colours).await, "rgb(243, 245, 249) rgb(24, 32, 46)");
    browser.look(Screen::Desktop, "dark").await;
    assert_eq!(browser.text(colours).await, "rgb(12, 17, 26) rgb(229, 234, 243)");
}

/// Names of chains and workers are always shown as text.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn names_are_shown_as_plain_text() {
    const NAME: &str = "<img src=x onerror=document.title=1>'\"&amp;";
    let long = "long-".repeat(50);
    let other = OtherObject {
        kind: NAME.into(),
        fields: vec![
            (NAME.into(), Value::Text(NAME.into())),
            ("long".into(), Value::Text(long.as_str().into())),
        ],
    };
    let client = Object::Client {
        dst_chain_id: long.as_str().into(),
        dst_client_id: NAME.into(),
        src_chain_id: NAME.into(),
    };
    let worker = |id, object| Worker { id, object, data: None };
    let relayer = Relayer {
        chains: vec![ChainConfig::new(NAME, ChainKind::CosmosSdk)],
        state: RelayerState {
            chains: vec![NAME.into(), "__proto__".into()],
            workers: vec![
                worker(u64::MAX, client),
                worker(2, Object::Other(other)),
                worker(3, Object::Wallet { chain_id: "__proto__".into() }),
            ],
        },
    };
    let (server, browser) = looking_at(&relayer, "").await;
    assert_eq!(browser.count("return document.images.length").await, 0);
    assert_eq!(browser.text("return document.title").await, "Relayer");
    assert_eq!(browser.count(SPOTS).await, 3);
    let number = "return document.querySelector('#table .number:nth-child(7)').textContent";
    let first = browser.text(&number.replace(".number", "tbody td")).await;
    assert_eq!(first, u64::MAX.to_string());
    browser.run("document.querySelector('#graph .line .hit').dispatchEvent(new MouseEvent('click', { bubbles: true }))").await;
    assert_eq!(browser.text(COUNT).await, "1 of 3 workers");
    let shared = browser.text("return location.href").await;
    browser.open(&shared).await;
    assert_eq!(browser.text(COUNT).await, "1 of 3 workers");
    browser.open(&address(&server, "#chain=no%20such%20chain&kind=none")).await;
    let chosen = "return document.querySelector('#chosen-text').innerText";
    assert_eq!(browser.text(chosen).await, "Unknown chain.");
    for screen in [Screen::Desktop, Screen::Tablet, Screen::Phone] {
        browser.look(screen, "light").await;
        browser.open(&address(&server, "")).await;
        check_layout(&browser, screen, "names").await;
        browser.picture(&format!("names-{screen:?}").to_lowercase()).await;
    }
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// With each letter, the page changes only the elements that it shows, and these are not more
/// with thousands of workers.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_letter_changes_no_more_nodes_with_thousands_of_workers() {
    let (server, browser) = looking_at(&Relayer::of_size(40, 500), "").await;
    let with_few = changes_of_a_letter(&browser).await;
    Relayer::of_size(40, 5_000).publish(&server.publisher);
    browser.open(&address(&server, "")).await;
    assert_eq!(browser.text(COUNT).await, "5,000 workers");
    let with_many = changes_of_a_letter(&browser).await;
    println!("a letter changes {with_few} and {with_many} nodes");
    assert!(with_few > 0 && with_many <= with_few + with_few / 2, "{with_few} {with_many}");
    // All pages of the table can be reached.
    browser.click("#find").await;
    browser.run("document.querySelector('#find').value = ''; document.querySelector('#find').dispatchEvent(new Event('input'))").await;
    browser.click("#after").await;
    assert_eq!(
        browser.text("return document.querySelector('#page').textContent").await,
        "51 to 100 of 5,000"
    );
}

/// Types a word into the field, and returns the maximum number of nodes that a letter changed.
async fn changes_of_a_letter(browser: &Browser) -> u64 {
    let changes = browser
        .run(
            "const find = document.querySelector('#find');
            const observer = new MutationObserver(() => {});
            const kinds = { attributes: true, characterData: true, childList: true };
            observer.observe(document.body, { ...kinds, subtree: true });
            const all = (nodes) => [...nodes].map(node => node.getElementsByTagName?.('*').length ?? 0)
                .reduce((sum, inside) => sum + inside + 1, 0);
            const count = ({ addedNodes, removedNodes }) =>
                Math.max(1, all(addedNodes) + all(removedNodes));
            const changes = [...'transfer'].map(letter => {
                find.value += letter;
                find.dispatchEvent(new Event('input'));
                return observer.takeRecords().map(count).reduce((sum, one) => sum + one, 0);
            });
            observer.disconnect();
            return Math.max(...changes);",
        )
        .await;
    changes.as_u64().unwrap()
}
