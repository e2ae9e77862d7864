//! Accounts and credentials for NATS, as `nsc` creates them: signed tokens of an operator, of its
//! accounts and of their users.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// The account of a server's own messages, without which JetStream does not start.
const SYSTEM: &str = "system";

/// An operator, whose servers accept the users of its accounts.
pub struct NatsOperator(KeyPair);

/// An account of an operator.
pub struct NatsAccount {
    key: KeyPair,
    token: String,
}

impl NatsOperator {
    /// Creates an operator.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each one is another one")]
    pub fn new() -> Self {
        Self(KeyPair::new_operator())
    }

    /// Creates an account with JetStream.
    #[must_use]
    pub fn account(&self, name: &str) -> NatsAccount {
        let key = KeyPair::new_account();
        let without_limits = [
            "subs",
            "data",
            "payload",
            "imports",
            "exports",
            "conn",
            "leaf",
            "mem_storage",
            "disk_storage",
            "streams",
            "consumer",
        ];
        let mut limits: serde_json::Map<_, _> =
            without_limits.map(|limit| (limit.to_owned(), json!(-1))).into_iter().collect();
        limits.insert("wildcards".to_owned(), json!(true));
        let claims = json!({ "type": "account", "limits": limits });
        let token = token(&self.0, &key, name, claims);
        NatsAccount { key, token }
    }

    /// Returns lines of the configuration of a server that accepts the users of an account.
    #[must_use]
    pub fn config(&self, account: &NatsAccount) -> String {
        let operator = token(&self.0, &self.0, "operator", json!({ "type": "operator" }));
        // It may not have JetStream.
        let key = KeyPair::new_account();
        let limits = json!({ "subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1 });
        let system = token(&self.0, &key, SYSTEM, json!({ "type": "account", "limits": limits }));
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: MEMORY\n\
             resolver_preload {{ {}: {system}, {}: {} }}\n",
            key.public_key(),
            key.public_key(),
            account.key.public_key(),
            account.token,
        )
    }
}

impl NatsAccount {
    /// Creates a user, and returns the content of the file with its credentials.
    #[must_use]
    pub fn credentials(&self, name: &str) -> String {
        let key = KeyPair::new_user();
        let claims = json!({ "type": "user", "subs": -1, "data": -1, "payload": -1 });
        let token = token(&self.key, &key, name, claims);
        let seed = key.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\
             NKEY Seed printed below can be used to sign and prove identity.\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

/// Returns the token in which an issuer signs the claims of another key.
fn token(issuer: &KeyPair, subject: &KeyPair, name: &str, mut claims: Value) -> String {
    claims["version"] = json!(2);
    let claims = json!({
        "jti": name,
        "iat": 1_700_000_000,
        "iss": issuer.public_key(),
        "sub": subject.public_key(),
        "name": name,
        "nats": claims,
    });
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
