//! Which data a claim requests by the annotation [`UNDELETE`].

pub use super::keys::UNDELETE;

const CLAIM: &str = "pvc/";
const VOLUME: &str = "pv/";

/// What the value of [`UNDELETE`] names. A name contains no slash, so a prefix is never part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndeleteRequest<'a> {
    /// `pvc/NAME`: a deleted claim.
    Claim(&'a str),
    /// `pv/NAME`: the volume of a deleted claim.
    Volume(&'a str),
    /// `NAME`: a deleted claim, or the volume of one.
    Either(&'a str),
}

impl<'a> UndeleteRequest<'a> {
    /// Parses the value of the annotation.
    pub fn parse(text: &'a str) -> Self {
        let claim = || text.strip_prefix(CLAIM).map(Self::Claim);
        let volume = text.strip_prefix(VOLUME).map(Self::Volume);
        volume.or_else(claim).unwrap_or(Self::Either(text))
    }

    /// Returns whether the request names the deleted claim of this name.
    pub fn names_claim(&self, claim: &str) -> bool {
        matches!(self, Self::Claim(name) | Self::Either(name) if *name == claim)
    }

    /// Returns whether the request names the volume of this name.
    pub fn names_volume(&self, volume: &str) -> bool {
        matches!(self, Self::Volume(name) | Self::Either(name) if *name == volume)
    }
}

/// The value of [`UNDELETE`] that names a deleted claim.
pub fn of_claim(name: &str) -> String {
    format!("{CLAIM}{name}")
}

/// The value of [`UNDELETE`] that names the volume of a deleted claim.
pub fn of_volume(name: &str) -> String {
    format!("{VOLUME}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_decides_what_a_name_is() {
        for (text, claim, volume) in [
            ("data", true, true),
            ("pvc/data", true, false),
            ("pv/data", false, true),
            ("pv/pvc/data", false, false),
            ("pod/data", false, false),
            ("", false, false),
        ] {
            let request = UndeleteRequest::parse(text);
            assert_eq!(request.names_claim("data"), claim, "{text:?}");
            assert_eq!(request.names_volume("data"), volume, "{text:?}");
        }
        assert!(UndeleteRequest::parse(&of_claim("data")).names_claim("data"));
        assert!(UndeleteRequest::parse(&of_volume("data")).names_volume("data"));
    }
}
