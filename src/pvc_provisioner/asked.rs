//! What a pod's annotations come to: claims, and notices about the rest.

use super::{Notice, Wish, template::Template};
use crate::objects::{Wishes, wishes::Wished};

const ENABLED: &str = "enabled";
const TEMPLATE: &str = "pvc";

/// Everything the pod asks for that can be done, in the order of its volumes, and what is wrong with the rest.
pub fn asked(wishes: &Wishes) -> (Vec<Wish>, Vec<Notice>) {
    let mut notices = strange(wishes);
    let mut claims = Vec::new();
    for wished in &wishes.volumes {
        match wish(wishes, wished) {
            Ok(Some(wish)) => claims.push(wish),
            Ok(None) => {}
            Err(notice) => notices.push(notice),
        }
    }
    (claims, notices)
}

/// The volume for which the pod asks for the claim of that name, and the unread text of the
/// template. None where the pod does not ask for the claim, or has no template for it.
pub fn request_for<'a>(wishes: &'a Wishes, claim: &str) -> Option<(&'a str, &'a str)> {
    let mut volumes = wishes.volumes.iter();
    let wished = volumes.find(|wished| {
        wished.claim.as_deref() == Some(claim) && enabled(wishes, &wished.volume) == Some(true)
    })?;
    Some((&wished.volume, wishes.get(&wished.volume, TEMPLATE)?))
}

fn wish(wishes: &Wishes, wished: &Wished) -> Result<Option<Wish>, Notice> {
    let volume = &*wished.volume;
    if enabled(wishes, volume) != Some(true) {
        return Ok(None);
    }
    let claim = wished
        .claim
        .clone()
        .ok_or_else(|| Notice::not_a_claim(volume))?;
    let text = wishes
        .get(volume, TEMPLATE)
        .ok_or_else(|| Notice::missing_template(volume))?;
    let template =
        Template::parse(text).map_err(|error| Notice::invalid_template(volume, &error))?;
    Ok(Some(Wish {
        volume: volume.into(),
        claim,
        template,
    }))
}

/// Annotations that no volume of the pod answers to, or that say nothing.
fn strange(wishes: &Wishes) -> Vec<Notice> {
    let annotations = wishes.annotations.iter();
    annotations
        .filter_map(|(key, value)| match key.rsplit_once('.') {
            Some((volume, ENABLED)) => match boolean(value) {
                None => Some(Notice::not_a_boolean(volume, value)),
                Some(true) if !has(wishes, volume) => Some(Notice::missing_volume(volume)),
                Some(_) => None,
            },
            // Without `.enabled` it is put there for later, and says nothing.
            Some((volume, TEMPLATE)) if !volume.is_empty() => None,
            _ => Some(Notice::unknown_key(key)),
        })
        .collect()
}

fn has(wishes: &Wishes, volume: &str) -> bool {
    let mut volumes = wishes.volumes.iter();
    volumes.any(|wished| &*wished.volume == volume)
}

fn enabled(wishes: &Wishes, volume: &str) -> Option<bool> {
    wishes.get(volume, ENABLED).and_then(boolean)
}

/// As Go's `strconv.ParseBool` reads it, which manifests of the original rely on.
fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
