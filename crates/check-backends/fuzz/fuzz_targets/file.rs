//! Any text, as a whole file.

#![no_main]

use cargo_check_backends::catalogue::Catalogue;
use cargo_check_backends::sources::read_text;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = read_text(text, Catalogue::newest());
});
