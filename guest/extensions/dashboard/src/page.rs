//! `GET /`: the page.

use relayer_rest_sdk::Response;

/// The content type of the page.
pub(crate) const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The page that `build.rs` assembled from `page/`.
const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.html"));

/// The content security policy, with the digests of the script and the style.
const POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/policy.txt"));

pub(crate) fn page() -> Response {
    Response::of_type(CONTENT_TYPE, PAGE)
        .with_header("content-security-policy", POLICY)
        .with_header("referrer-policy", "no-referrer")
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use relayer_rest_sdk::testing::FakeHost;
    use relayer_rest_sdk::{Request, Response};
    use sha2::{Digest, Sha256};

    fn page() -> Response {
        crate::handle(&FakeHost::new(), &Request::get("/"))
    }

    /// Returns the content of the only element with this name.
    fn element(name: &str) -> String {
        let page = page();
        let (_, rest) = page.text_body().split_once(&format!("<{name}")).unwrap();
        assert!(!rest.contains(&format!("<{name}")), "one {name}");
        let (_, rest) = rest.split_once('>').unwrap();
        rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
    }

    #[test]
    fn the_page_is_html() {
        let page = page();
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert!(page.text_body().starts_with("<!doctype html>"));
    }

    #[test]
    fn the_policy_allows_only_the_pages_own_script_and_style() {
        let page = page();
        let policy = page.header("content-security-policy").unwrap();
        let rules: Vec<&str> = policy.split("; ").collect();
        for (rule, name) in [("script-src", "script"), ("style-src", "style")] {
            let hash = BASE64_STANDARD.encode(Sha256::digest(element(name)));
            assert!(rules.contains(&&*format!("{rule} 'sha256-{hash}'")), "{policy}");
        }
        for rule in [
            "default-src 'none'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(rules.contains(&rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    /// The policy forbids all of these; a page that used one would be broken.
    #[test]
    fn the_page_has_neither_external_nor_inline_resources() {
        let page = page();
        let page = page.text_body().to_ascii_lowercase();
        for forbidden in ["src=", "rel=\"stylesheet", "@import", " style=", " onclick=", "<base"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(!element("style").contains("url("));
        // The namespace of SVG is not fetched.
        let addresses = page.replace("'http://www.w3.org/2000/svg'", "");
        assert!(!addresses.contains("http://") && !addresses.contains("https://"));
    }

    /// Names of chains are always shown as text.
    #[test]
    fn the_script_creates_no_html_from_text() {
        let script = element("script");
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
        {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }

    /// It is the same for all requests, so that its cached response stays valid.
    #[test]
    fn the_page_is_the_same_for_every_state_and_mount() {
        let elsewhere = FakeHost::not_ready("wait").mounted_at("/a/\"><script>");
        assert_eq!(crate::handle(&elsewhere, &Request::get("/")), page());
    }

    #[test]
    fn the_page_is_small() {
        let size = page().body.len();
        assert!(size < 96 << 10, "{size}");
    }
}
