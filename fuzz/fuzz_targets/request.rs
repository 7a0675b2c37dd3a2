//! Bodies of requests to the server: no bytes make the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| windlass_cli::fuzz::body(bytes));
