//! Random secrets and their digests. The store contains only digests, which cannot be used to sign in.
//!
//! Random secrets have full entropy, so one SHA-256 suffices. Passwords are hashed with Argon2id instead.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Generates a secret from `BYTES` random bytes, as URL-safe base64.
pub fn draw<const BYTES: usize>() -> String {
    let mut bytes = [0_u8; BYTES];
    // The operating system's generator fails only if the system has none. The process cannot continue without random
    // numbers.
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system gives random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the digest under which a secret is stored: SHA-256 as URL-safe base64.
pub fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// Returns the SHA-256 digest in hexadecimal, as `sha256sum` prints it.
pub fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
