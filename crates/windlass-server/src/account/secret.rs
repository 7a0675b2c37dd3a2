//! Random secrets and their digests: what is kept cannot be used to sign in.
//!
//! Secrets of full strength are hashed once; what people choose goes through Argon2id instead.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A secret of so many random bytes, safe in URLs and headers.
pub fn draw<const BYTES: usize>() -> String {
    let mut bytes = [0_u8; BYTES];
    // The operating system's generator fails only where it does not exist, and then nothing may go on.
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system gives random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The digest under which a secret is kept: SHA-256, in URL-safe base64.
pub fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// SHA-256 in hexadecimal, as tools outside print it.
pub fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
