//! Label and field selectors.

use crate::status::{Answer, Failure};
use serde_json::Value;

/// The parsed selectors of a LIST or a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    labels: Vec<Requirement>,
    /// The path of keys, whether the value has to be equal, and the value.
    fields: Vec<(Vec<String>, bool, String)>,
}

#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selectors {
    pub(crate) fn parse(labels: &str, fields: &str) -> Answer<Self> {
        let fields = fields.split(',').filter(|part| !part.is_empty()).map(field);
        Ok(Self {
            labels: requirements(labels)?,
            fields: fields.collect::<Answer<_>>()?,
        })
    }

    /// The selector of a webhook or a workload.
    pub(crate) fn of_object(selector: &Value) -> Self {
        let mut labels = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            labels.push(Requirement::In(
                key.clone(),
                vec![value.as_str().unwrap_or_default().into()],
            ));
        }
        for each in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let key = each["key"].as_str().unwrap_or_default().to_owned();
            let values = each["values"].as_array().into_iter().flatten();
            let values = values
                .filter_map(|value| Some(value.as_str()?.to_owned()))
                .collect();
            labels.push(match each["operator"].as_str() {
                Some("In") => Requirement::In(key, values),
                Some("NotIn") => Requirement::NotIn(key, values),
                Some("DoesNotExist") => Requirement::Absent(key),
                _ => Requirement::Exists(key),
            });
        }
        Self {
            labels,
            fields: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn match_object(&self, object: &Value) -> bool {
        self.match_labels(&object["metadata"]["labels"])
            && self.fields.iter().all(|(path, equal, value)| {
                let found = path.iter().fold(object, |found, key| &found[key]);
                (found.as_str().unwrap_or_default() == value) == *equal
            })
    }

    /// Whether labels match; the value is a map or null.
    pub(crate) fn match_labels(&self, labels: &Value) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &str| labels.get(key).and_then(Value::as_str);
        let among = |key: &str, values: &[String]| {
            value(key).is_some_and(|value| values.iter().any(|each| each == value))
        };
        match self {
            Self::In(key, values) => among(key, values),
            Self::NotIn(key, values) => !among(key, values),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
fn requirements(text: &str) -> Answer<Vec<Requirement>> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for character in text.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        match character {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts.map(requirement).collect()
}

fn requirement(part: &str) -> Answer<Requirement> {
    let values = |list: &str| {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        list.split(',')
            .map(|value| value.trim().to_owned())
            .collect()
    };
    if let Some((key, list)) = part.split_once(" notin ") {
        return Ok(Requirement::NotIn(key.trim().into(), values(list)));
    }
    if let Some((key, list)) = part.split_once(" in ") {
        return Ok(Requirement::In(key.trim().into(), values(list)));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(
            key.trim().into(),
            vec![value.trim().into()],
        ));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.trim_start_matches('=').trim();
        return Ok(Requirement::In(key.trim().into(), vec![value.into()]));
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => Requirement::Absent(key.trim().into()),
        None => Requirement::Exists(part.into()),
    })
}

fn field(part: &str) -> Answer<(Vec<String>, bool, String)> {
    let (name, equal, value) = match part.split_once("!=") {
        Some((name, value)) => (name, false, value),
        None => match part.split_once('=') {
            Some((name, value)) => (name, true, value.trim_start_matches('=')),
            None => {
                return Err(Failure::bad_request(format!(
                    "invalid field selector {part:?}"
                )));
            }
        },
    };
    Ok((
        name.split('.').map(str::to_owned).collect(),
        equal,
        value.to_owned(),
    ))
}
