//! Ids in the form of a UUID, for clients that accept no other form.

/// Returns a random UUID (RFC 9562, version 4).
pub fn fresh_uuid() -> String {
    let clock = windlass_server::clock::clock();
    let (high, low) = (clock.random(), clock.random());
    let (high, low) = ((high & !0xf000) | 0x4000, (low & !(0b11 << 62)) | (0b10 << 62));
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}
