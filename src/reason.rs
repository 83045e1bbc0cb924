//! Reasons: the stable words that Events, log fields and metric labels share.

/// A reason, as `docs/reference/events.md` lists it. `docs/compatibility.md` says when a reason may
/// be renamed.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The word, in PascalCase.
    pub name: &'static str,
    /// The type of the Event with this reason, and the objects that the Event is about. None if
    /// the reason is only a log field and a metric label.
    pub event: Option<(&'static str, &'static str)>,
    /// What happened, in one or two sentences.
    pub meaning: &'static str,
}

/// Declares a constant for each reason, and `LISTED`, which describes them. The doc comment of a
/// constant is the meaning that the documentation prints.
macro_rules! reasons {
    (@event) => { None };
    (@event $type:ident $objects:literal) => { Some((stringify!($type), $objects)) };
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident $(: $type:ident $objects:literal)? = $reason:literal;
    )+) => {
        $($(#[doc = $meaning])+ pub const $name: &str = $reason;)+

        /// The reasons above, with their descriptions.
        #[cfg(feature = "simulation")]
        pub const LISTED: &[$crate::reason::Reason] = &[$($crate::reason::Reason {
            name: $reason,
            event: $crate::reason::reasons!(@event $($type $objects)?),
            meaning: concat!($($meaning),+),
        }),+];
    };
}

pub(crate) use reasons;
