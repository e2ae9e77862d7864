//! Certificates for tests, their authorities, and keys of signers.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm, SigningKey as _,
};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::folder::Folder;

/// An authority that issues certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// A private key that signs modules.
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// Creates a key of ECDSA, as `cosign generate-key-pair` does.
    #[must_use]
    pub fn p256() -> Self {
        Self::generate(&PKCS_ECDSA_P256_SHA256)
    }

    /// Creates a key of Ed25519.
    #[must_use]
    pub fn ed25519() -> Self {
        Self::generate(&PKCS_ED25519)
    }

    /// Creates a key of RSA.
    #[must_use]
    pub fn rsa() -> Self {
        Self::generate(&PKCS_RSA_SHA256)
    }

    fn generate(algorithm: &'static SignatureAlgorithm) -> Self {
        Self(KeyPair::generate_for(algorithm).unwrap())
    }

    /// Returns the public key, in PEM.
    #[must_use]
    pub fn public_pem(&self) -> String {
        self.0.public_key_pem()
    }

    /// Signs a text.
    ///
    /// # Panics
    ///
    /// Panics if the system has no random numbers.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).unwrap()
    }
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    ///
    /// Panics if the system has no random numbers.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a certificate for a name.
    ///
    /// # Panics
    ///
    /// Panics if it is not the name of a host.
    #[must_use]
    pub fn issue(&self, name: &str) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// Returns its own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns the store of a client that trusts it alone.
    ///
    /// # Panics
    ///
    /// Panics if its own certificate is invalid.
    #[must_use]
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

impl Issued {
    /// Writes the files `NAME.pem` and `NAME.key`.
    pub fn write(&self, files: &Folder, name: &str) {
        files.replace(&format!("{name}.pem"), &self.certificate);
        files.replace(&format!("{name}.key"), &self.key);
    }

    /// Returns the certificate in its sent form.
    ///
    /// # Panics
    ///
    /// Panics if it is invalid.
    #[must_use]
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }
}
