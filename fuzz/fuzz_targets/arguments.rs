//! Whatever a model sends as arguments is an object or an error, and what was repaired stays as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_machine::repair_arguments;

fuzz_target!(|text: &str| {
    if let Ok((value, _)) = repair_arguments(text) {
        assert!(value.is_object());
        assert_eq!(repair_arguments(&value.to_string()), Ok((value, false)));
    }
});
