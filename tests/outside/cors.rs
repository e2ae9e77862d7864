//! Does a browser let a page of another origin read responses if the settings allow it?

use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

use super::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver: apt-get install chromium chromium-driver"]
async fn a_browser_reads_responses_if_the_settings_allow_it() {
    let page = Program::server().start().await;
    let folder = Folder::new();
    let settings = format!("[cors]\norigins = ['http://{}']\n", page.address());
    let config = folder.write("c.toml", settings);
    let allowed = Program::server().args(["--config", &config]).start().await;
    let closed = Program::server().start().await;
    let browser = Browser::start().await;
    browser.visit(&format!("http://{}/version", page.address())).await;
    let read = async |server: &str, options: &str| {
        let script = format!(
            "return fetch('http://{server}/chains', {options}).then(
                async (response) => response.status + ' ' + response.headers.get('etag') + ' ' + await response.text(),
                (error) => 'refused')"
        );
        browser.text(&script).await
    };
    let address = allowed.address().to_string();
    let response = read(&address, "{}").await;
    assert!(response.starts_with("200 \"") && response.contains("success"), "{response}");
    let etag = response.split(' ').nth(1).unwrap();
    // This header needs a preflight.
    let options = format!("{{ headers: {{ 'if-none-match': '{etag}' }}, cache: 'no-store' }}");
    assert!(read(&address, &options).await.starts_with("304 "));
    // A command does not pass the preflight.
    let command = "{ method: 'POST', headers: { authorization: 'Bearer x' } }";
    assert_eq!(read(&address, command).await, "refused");
    assert_eq!(read(&closed.address().to_string(), "{}").await, "refused");
}
