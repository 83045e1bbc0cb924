//! The result of a lookup.

/// The result of a lookup in [`World`](super::World).
#[derive(Clone, Debug, PartialEq)]
pub enum Look<T> {
    /// The object exists.
    Found(T),
    /// The object does not exist.
    Absent,
    /// It is not known whether the object exists: it is read before the next lookup, or could not
    /// be read.
    Unread,
}

impl<T> Look<T> {
    /// The result of `read` with the object, if it was read and exists.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Look<U> {
        self.and_then(|found| Some(read(found)))
    }

    /// Converts the object as [`Self::map`] does. The result is absent where `read` finds nothing.
    pub fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Look<U> {
        match self {
            Self::Found(found) => read(found).map_or(Look::Absent, Look::Found),
            Self::Absent => Look::Absent,
            Self::Unread => Look::Unread,
        }
    }

    /// The object, if it was read and exists.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent | Self::Unread => None,
        }
    }
}
