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

    /// Returns the name of the deleted claim, if the request may name one.
    pub fn claim(self) -> Option<&'a str> {
        match self {
            Self::Claim(name) | Self::Either(name) => Some(name),
            Self::Volume(_) => None,
        }
    }

    /// Returns the name of the volume, if the request may name one.
    pub fn volume(self) -> Option<&'a str> {
        match self {
            Self::Volume(name) | Self::Either(name) => Some(name),
            Self::Claim(_) => None,
        }
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
            ("data", Some("data"), Some("data")),
            ("pvc/data", Some("data"), None),
            ("pv/data", None, Some("data")),
            ("pv/pvc/data", None, Some("pvc/data")),
            ("pod/data", Some("pod/data"), Some("pod/data")),
            ("", Some(""), Some("")),
        ] {
            let request = UndeleteRequest::parse(text);
            assert_eq!(
                (request.claim(), request.volume()),
                (claim, volume),
                "{text:?}"
            );
        }
        assert_eq!(
            UndeleteRequest::parse(&of_claim("data")).claim(),
            Some("data")
        );
        assert_eq!(
            UndeleteRequest::parse(&of_volume("data")).volume(),
            Some("data")
        );
    }
}
