//! Do `openssl` and `haproxy` reach listeners with TLS and with the PROXY protocol?

use std::process::{Command, Stdio};

use relayer_rest_tests::certificates::Authority;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::wait::until_async;

use super::free_address;

#[tokio::test]
#[ignore = "needs openssl: apt install openssl"]
async fn openssl_verifies_the_certificate_and_negotiates_the_protocol() {
    let (files, authority) = (Folder::new(), Authority::new());
    for name in ["a.example", "b.example"] {
        authority.issue(name).write(&files, name);
    }
    let ca = files.write("ca.pem", authority.pem());
    let settings = files.write(
        "c.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\n[[listen.tls]]\ncertificate = 'a.example.pem'\nkey = 'a.example.key'\n[[listen.tls]]\ncertificate = 'b.example.pem'\nkey = 'b.example.key'\n",
    );
    let serving = Program::new(["--config", &settings]).start().await;
    let address = serving.url().strip_prefix("https://").unwrap();
    for (name, version, protocol) in [
        ("a.example", "-tls1_2", "http/1.1"),
        ("a.example", "-tls1_3", "h2"),
        ("b.example", "-tls1_3", "http/1.1"),
    ] {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", address, "-servername", name, version])
            .args(["-alpn", protocol, "-CAfile", &ca, "-verify_return_error"])
            .args(["-verify_hostname", name])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(text.contains(&format!("ALPN protocol: {protocol}\n")), "{text}");
        assert!(
            text.contains("Verification: OK") && text.contains(&format!("CN = {name}"))
                || text.contains(&format!("CN={name}")),
            "{text}"
        );
    }
    // Versions with known weaknesses are not served.
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    serving.stop().await;
}

#[tokio::test]
#[ignore = "needs haproxy: apt install haproxy"]
async fn haproxy_sends_both_versions_of_the_proxy_protocol() {
    let files = Folder::new();
    let settings = files.write(
        "c.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\nproxy-protocol = true\n[http]\ntrusted-proxies = ['127.0.0.1/32']\n",
    );
    let serving = Program::new(["--config", &settings]).start().await;
    let server = serving.address();
    for version in
        ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options unique-id,crc32c"]
    {
        let address = free_address();
        let config = files.write(
            "haproxy.cfg",
            format!("defaults\n mode tcp\n timeout connect 10s\n timeout client 60s\n timeout server 60s\nlisten l\n bind {address}\n server s {server} {version} check check-send-proxy\n"),
        );
        let mut proxy = tokio::process::Command::new("haproxy");
        let proxy = proxy.args(["-db", "-f", &config]).kill_on_drop(true).spawn().unwrap();
        let connects = async || tokio::net::TcpStream::connect(address).await.is_ok();
        until_async("the proxy listens", connects).await;
        let mut client = Client::http1(address).await;
        for _ in 0..3 {
            assert_eq!(client.get("/version").await.status, 200, "{version}");
        }
        drop(proxy);
    }
    serving.stop().await;
}
