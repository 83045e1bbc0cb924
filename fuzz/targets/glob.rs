//! A pattern of protected names is either refused or matches the same names as in a second matcher.

#![no_main]

use libfuzzer_sys::fuzz_target;
use volume_warden::components::namespace_gc::Glob;

// The first line is the pattern, the rest is the name.
fuzz_target!(|text: &str| {
    let (pattern, name) = text.split_once('\n').unwrap_or((text, ""));
    let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'*');
    let is_valid = !pattern.is_empty() && pattern.bytes().all(known);
    let Ok(glob) = pattern.parse::<Glob>() else {
        assert!(!is_valid, "{pattern:?} is refused");
        return;
    };
    assert!(is_valid, "{pattern:?} is accepted");
    assert_eq!(glob.to_string(), pattern);
    assert_eq!(glob.matches(name), matches(pattern, name), "{text:?}");
    assert!(glob.matches(&pattern.replace('*', name)), "{text:?}");
});

/// Reads the pattern letter by letter, with the lengths of all prefixes of the name that match it
/// so far.
fn matches(pattern: &str, name: &str) -> bool {
    let name = name.as_bytes();
    let mut ends = vec![false; name.len() + 1];
    ends[0] = true;
    for letter in pattern.bytes() {
        if letter == b'*' {
            let first = ends.iter().position(|end| *end).unwrap_or(ends.len());
            ends[first..].fill(true);
        } else {
            for at in (0..name.len()).rev() {
                ends[at + 1] = ends[at] && name[at] == letter;
            }
            ends[0] = false;
        }
    }
    ends[name.len()]
}
