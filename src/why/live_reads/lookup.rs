//! The result of a lookup.

/// The result of a lookup in [`LiveReads`](super::LiveReads).
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// The object exists.
    Found(T),
    /// The object does not exist.
    Absent,
    /// It is not known whether the object exists: it could not be read, or it is read before the
    /// explanation runs again.
    Unread,
}

impl<T> Lookup<T> {
    /// Converts the object with `read`. `Absent` and `Unread` stay as they are.
    pub fn map<U>(self, read: impl FnOnce(T) -> U) -> Lookup<U> {
        self.and_then(|found| Some(read(found)))
    }

    /// Converts the object as [`Self::map`] does. The result is `Absent` if `read` returns none.
    pub fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Lookup<U> {
        match self {
            Self::Found(found) => read(found).map_or(Lookup::Absent, Lookup::Found),
            Self::Absent => Lookup::Absent,
            Self::Unread => Lookup::Unread,
        }
    }

    /// The object; none if it is absent or unread.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent | Self::Unread => None,
        }
    }
}
