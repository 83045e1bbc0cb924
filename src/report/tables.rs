//! The tables of the page.

use super::{
    Subject,
    group::{Group, MOST},
    lines::{Line, Next},
    locations::Location,
    text,
};
use crate::{columns::age, unused::Sum};
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

/// A size with the exact number of bytes.
pub(super) fn bytes(bytes: f64) -> Markup {
    html! { data value=(format!("{bytes:.0}")) { (text::size(bytes)) } }
}

/// The cells of a sum: number, size, share and cost.
pub(super) fn sum(subject: &Subject<'_>, sum: Sum, whole: Sum) -> Markup {
    html! {
        td.number { (text::number(sum.count)) }
        td.number { (bytes(sum.bytes)) }
        td.number { (text::percent(sum.bytes, whole.bytes)) }
        @if subject.has_prices() { td.number { (text::cost(sum.cost)) } }
    }
}

/// A table that can be scrolled, also with the keyboard.
pub(super) fn region(title: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(format!("Table: {title}")) tabindex="0" { (table) } }
}

/// Shows a group as a section with a table of its lines.
pub(super) fn group(subject: &Subject<'_>, group: &Group) -> Markup {
    let title = format!("{}-title", group.id);
    html! {
        section id=(group.id) aria-labelledby=(title) {
            h2 id=(title) { (group.title) }
            p { (group.about) }
            @if group.lines.is_empty() {
                p { "None found." }
            } @else {
                (region(group.title, &lines(subject, group)))
            }
            (left_out(group.left_out, group.list.as_deref()))
        }
    }
}

/// Names the number of lines that are left out, and the command that lists all.
fn left_out(number: usize, list: Option<&str>) -> Markup {
    html! {
        @if number > 0 {
            p {
                "And " (text::number(number)) " more."
                @if let Some(list) = list { " All of them: " code { (list) } }
            }
        }
    }
}

fn lines(subject: &Subject<'_>, group: &Group) -> Markup {
    html! {
        table {
            caption { (group.title) ", the largest first" }
            thead {
                tr {
                    th scope="col" { (group.subject) }
                    th scope="col" { "Class" }
                    th.number scope="col" { "Size" }
                    @if subject.has_prices() { th.number scope="col" { "Monthly cost" } }
                    th scope="col" { (group.since) }
                    th scope="col" { (group.note) }
                    th scope="col" { "Next command" }
                }
            }
            tbody { @for each in &group.lines { (line(subject, each)) } }
        }
    }
}

fn line(subject: &Subject<'_>, line: &Line) -> Markup {
    html! {
        tr {
            th scope="row" { (line.subject) }
            td { (line.class) }
            td.number { (bytes(line.bytes)) }
            @if subject.has_prices() { td.number { (text::cost(line.cost)) } }
            td { (since(line.since, subject.now)) }
            td { (line.note) }
            td { (next(line.next.as_ref())) }
        }
    }
}

fn since(since: Option<Timestamp>, now: Timestamp) -> Markup {
    html! {
        @match since {
            Some(since) => { time datetime=(since) { (age(since, now)) } },
            None => { "unknown" },
        }
    }
}

fn next(next: Option<&Next>) -> Markup {
    html! {
        @match next {
            None => { "none, because of an unusual name" },
            Some(Next { command, undo: None }) => { code { (command) } },
            Some(Next { command, undo: Some((window, undo)) }) => {
                code { (command) }
                span.small { "can be undone " (window) ":" }
                code { (undo) }
            },
        }
    }
}

/// The table of the storage by namespace and class, with the largest [`MOST`].
pub(super) fn locations(subject: &Subject<'_>, locations: &[Location<'_>]) -> Markup {
    let shown = &locations[..locations.len().min(MOST)];
    let table = html! {
        table {
            caption { "Storage by namespace and class, the largest first" }
            thead {
                tr {
                    th scope="col" { "Namespace" }
                    th scope="col" { "Class" }
                    th.number scope="col" { "Number" }
                    th.number scope="col" { "Size" }
                    th.number scope="col" { "Not used" }
                    th.number scope="col" { "Share not used" }
                    @if subject.has_prices() { th.number scope="col" { "Monthly cost not used" } }
                }
            }
            tbody { @for each in shown { (place(subject, each)) } }
        }
    };
    html! {
        @if shown.is_empty() { p { "None found." } } @else {
            (region("storage by namespace and class", &table))
        }
        (left_out(locations.len() - shown.len(), None))
    }
}

fn place(subject: &Subject<'_>, place: &Location<'_>) -> Markup {
    html! {
        tr {
            th scope="row" { (text::name(place.namespace)) }
            td { (text::name(place.class)) }
            td.number { (text::number(place.total.count)) }
            td.number { (bytes(place.total.bytes)) }
            td.number { (bytes(place.idle.bytes)) }
            td.number { (text::percent(place.idle.bytes, place.total.bytes)) }
            @if subject.has_prices() { td.number { (text::cost(place.idle.cost)) } }
        }
    }
}
