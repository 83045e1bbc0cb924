//! What a pod's annotations come to: claims, and complaints about the rest.

use super::{Complaint, Wish, template::Template};
use crate::objects::{Wishes, wishes::Wished};

const ENABLED: &str = "enabled";
const TEMPLATE: &str = "pvc";

/// Everything the pod asks for that can be done, in the order of its volumes, and what is wrong with the rest.
pub fn asked(wishes: &Wishes) -> (Vec<Wish>, Vec<Complaint>) {
    let mut complaints = strange(wishes);
    let mut claims = Vec::new();
    for wished in &wishes.volumes {
        match wish(wishes, wished) {
            Ok(Some(wish)) => claims.push(wish),
            Ok(None) => {}
            Err(complaint) => complaints.push(complaint),
        }
    }
    (claims, complaints)
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

fn wish(wishes: &Wishes, wished: &Wished) -> Result<Option<Wish>, Complaint> {
    let volume = &*wished.volume;
    if enabled(wishes, volume) != Some(true) {
        return Ok(None);
    }
    let claim = wished
        .claim
        .clone()
        .ok_or_else(|| Complaint::not_a_claim(volume))?;
    let text = wishes
        .get(volume, TEMPLATE)
        .ok_or_else(|| Complaint::missing_template(volume))?;
    let template =
        Template::parse(text).map_err(|error| Complaint::invalid_template(volume, &error))?;
    Ok(Some(Wish {
        volume: volume.into(),
        claim,
        template,
    }))
}

/// Annotations that no volume of the pod answers to, or that say nothing.
fn strange(wishes: &Wishes) -> Vec<Complaint> {
    let annotations = wishes.annotations.iter();
    annotations
        .filter_map(|(key, value)| match key.rsplit_once('.') {
            Some((volume, ENABLED)) => match boolean(value) {
                None => Some(Complaint::not_a_boolean(volume, value)),
                Some(true) if !has(wishes, volume) => Some(Complaint::missing_volume(volume)),
                Some(_) => None,
            },
            // Without `.enabled` it is put there for later, and says nothing.
            Some((volume, TEMPLATE)) if !volume.is_empty() => None,
            _ => Some(Complaint::unknown_key(key)),
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
