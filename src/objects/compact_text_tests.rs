use super::*;
use serde_json::json;

const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn is_packed(text: &str) -> bool {
    !matches!(CompactText::from(text).0, Form::Text(_))
}

#[test]
fn generated_texts_need_no_allocation() {
    assert_eq!(size_of::<CompactText>(), 24);
    assert_eq!(size_of::<Option<CompactText>>(), 24);
    let volume = format!("{VOLUME}{UUID}");
    for text in [UUID, &volume, "0", "7", "4711", "18446744073709551615"] {
        assert!(is_packed(text), "{text}");
    }
}

#[test]
fn texts_that_would_be_written_otherwise_are_kept() {
    let upper = UUID.to_uppercase();
    let moved = UUID.replacen("5b-d", "5-bd", 1);
    let signed = UUID.replacen('0', "+", 1);
    for text in [
        "",
        "00",
        "07",
        "+7",
        "-7",
        " 7",
        "18446744073709551616",
        &upper,
        &moved,
        &signed,
        "pvc-",
        "pvc-7",
        "pvc-pvc-7",
        "pvc-ä",
        "data",
        "workspace-1",
    ] {
        assert!(!is_packed(text), "{text}");
        assert_eq!(CompactText::from(text).to_string(), text);
    }
}

/// A random text that resembles the packed ones, with up to two changes.
fn similar(random: &mut fastrand::Rng) -> String {
    let uuid: String = UUID
        .chars()
        .map(|each| match each {
            '-' => '-',
            _ => random.digit(16),
        })
        .collect();
    let number = random.u64(..) >> random.u32(..64);
    let whole = [uuid.clone(), format!("{VOLUME}{uuid}"), number.to_string()];
    let mut text: Vec<char> = random
        .choice(whole)
        .into_iter()
        .flat_map(|each| each.chars().collect::<Vec<_>>())
        .collect();
    for _ in 0..random.usize(..3) {
        let place = random.usize(..=text.len());
        let other = random
            .choice(['-', '+', '0', 'a', 'F', 'g', 'p', 'v', 'c', 'ä', ' '])
            .unwrap_or('0');
        match random.u8(..3) {
            0 => text.insert(place, other),
            1 if place < text.len() => text[place] = other,
            _ => text.truncate(place.max(1)),
        }
    }
    text.into_iter().collect()
}

#[test]
fn every_text_is_read_back_and_equals_only_itself() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut forms = [0; 2];
    let mut before = String::new();
    for _ in 0..50_000 {
        let text = similar(&mut random);
        let compact = CompactText::from(&text);
        assert_eq!(compact.to_string(), text);
        assert_eq!(json!(compact), json!(text));
        assert_eq!(format!("{compact:?}"), format!("{text:?}"));
        assert!(compact == text, "{text}");
        assert_eq!(compact, CompactText::from(&*text), "{text}");
        let other = CompactText::from(&before);
        assert_eq!(compact == other, text == before, "{text} {before}");
        assert_eq!(compact == before, text == before, "{text} {before}");
        forms[usize::from(is_packed(&text))] += 1;
        before = text;
    }
    assert!(forms.iter().all(|times| *times > 10_000), "{forms:?}");
}

#[test]
fn only_the_empty_text_is_empty() {
    assert!(CompactText::default().is_empty() && CompactText::from("").is_empty());
    assert!(
        [UUID, "0", "a"]
            .iter()
            .all(|text| !CompactText::from(text).is_empty())
    );
    assert_eq!(CompactText::default(), CompactText::from(""));
}
