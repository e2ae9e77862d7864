//! Does docs/first-extension.md work, line by line?

use super::page::Page;
use super::reader::Reader;

#[test]
#[ignore = "slow: builds a module with its dependencies"]
fn the_first_extension_works_as_written() {
    let page = Page::read("docs/first-extension.md");
    assert_eq!(Reader::new().follow(&page.text), (21, 4));
}
