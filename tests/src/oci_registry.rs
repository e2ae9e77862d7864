//! An OCI registry in this process, which tests can make faulty.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use relayer_rest_host::module::Digest;
use relayer_rest_host::oci::Reference;
use serde_json::{Value, json};

use crate::certificates::SigningKey;

/// The type of bundles of Sigstore.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The credentials that the registry accepts, and the same in base64.
pub const USER: (&str, &str) = ("user", "secret");
/// The token for which the service also gives one.
pub const IDENTITY_TOKEN: &str = "identity";
const BASIC: &str = "Basic dXNlcjpzZWNyZXQ=";

/// The authentication that a registry asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Authentication {
    /// None.
    #[default]
    None,
    /// The user's name and password.
    Basic,
    /// A token, which a service gives for these.
    Bearer,
}

/// A registry on a free port.
pub struct OciRegistry {
    /// Its address.
    pub address: SocketAddr,
    content: Arc<Mutex<Content>>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Content {
    manifests: HashMap<String, Vec<u8>>,
    blobs: HashMap<String, Vec<u8>>,
    /// Lists of the manifests that refer to others.
    referrers: HashMap<String, Vec<u8>>,
    authentication: Authentication,
    /// The server to which requests for blobs are redirected.
    blob_store: Option<SocketAddr>,
    /// The requests, with their header `Authorization`.
    requests: Vec<String>,
}

struct Request {
    method: String,
    path: String,
    query: String,
    authorization: String,
    body: Vec<u8>,
}

#[expect(clippy::must_use_candidate, reason = "adding content has an effect")]
impl OciRegistry {
    /// Starts a registry without authentication.
    #[must_use]
    pub fn start() -> Self {
        Self::with_authentication(Authentication::None)
    }

