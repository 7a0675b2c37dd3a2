//! An OpenID provider: discovery, keys, codes and signed tokens over real HTTP, with errors that a test selects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeySize, PublicKey};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

pub const CLIENT: &str = "windlass-test";
pub const SECRET: &str = "a client's secret: with + & signs";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    Rs256,
    Es256,
    /// With the client secret as the key.
    Hs256,
    /// With the right algorithm, but with unpublished keys.
    Wrongly,
    Not,
}

struct Keys {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    name: String,
}

impl Keys {
    fn new(name: &str) -> Self {
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { rsa, ec, name: name.to_owned() }
    }

    fn published(&self) -> Value {
        let (n, e) = parts(self.rsa.public_key());
        let point = self.ec.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({"keys": [
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": format!("rsa-{}", self.name), "n": url(n), "e": url(e)},
            {"kty": "EC", "use": "sig", "alg": "ES256", "crv": "P-256", "kid": format!("ec-{}", self.name),
             "x": url(x), "y": url(y)},
        ]})
    }
}

/// Modulus and exponent from a key in DER, `SEQUENCE { INTEGER, INTEGER }`, with 2,048 bits and 65,537.
fn parts(key: &PublicKey) -> (&[u8], &[u8]) {
    let der = key.as_ref();
    assert_eq!((&der[..2], &der[4..9]), (&[0x30, 0x82][..], &[2, 0x82, 1, 1, 0][..]), "{der:x?}");
    (&der[9..265], &der[267..])
}

fn url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Consent {
    challenge: String,
    redirect: String,
    claims: Value,
    signed: Signed,
}

struct Inside {
    address: String,
    keys: Keys,
    others: Keys,
    codes: HashMap<String, Consent>,
}

/// A running provider.
#[derive(Clone)]
pub struct Provider {
    pub address: String,
    inside: Arc<Mutex<Inside>>,
}

type Shared = State<Arc<Mutex<Inside>>>;

impl Provider {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let inside = Inside {
            address: address.clone(),
            keys: Keys::new("1"),
            others: Keys::new("1"),
            codes: HashMap::new(),
        };
        let inside = Arc::new(Mutex::new(inside));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/jwks", get(async |State(inside): Shared| Json(inside.lock().unwrap().keys.published())))
            .route("/token", post(exchange))
            .with_state(inside.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inside }
    }

    /// Rotates the provider's keys.
    pub fn change_keys(&self) {
        self.inside.lock().unwrap().keys = Keys::new("2");
    }

    /// Consents to an authorization request; `change` edits the claims. Returns the redirect's path and query.
    pub fn consent(&self, asked: &str, signed: Signed, change: impl FnOnce(&mut Value)) -> String {
        let asked = reqwest::Url::parse(asked).unwrap();
        assert!(asked.as_str().starts_with(&format!("{}/authorize?", self.address)), "{asked}");
        let query: HashMap<String, String> = asked.query_pairs().into_owned().collect();
        let fixed =
            ["response_type", "client_id", "code_challenge_method", "scope"].map(|name| query[name].as_str());
        assert_eq!(fixed, ["code", CLIENT, "S256", "openid email profile"]);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut claims = json!({
            "iss": self.address, "sub": "person-1", "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": query["nonce"], "email": "Ann@Example.com", "email_verified": true, "name": "Ann",
        });
        change(&mut claims);
        let mut inside = self.inside.lock().unwrap();
        let code = format!("code-{}", inside.codes.len());
        let (challenge, redirect) = (query["code_challenge"].clone(), query["redirect_uri"].clone());
        let back = format!("{redirect}?code={code}&state={}", query["state"]);
        inside.codes.insert(code, Consent { challenge, redirect, claims, signed });
        let path = back.find("/api/").unwrap();
        back[path..].to_owned()
    }
}

async fn describe(State(inside): Shared) -> Json<Value> {
    let at = inside.lock().unwrap().address.clone();
    Json(json!({
        "issuer": at, "authorization_endpoint": format!("{at}/authorize"),
        "token_endpoint": format!("{at}/token"), "jwks_uri": format!("{at}/jwks"),
        "response_types_supported": ["code"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
    }))
}

/// The provider accepts a code repeatedly, so only the client prevents its reuse.
async fn exchange(
    State(inside): Shared,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> (StatusCode, Json<Value>) {
    let inside = inside.lock().unwrap();
    let consent = inside.codes.get(&form["code"]);
    let basic = headers["authorization"].to_str().unwrap().strip_prefix("Basic ").unwrap();
    let basic = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
    let encoded = reqwest::Url::parse_with_params("http://x", [("s", SECRET)]).unwrap();
    assert_eq!(basic, format!("{CLIENT}:{}", encoded.query().unwrap().strip_prefix("s=").unwrap()));
    let right = consent.filter(|consent| {
        let verifier = digest(&SHA256, form["code_verifier"].as_bytes());
        url(verifier) == consent.challenge
            && form["redirect_uri"] == consent.redirect
            && form["grant_type"] == "authorization_code"
    });
    match right {
        None => (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))),
        Some(consent) => {
            let token = token(&inside, consent);
            let body = json!({"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "id_token": token});
            (StatusCode::OK, Json(body))
        }
    }
}

fn token(inside: &Inside, consent: &Consent) -> String {
    let random = SystemRandom::new();
    let keys = if consent.signed == Signed::Wrongly { &inside.others } else { &inside.keys };
    let (alg, kid) = match consent.signed {
        Signed::Rs256 | Signed::Wrongly => ("RS256", format!("rsa-{}", keys.name)),
        Signed::Es256 => ("ES256", format!("ec-{}", keys.name)),
        Signed::Hs256 => ("HS256", String::new()),
        Signed::Not => ("none", String::new()),
    };
    let mut header = json!({"alg": alg, "typ": "JWT"});
    if !kid.is_empty() {
        header["kid"] = kid.into();
    }
    let body = format!("{}.{}", url(header.to_string()), url(consent.claims.to_string()));
    let signature = match consent.signed {
        Signed::Rs256 | Signed::Wrongly => {
            let mut signature = vec![0; keys.rsa.public_modulus_len()];
            keys.rsa.sign(&RSA_PKCS1_SHA256, &random, body.as_bytes(), &mut signature).unwrap();
            signature
        }
        Signed::Es256 => keys.ec.sign(&random, body.as_bytes()).unwrap().as_ref().to_vec(),
        Signed::Hs256 => {
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
            aws_lc_rs::hmac::sign(&key, body.as_bytes()).as_ref().to_vec()
        }
        Signed::Not => Vec::new(),
    };
    format!("{body}.{}", url(signature))
}
