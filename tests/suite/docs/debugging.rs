//! Does docs/debugging.md work, line by line?

use super::page::Page;
use super::reader::Reader;

#[test]
#[ignore = "slow: builds a module with its dependencies"]
fn debugging_works_as_written() {
    let page = Page::read("docs/debugging.md");
    assert_eq!(Reader::new().follow(&page.text), (15, 3));
}