    /// Starts a registry.
    #[must_use]
    pub fn with_authentication(authentication: Authentication) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let content = Content { authentication, ..Content::default() };
        let content = Arc::new(Mutex::new(content));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let registry = Self { address, content, is_stopped };
        let content = Arc::clone(&registry.content);
        let is_stopped = Arc::clone(&registry.is_stopped);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(SeqCst) {
                    break;
                }
                let content = Arc::clone(&content);
                thread::spawn(move || serve(&stream.unwrap(), &content, address));
            }
        });
        registry
    }

    /// Redirects requests for blobs to another server.
    pub fn redirect_blobs(&self, store: &Self) {
        let mut content = self.content.lock().unwrap();
        store.content.lock().unwrap().blobs.clone_from(&content.blobs);
        content.blob_store = Some(store.address);
    }

    /// Adds a module in the layout of `wkg` under a tag, and returns its reference.
    pub fn add(&self, repository: &str, tag: &str, component: &[u8]) -> Reference {
        let config = self.add_blob("application/vnd.wasm.config.v0+json", b"{}");
        let layer = self.add_blob("application/wasm", component);
        self.add_manifest(repository, tag, &manifest(&config, &[layer]))
    }

    /// Adds a manifest under a tag, and returns its reference.
    pub fn add_manifest(&self, repository: &str, tag: &str, manifest: &Value) -> Reference {
        self.add_manifest_bytes(repository, tag, manifest.to_string().as_bytes())
    }

    /// Adds the bytes of a manifest under a tag, and returns its reference.
    pub fn add_manifest_bytes(&self, repository: &str, tag: &str, bytes: &[u8]) -> Reference {
        let digest = Digest::new(bytes);
        let mut content = self.content.lock().unwrap();
        for name in [tag, &format!("sha256:{digest}")] {
            content.manifests.insert(format!("{repository}/{name}"), bytes.to_owned());
        }
        drop(content);
        self.reference(repository, tag).pinned(digest)
    }

    /// Adds a blob, and returns its descriptor.
    pub fn add_blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", Digest::new(bytes));
        self.content.lock().unwrap().blobs.insert(digest.clone(), bytes.to_owned());
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// Signs a module as cosign does.
    ///
    /// # Panics
    /// Panics if the reference has no digest.
    pub fn sign(&self, module: &Reference, key: &SigningKey) {
        let digest = module.digest().expect("the module is pinned");
        let payload = signed_payload(digest);
        let signature = STANDARD.encode(key.sign(&payload));
        self.add_signature(module.repository(), digest, &payload, &signature);
    }

    /// Adds a signature in the form of cosign: a payload and its signature, in base64.
    pub fn add_signature(
        &self,
        repository: &str,
        manifest: Digest,
        payload: &[u8],
        signature: &str,
    ) {
        let mut layer = self.add_blob("application/vnd.dev.cosign.simplesigning.v1+json", payload);
        layer["annotations"] = json!({ "dev.cosignproject.cosign/signature": signature });
        let config = self.add_blob("application/vnd.oci.image.config.v1+json", b"{}");
        let tag = format!("sha256-{manifest}.sig");
        self.add_manifest(repository, &tag, &self::manifest(&config, &[layer]));
    }

    /// Adds a bundle of Sigstore that refers to a manifest.
    pub fn add_bundle(&self, repository: &str, subject: Digest, bundle: &[u8]) {
        let layer = self.add_blob(BUNDLE, bundle);
        let config = self.add_blob("application/vnd.oci.empty.v1+json", b"{}");
        let added = self.add_manifest(repository, "bundle", &manifest(&config, &[layer]));
        self.refer(repository, subject, added.digest().unwrap());
    }

    /// Adds a manifest to the bundles that refer to another one, whether it exists or not.
    pub fn refer(&self, repository: &str, subject: Digest, bundle: Digest) {
        let key = format!("{repository}/sha256:{subject}");
        let digest = format!("sha256:{bundle}");
        let entry = json!({ "artifactType": BUNDLE, "digest": digest, "size": 1 });
        let mut content = self.content.lock().unwrap();
        let index = content.referrers.get(&key).map(|index| serde_json::from_slice(index).unwrap());
        let mut index: Value =
            index.unwrap_or_else(|| json!({ "schemaVersion": 2, "manifests": [] }));
        index["manifests"].as_array_mut().unwrap().push(entry);
        content.referrers.insert(key, index.to_string().into_bytes());
    }

    /// Replaces all blobs of this content by another one, as a hostile registry would.
    pub fn tamper(&self, before: &[u8], after: &[u8]) {
        let mut content = self.content.lock().unwrap();
        let Content { blobs, manifests, .. } = &mut *content;
        for bytes in blobs.values_mut().chain(manifests.values_mut()) {
            if bytes == before {
                after.clone_into(bytes);
            }
        }
    }

    /// Returns a manifest.
    #[must_use]
    pub fn manifest(&self, repository: &str, name: &str) -> Vec<u8> {
        self.content.lock().unwrap().manifests[&format!("{repository}/{name}")].clone()
    }

    /// Returns the blob that a descriptor names.
    #[must_use]
    pub fn blob(&self, descriptor: &Value) -> Vec<u8> {
        self.content.lock().unwrap().blobs[descriptor["digest"].as_str().unwrap()].clone()
    }

    /// Returns the reference to a tag.
    #[must_use]
    pub fn reference(&self, repository: &str, tag: &str) -> Reference {
        format!("oci://{}/{repository}:{tag}", self.address).parse().unwrap()
    }

    /// Returns the requests since the last call: method, path and `Authorization`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.content.lock().unwrap().requests)
    }

    /// Stops it: no request gets a response from then on.
    pub fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

impl Drop for OciRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the payload that cosign signs for a manifest.
#[must_use]
pub fn signed_payload(manifest: Digest) -> Vec<u8> {
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": "a/b" },
            "image": { "docker-manifest-digest": format!("sha256:{manifest}") },
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    payload.to_string().into_bytes()
}

/// Returns a manifest with these blobs.
#[must_use]
pub fn manifest(config: &Value, layers: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    })
}

