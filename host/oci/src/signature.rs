//! Keys, and the signatures of manifests.
//!
//! `cosign sign --key` signs a text that names the digest of a manifest, in one of two
//! forms: a payload of its own ("simple signing"), or a statement of in-toto in an envelope
//! (DSSE), within a bundle of Sigstore.

use std::path::Path;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use relayer_rest_common::{Digest, files};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use super::error::RegistryError;
use super::reference::{SHA256, parse_digest};

/// The maximum size of the file of a key, in bytes.
const MAX_KEY: u64 = 64 << 10;

/// The type of payloads of simple signing.
const SIMPLE_SIGNING: &str = "cosign container image signature";

/// The type of statements of in-toto, and the one of the predicate of `cosign sign`.
const IN_TOTO: &str = "application/vnd.in-toto+json";
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

/// The algorithms of keys. The key itself tells which one it is for.
static ALGORITHMS: [&dyn VerificationAlgorithm; 3] =
    [&ECDSA_P256_SHA256_ASN1, &ED25519, &RSA_PKCS1_2048_8192_SHA256];

/// The public key of a signer.
pub(crate) struct PublicKey(ParsedPublicKey);

/// A text and its signature, which a key verifies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Signature {
    form: Form,
    #[serde(with = "as_base64")]
    payload: Vec<u8>,
    #[serde(with = "as_base64")]
    bytes: Vec<u8>,
}

/// The form of the signed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    SimpleSigning,
    InToto,
}

/// The payload of simple signing.
#[derive(Deserialize)]
struct Simple {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: SignedImage,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SignedImage {
    docker_manifest_digest: String,
}

/// The part of a bundle of Sigstore that a signature by a key needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Option<Envelope>,
}

/// An envelope with a signed text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

/// A statement of in-toto.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: String,
}

impl PublicKey {
    /// Reads the public key of a signer, in PEM.
    pub(crate) fn read(name: &str, file: &Path) -> Result<Self, RegistryError> {
        let error = |problem: String| RegistryError::Key {
            name: name.to_owned(),
            file: file.to_owned(),
            problem,
        };
        let pem = files::read(file, MAX_KEY).map_err(|problem| error(problem.to_string()))?;
        Self::parse(&pem)
            .ok_or_else(|| error("not a public key of ECDSA P-256, Ed25519 or RSA".to_owned()))
    }

    fn parse(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        let mut keys = ALGORITHMS.iter().map(|algorithm| ParsedPublicKey::new(*algorithm, &der));
        keys.find_map(Result::ok).map(Self)
    }

    fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(text, signature).is_ok()
    }
}

impl Signature {
    /// Creates the signature of a payload of simple signing. Returns `None` if it is not in
    /// base64.
    pub(crate) fn simple(payload: Vec<u8>, signature: &str) -> Option<Self> {
        let bytes = STANDARD.decode(signature.trim()).ok()?;
        Some(Self { form: Form::SimpleSigning, payload, bytes })
    }

    /// Returns the signatures in a bundle of Sigstore, except for signatures of other texts
    /// than statements of in-toto.
    pub(crate) fn in_bundle(bundle: &[u8]) -> Vec<Self> {
        let bundle = serde_json::from_slice::<Bundle>(bundle).ok();
        let envelope = bundle.and_then(|bundle| bundle.dsse_envelope);
        let Some(envelope) = envelope.filter(|envelope| envelope.payload_type == IN_TOTO) else {
            return Vec::new();
        };
        let Ok(payload) = STANDARD.decode(&envelope.payload) else { return Vec::new() };
        let signatures = envelope.signatures.iter();
        let signatures = signatures.filter_map(|signature| STANDARD.decode(&signature.sig).ok());
        let form = Form::InToto;
        signatures.map(|bytes| Self { form, payload: payload.clone(), bytes }).collect()
    }

    /// Returns whether this is the signature of a manifest by a key.
    pub(crate) fn is_of(&self, manifest: Digest, key: &PublicKey) -> bool {
        let Self { form, payload, bytes } = self;
        let (text, named) = match form {
            Form::SimpleSigning => (payload.clone(), simple_digest(payload)),
            Form::InToto => (pre_authentication_encoding(payload), statement_digest(payload)),
        };
        named == Some(manifest) && key.verifies(&text, bytes)
    }
}

/// Returns the digest that a payload of simple signing names.
fn simple_digest(payload: &[u8]) -> Option<Digest> {
    let Critical { image, kind } = serde_json::from_slice::<Simple>(payload).ok()?.critical;
    (kind == SIMPLE_SIGNING).then(|| parse_digest(&image.docker_manifest_digest)).flatten()
}

/// Returns the digest that a statement names, if it is one of `cosign sign`.
fn statement_digest(statement: &[u8]) -> Option<Digest> {
    let statement = serde_json::from_slice::<Statement>(statement).ok()?;
    let [Subject { digest }] = &statement.subject[..] else { return None };
    (statement.predicate_type == SIGN_PREDICATE)
        .then(|| parse_digest(&format!("{SHA256}{}", digest.sha256)))
        .flatten()
}

/// Returns the text that an envelope signs: the payload with its type.
fn pre_authentication_encoding(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Bytes in JSON.
mod as_base64 {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
