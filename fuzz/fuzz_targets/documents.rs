//! Pages of the web, Word documents and pages of search results: no bytes make the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| windlass::testing::fuzz::documents(bytes));
