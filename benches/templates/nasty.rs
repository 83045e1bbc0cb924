//! Templates that are expensive to parse or hard to refuse, and the answer to each. The benchmark
//! measures the time; the unit tests of the parser check the answers.

/// A template that has to be refused.
pub struct Nasty {
    /// The name of the template in the table.
    pub name: &'static str,
    /// The text of the template.
    pub text: String,
    /// The error message for the author of the template.
    pub answer: &'static str,
}

/// The maximum length in bytes: the parser refuses longer texts without parsing them.
const ROOM: usize = 16 * 1024;

const TOO_DEEP: &str = "line 1, column 17: maps and lists are nested deeper than 16";

/// All templates.
pub fn nasty() -> Vec<Nasty> {
    let all = [constructs(), depths(), lengths()];
    let rows = all.into_iter().flatten();
    rows.map(|(name, text, answer)| Nasty { name, text, answer })
        .collect()
}

type Row = (&'static str, String, &'static str);

/// YAML constructs that no claim needs.
fn constructs() -> Vec<Row> {
    let tag = "line 3, column 10: a template may not have YAML tags";
    let second =
        "line 3, column 1: a template must be a single YAML document; a second one begins here";
    vec![
        (
            "anchor",
            "a: &x 1\nb: *x\n".to_owned(),
            "line 1, column 7: a template may not have YAML anchors and aliases",
        ),
        (
            "alias",
            "a: *x\n".to_owned(),
            "line 1, column 4: a template may not have YAML anchors and aliases",
        ),
        (
            "billion laughs",
            laughs(),
            "line 1, column 9: a template may not have YAML anchors and aliases",
        ),
        (
            "merge key",
            "<<: {a: 1}\n".to_owned(),
            "line 1, column 1: a template may not have YAML merge keys",
        ),
        (
            "merge key within",
            "a:\n  <<: {a: 1}\n".to_owned(),
            "line 2, column 3: a template may not have YAML merge keys",
        ),
        (
            "tag",
            claim("a: !own 1\n"),
            "line 3, column 9: a template may not have YAML tags",
        ),
        ("standard tag", claim("a: !!str 1\n"), tag),
        (
            "tag of a key",
            claim("b: 1\n!!str a: 1\n"),
            "line 4, column 7: a template may not have YAML tags",
        ),
        ("second document", claim("---\na: 1\n"), second),
        ("empty second document", claim("---\n"), second),
        (
            "second document after an end",
            claim("...\na: 1\n"),
            "line 4, column 1: a template must be a single YAML document; a second one begins here",
        ),
        (
            "duplicate key",
            claim("kind: List\n"),
            "line 3, column 1: duplicate key \"kind\"",
        ),
        (
            "duplicate key within",
            claim("spec:\n  a: 1\n  \"a\": 2\n"),
            "line 5, column 3: duplicate key \"a\"",
        ),
        (
            "duplicate key in JSON",
            r#"{"kind": "List", "kind": "List"}"#.to_owned(),
            "line 1, column 18: duplicate key \"kind\"",
        ),
        (
            "number as a key",
            claim("1: a\n"),
            "line 3, column 1: a key must be a string",
        ),
        (
            "list as a key",
            claim("? [a]\n: b\n"),
            "line 3, column 3: a key must be a string",
        ),
        (
            "not a number",
            claim("a: .nan\n"),
            "line 3, column 4: value `.nan` is not a finite number",
        ),
    ]
}

/// Nested values.
fn depths() -> Vec<Row> {
    vec![
        ("8000 lists", "[".repeat(8000), TOO_DEEP),
        ("16 KiB of list openers", filled("["), TOO_DEEP),
        ("16 KiB of map openers", filled("{"), TOO_DEEP),
        (
            "maps in maps",
            filled("{a: "),
            "line 1, column 65: maps and lists are nested deeper than 16",
        ),
        (
            "lists in maps",
            filled("a: ["),
            "line 1, column 33: maps and lists are nested deeper than 16",
        ),
        (
            "keys that are maps",
            filled("? "),
            "line 1, column 33: maps and lists are nested deeper than 16",
        ),
        (
            "block lists",
            filled("- "),
            "line 1, column 33: maps and lists are nested deeper than 16",
        ),
        (
            "block maps",
            staircase(),
            "line 17, column 17: maps and lists are nested deeper than 16",
        ),
    ]
}

/// Repeated values.
fn lengths() -> Vec<Row> {
    vec![
        (
            "one byte too many",
            "#".repeat(ROOM + 1),
            "the template has 16385 bytes; the limit is 16384",
        ),
        (
            "empty lists",
            format!("[{}", within("[],")),
            "line 1, column 899: the template has more than 300 keys and values",
        ),
        (
            "numbers",
            format!("[{}", within("1,")),
            "line 1, column 600: the template has more than 300 keys and values",
        ),
        (
            "list items",
            filled("-\n"),
            "line 300, column 2: the template has more than 300 keys and values",
        ),
        (
            "short keys",
            keys(),
            "line 150, column 7: the template has more than 300 keys and values",
        ),
        (
            "anchors",
            filled("&a "),
            "line 1, column 3: a template may not have YAML anchors and aliases",
        ),
        (
            "aliases",
            filled("*a "),
            "line 1, column 1: a template may not have YAML anchors and aliases",
        ),
        (
            "tags",
            filled("!!a "),
            "line 1, column 4: a template may not have YAML tags",
        ),
        (
            "directives",
            filled("%a\n"),
            "line 5462, column 1: did not find expected <document start>",
        ),
        (
            "documents",
            filled("---\n"),
            "line 2, column 1: a template must be a single YAML document; a second one begins here",
        ),
        ("comments", filled("#\n"), "the template is empty"),
        ("blanks", filled(" "), "the template is empty"),
        (
            "a string without an end",
            format!("a: \"{}", within("\\x41")),
            "line 1, column 4: unclosed quote",
        ),
        (
            "a key without an end",
            format!("{{\"{}", within("漢")),
            "line 1, column 2: unclosed quote",
        ),
        (
            "colons",
            filled(":"),
            "line 1, column 16384: mapping values are not allowed in this context",
        ),
        (
            "byte order marks",
            filled("\u{feff}"),
            "the template is empty",
        ),
    ]
}

fn claim(rest: &str) -> String {
    format!("apiVersion: v1\nkind: PersistentVolumeClaim\n{rest}")
}

/// Repeats the piece up to the maximum length.
fn filled(piece: &str) -> String {
    piece.repeat(ROOM / piece.len())
}

/// Repeats the piece, and leaves some room for the surrounding text.
fn within(piece: &str) -> String {
    piece.repeat((ROOM - 10) / piece.len())
}

/// Nested aliases: each level has nine aliases of the level before.
fn laughs() -> String {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 9].join(",");
        text.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    text
}

/// Nested maps, each level indented by one more space.
fn staircase() -> String {
    (0..150).map(|level| " ".repeat(level) + "a:\n").collect()
}

fn keys() -> String {
    (0..1500).map(|key| format!("k{key}: 1\n")).collect()
}
