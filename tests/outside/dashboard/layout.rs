//! Is everything shown on every screen, and legible?

use relayer_rest_host::state::{
    ChainConfig, ChainKind, Object, OtherObject, RelayerState, Value, Worker,
};

use super::{
    CHAIN_ROWS, COUNT, HASH, LEVEL, LINES, ROWS, SPOTS, address, looking_at, server, spot,
};
use crate::browser::{Browser, ENTER, Screen};
use crate::relayers::Relayer;

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

/// Checks that nothing overflows, touch targets are large enough, and texts are legible.
pub(super) async fn check_layout(browser: &Browser, screen: Screen, name: &str) {
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
