//! Does README.md match the behaviour, and fit on a page?

use relayer_rest_tests::server::TestServer;

use super::page::Page;
use super::reader::Reader;

fn readme() -> Page {
    Page::read("README.md")
}

#[test]
fn the_readme_fits_on_a_page() {
    let lines = readme().text.lines().count();
    assert!(lines <= 150, "it has {lines} lines");
}

#[tokio::test]
async fn the_quick_start_shows_the_response() {
    let page = readme();
    let example = page.block("console", "$ curl http://127.0.0.1:3000/chains");
    let (_, body) = example.trim_end().split_once('\n').unwrap();
    assert_eq!(TestServer::start().await.get("/chains").await.text(), body);
}

#[test]
fn the_swap_works_as_shown() {
    let page = readme();
    let mut reader = Reader::new();
    reader.run("relayer-rest --listen 127.0.0.1:0 &");
    assert_eq!(reader.run_all(page.block("console", "$ relayer-rest swap")), 4);
}

#[test]
fn a_new_module_is_created_as_shown() {
    for path in ["README.md", "docs/modules.md"] {
        let page = Page::read(path);
        assert_eq!(Reader::new().run_all(page.block("console", "$ relayer-rest new")), 1);
    }
}

#[test]
fn the_speed_is_that_of_the_measurements() {
    let measurements = Page::read("docs/performance.md").text;
    for row in readme().table("## Speed") {
        for cell in &row[1..] {
            let figure = cell.split(':').next().unwrap();
            assert!(measurements.contains(figure), "{figure} is not in docs/performance.md");
        }
    }
}
