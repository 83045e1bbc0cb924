//! The page as a whole.

use super::{
    Subject, figures::Figures, group::groups, locations, overview, picture::picture, tables, text,
};
use crate::{unused::Row, version::VERSION};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
/// The Content-Security-Policy of the page: nothing is loaded, and no script runs.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Returns the page about these rows.
pub(super) fn page(subject: &Subject<'_>, rows: &[Row]) -> Markup {
    let figures = Figures::new(subject, rows);
    let groups = groups(subject, rows);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(subject))
            body {
                header {
                    h1 { "Storage report" }
                    p { (scope(subject)) ", " (time(subject)) }
                }
                nav aria-label="Sections" {
                    a href="#overview" { "Overview" }
                    a href="#map" { "Map" }
                    @for group in &groups {
                        a href=(format!("#{}", group.id)) { (group.title) " (" (text::number(group.number())) ")" }
                    }
                }
                main {
                    (unread(subject))
                    (summary(subject, &figures))
                    (map(subject, rows))
                    @for group in &groups { (tables::group(subject, group)) }
                }
                footer { p { "volume-warden " (VERSION) ". This page is a copy of the state at that time; it changes nothing in the cluster." } }
            }
        }
    }
}

fn head(subject: &Subject<'_>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            title { "Storage report: " (scope(subject)) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn scope(subject: &Subject<'_>) -> String {
    match subject.namespace {
        Some(namespace) => format!("namespace {}", text::name(namespace)),
        None => "all namespaces".to_owned(),
    }
}

fn time(subject: &Subject<'_>) -> Markup {
    let time = subject.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time datetime=(time) { (subject.now.strftime("%Y-%m-%d %H:%M UTC")) } }
}

/// Lists what could not be read and is therefore missing on the page.
fn unread(subject: &Subject<'_>) -> Markup {
    html! {
        @if !subject.listed.errors.is_empty() {
            section.warning aria-labelledby="unread-title" {
                h2 #unread-title { "Not read" }
                p { "The page lacks these objects, and what they refer to." }
                ul { @for sentence in &subject.listed.errors { li { (text::bounded(sentence, 500)) } } }
            }
        }
    }
}

fn summary(subject: &Subject<'_>, figures: &Figures) -> Markup {
    let total = figures.total;
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "Overview" }
            (overview::cards(subject, figures))
            (overview::bar(figures))
            (tables::region("storage by state", &overview::states(subject, figures)))
            @if subject.has_prices() && total.priced < total.count {
                p.small {
                    "The cost is that of the " (text::number(total.priced)) " of " (text::number(total.count))
                    " claims and volumes whose StorageClass has a price."
                }
            }
        }
    }
}

/// Shows the treemap, and the same numbers as a table.
fn map(subject: &Subject<'_>, rows: &[Row]) -> Markup {
    let locations = locations::locations(subject, rows);
    html! {
        section #map aria-labelledby="map-title" {
            h2 #map-title { "Storage by namespace and class" }
            p #map-text {
                "Each area is proportional to the size. The color shows which share no pod uses. "
                "The table below has the same numbers."
            }
            @if locations.iter().any(|place| place.total.bytes > 0.0) {
                (picture(&locations))
                p.legend {
                    "Not used:"
                    @for (step, share) in ["0 %", "up to 25 %", "up to 50 %", "up to 75 %", "up to 100 %"].iter().enumerate() {
                        span { span class=(format!("key step{step}")) {} (share) }
                    }
                }
            }
            (tables::locations(subject, &locations))
        }
    }
}
