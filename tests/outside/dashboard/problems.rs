//! Are problems shown first, in words?

use std::time::{Duration, Instant, SystemTime};

use relayer_rest_host::state::{MetricFamily, MetricKind, NotReady, Sample, SourceKind, Stale};

use super::layout::check_layout;
use super::{
    COUNT, FOCUS, HASH, LEVEL, NOTICE, PROBLEMS, ROWS, SPOTS, STATUS, address, looking_at, server,
};
use crate::browser::{Browser, Screen};
use crate::relayers::Relayer;

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
