//! Bodies of HTTP answers in any encoding: no bytes make the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| windlass::testing::fuzz::body(bytes));
