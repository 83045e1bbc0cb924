//! For how long no pod has used a claim, in steps.

use k8s_openapi::jiff::Timestamp;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// For how long a claim is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Age {
    UnderWeek,
    UnderMonth,
    UnderQuarter,
    Older,
    Unknown,
}

impl Age {
    /// All steps, in the order of the page.
    pub(super) const ALL: [Self; 5] = [
        Self::UnderWeek,
        Self::UnderMonth,
        Self::UnderQuarter,
        Self::Older,
        Self::Unknown,
    ];

    /// Returns the step of a claim that no pod has used since this time.
    pub(super) fn of(since: Option<Timestamp>, now: Timestamp) -> Self {
        let Some(since) = since else {
            return Self::Unknown;
        };
        let seconds = (now.as_second() - since.as_second()).max(0).unsigned_abs();
        match seconds / DAY {
            0..7 => Self::UnderWeek,
            7..30 => Self::UnderMonth,
            30..90 => Self::UnderQuarter,
            _ => Self::Older,
        }
    }

    /// The identifier of the step in the page.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnderWeek => "UnderWeek",
            Self::UnderMonth => "UnderMonth",
            Self::UnderQuarter => "UnderQuarter",
            Self::Older => "Older",
            Self::Unknown => "Unknown",
        }
    }

    /// The title of the step on the page.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::UnderWeek => "for less than 7 days",
            Self::UnderMonth => "for 7 to 30 days",
            Self::UnderQuarter => "for 30 to 90 days",
            Self::Older => "for 90 days or more",
            Self::Unknown => "since an unknown time",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_has_one_step() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
        let of = |since: &str| Age::of(since.parse().ok(), now);
        for (since, age) in [
            ("2026-06-02T00:00:00Z", Age::UnderWeek),
            ("2026-05-25T00:00:01Z", Age::UnderWeek),
            ("2026-05-25T00:00:00Z", Age::UnderMonth),
            ("2026-05-02T00:00:00Z", Age::UnderQuarter),
            ("2026-03-03T00:00:00Z", Age::Older),
            ("never", Age::Unknown),
        ] {
            assert_eq!(of(since), age, "{since}");
        }
    }
}
