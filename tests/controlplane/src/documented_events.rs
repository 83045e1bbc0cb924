//! The Events that `docs/reference/events.md` lists, compared with those that Volume Warden logs.

use std::{collections::BTreeMap, sync::LazyLock};

const PAGE: &str = include_str!("../../../docs/reference/events.md");
/// The message of a log line of the level DEBUG. A test compares it with the code that writes it.
const MESSAGE: &str = "the Event is in the API server ";

/// The type and the objects of each reason.
static EVENTS: LazyLock<BTreeMap<&str, (&str, Vec<&str>)>> = LazyLock::new(|| {
    let section = PAGE
        .split("\n## ")
        .find(|text| text.starts_with("Events\n"));
    let rows = section.unwrap_or_default().lines().filter_map(row);
    rows.collect()
});

fn row(line: &'static str) -> Option<(&'static str, (&'static str, Vec<&'static str>))> {
    let cells: Vec<_> = line.strip_prefix("| `")?.split(" | ").collect();
    let [reason, event_type, objects, _meaning] = cells[..] else {
        return None;
    };
    Some((
        reason.strip_suffix('`')?,
        (event_type, objects.split(", ").collect()),
    ))
}

/// Whether the line says that an Event is published, and the page does not list it with this type
/// and for objects of this kind.
pub(crate) fn is_undocumented(line: &str) -> bool {
    let Some((_, fields)) = line.split_once(MESSAGE) else {
        return false;
    };
    let field = |name: &str| {
        let value = fields.split_once(&format!("{name}=\""))?.1;
        value.split('"').next()
    };
    let object = match field("kind") {
        Some("PersistentVolume") => "volume",
        Some("PersistentVolumeClaim") => "claim",
        Some("Pod") => "pod",
        Some(kind) => kind,
        None => return true,
    };
    let listed = field("reason").and_then(|reason| EVENTS.get(reason));
    !listed.is_some_and(|(event_type, objects)| {
        field("event_type") == Some(event_type) && objects.contains(&object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_listed_with_its_type_and_objects() {
        for (kind, reason, event_type, undocumented) in [
            ("PersistentVolume", "Released", "Normal", false),
            ("PersistentVolumeClaim", "Restored", "Normal", false),
            ("PersistentVolume", "Released", "Warning", true),
            ("Pod", "Released", "Normal", true),
            ("Pod", "Unlisted", "Normal", true),
            // The page does not list `Bound` as an Event.
            ("PersistentVolume", "Bound", "Normal", true),
        ] {
            let fields = format!("kind=\"{kind}\" reason=\"{reason}\" event_type=\"{event_type}\"");
            let line = format!("DEBUG volume_warden: {MESSAGE}{fields}");
            assert_eq!(is_undocumented(&line), undocumented, "{line}");
        }
        assert!(is_undocumented(MESSAGE));
        let writer = include_str!("../../../src/cluster/write/events.rs");
        assert!(writer.contains(&format!("\"{}\"", MESSAGE.trim_end())));
        assert!(!is_undocumented("INFO volume_warden: event published"));
    }
}
