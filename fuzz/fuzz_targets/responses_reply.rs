//! A reply of a responses endpoint: no bytes make the decoder panic, and it does not matter in which pieces they arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| windlass::testing::provider::responses_reply(bytes));
