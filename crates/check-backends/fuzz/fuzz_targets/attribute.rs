//! Any text, as what stands inside `backend_extension(…)` and inside `arms!`.

#![no_main]

use cargo_check_backends::catalogue::Catalogue;
use cargo_check_backends::sources::read_text;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for file in [
        format!("#[backend_extension({text})] trait Ops: Backend {{ fn op(x: FloatTensor<Self>); }}"),
        format!("#[cfg_attr({text}, backend_extension(Flex))] trait Ops {{}}"),
        format!("arms! {{ impl Op {{ forward {{ {text} }} }} }}"),
        format!("macro_rules! each {{ {text} }} each!({text});"),
    ] {
        let _ = read_text(&file, Catalogue::newest());
    }
});