/// Responds to one request.
fn serve(stream: &TcpStream, content: &Mutex<Content>, address: SocketAddr) {
    let Some(request) = read(stream) else { return };
    let Request { method, path, authorization, .. } = &request;
    let mut content = content.lock().unwrap();
    content.requests.push(format!("{method} {path} {authorization}").trim_end().to_owned());
    let (status, headers, body) = respond(&request, &mut content, address);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    let body = if method == "HEAD" { &[] } else { &body[..] };
    let mut stream = stream;
    // The client may have closed the connection.
    stream.write_all(&[head.as_bytes(), body].concat()).ok();
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let method = words.next()?.to_owned();
    let target = words.next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut authorization = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, query, authorization, body })
}

/// Returns the status, further headers and the body of a response.
fn respond(
    request: &Request,
    content: &mut Content,
    address: SocketAddr,
) -> (u16, String, Vec<u8>) {
    let Request { method, path, query, authorization, body } = request;
    let none = String::new;
    if path == "/token" {
        let form = format!(
            "service=s&scope=repository%3Aa%2Fb%3Apull&grant_type=refresh_token\
             &refresh_token={IDENTITY_TOKEN}&client_id=relayer-rest"
        );
        let response = match method.as_str() {
            "POST" if *body == form.into_bytes() => &br#"{"access_token":"t0ken"}"#[..],
            "GET" if authorization == BASIC => br#"{"token":"t0ken"}"#,
            _ => return (401, none(), Vec::new()),
        };
        return (200, none(), response.to_vec());
    }
    if let Some(digest) = path.strip_prefix("/store/") {
        return found(content.blobs.get(digest));
    }
    let (expected, challenge) = match content.authentication {
        Authentication::None => ("", none()),
        Authentication::Basic => (BASIC, "Basic realm=\"x\"".to_owned()),
        Authentication::Bearer => {
            let realm = format!("http://{address}/token");
            let scope = "repository:a/b:pull";
            let challenge = format!("Bearer realm=\"{realm}\",service=\"s\",scope=\"{scope}\"");
            ("Bearer t0ken", challenge)
        }
    };
    if authorization != expected {
        return (401, format!("www-authenticate: {challenge}\r\n"), Vec::new());
    }
    let path = path.strip_prefix("/v2/").unwrap();
    let [repository, kind, name] = ["/manifests/", "/blobs/uploads/", "/blobs/", "/referrers/"]
        .iter()
        .find_map(|kind| path.split_once(kind).map(|(before, after)| [before, kind, after]))
        .unwrap();
    let key = format!("{repository}/{name}");
    match (method.as_str(), kind) {
        ("GET" | "HEAD", "/manifests/") => found(content.manifests.get(&key)),
        ("GET", "/referrers/") => found(content.referrers.get(&key)),
        ("GET", "/blobs/") if content.blob_store.is_some() => {
            let store = content.blob_store.unwrap();
            (307, format!("location: http://{store}/store/{name}\r\n"), Vec::new())
        }
        ("GET" | "HEAD", "/blobs/") => found(content.blobs.get(name)),
        ("POST", _) => {
            (202, format!("location: /v2/{repository}/blobs/uploads/1?a=b\r\n"), Vec::new())
        }
        ("PUT", "/blobs/uploads/") => {
            let digest = query.rsplit_once("digest=").unwrap().1.replace("%3A", ":");
            assert_eq!(digest, format!("sha256:{}", Digest::new(body)));
            content.blobs.insert(digest, body.clone());
            (201, none(), Vec::new())
        }
        ("PUT", _) => {
            let digest = format!("{repository}/sha256:{}", Digest::new(body));
            content.manifests.insert(digest, body.clone());
            content.manifests.insert(key, body.clone());
            (201, none(), Vec::new())
        }
        other => panic!("{other:?}"),
    }
}

fn found(bytes: Option<&Vec<u8>>) -> (u16, String, Vec<u8>) {
    match bytes {
        Some(bytes) => (200, String::new(), bytes.clone()),
        None => (404, String::new(), br#"{"errors":[{"code":"UNKNOWN","message":"no"}]}"#.to_vec()),
    }
}
