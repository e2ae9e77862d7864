//! Can a user select, search and sort, with a pointer and with the keyboard?

use super::{COUNT, FOCUS, HASH, ROWS, address, looking_at, spot};
use crate::browser::{Browser, DOWN, ENTER, ESCAPE, RIGHT, TAB};
use crate::relayers::Relayer;

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
