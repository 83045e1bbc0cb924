//! The first part of the page: the totals, and the sums by state.

use super::{
    Subject,
    age::Age,
    figures::Figures,
    tables::sum,
    text::{cost, number, percent, size},
};
use crate::unused::{State, Sum};
use maud::{Markup, html};

/// The states in the order of the page.
const STATES: [State; 6] = [
    State::Used,
    State::Unused,
    State::Released,
    State::InTrash,
    State::Available,
    State::Failed,
];

/// The title of a state, and its meaning.
fn words(state: State) -> (&'static str, &'static str) {
    match state {
        State::Used => ("Used", "a pod uses the claim"),
        State::Unused => ("Unused", "no pod uses the claim"),
        State::Released => ("Released", "the claim was deleted, the volume is kept"),
        State::InTrash => ("In the trash", "the claim was deleted and can be restored"),
        State::Available => ("Available", "the volume has no claim"),
        State::Failed => ("Failed", "the volume could not be deleted"),
    }
}

/// Shows the totals.
pub(super) fn cards(subject: &Subject<'_>, figures: &Figures) -> Markup {
    let (total, idle) = (figures.total, figures.idle);
    let used = figures.of(State::Used);
    html! {
        dl.cards {
            div { dt { "All storage" } dd { (size(total.bytes)) } (details(subject, total)) }
            div {
                dt { "Used by pods" }
                dd { (percent(used.bytes, total.bytes)) }
                dd.small { (size(used.bytes)) }
            }
            div.idle { dt { "Not used by any pod" } dd { (size(idle.bytes)) } (details(subject, idle)) }
            div { dt { "Stuck" } dd { (number(figures.stuck.count)) } dd.small { (size(figures.stuck.bytes)) } }
        }
    }
}

fn details(subject: &Subject<'_>, sum: Sum) -> Markup {
    html! {
        dd.small {
            @match (subject.has_prices(), sum.cost) {
                (true, Some(_)) => { (cost(sum.cost)) " a month" },
                _ => { (number(sum.count)) " claims and volumes" },
            }
        }
    }
}

/// Draws the shares of the states as one bar. The table of the states has the same numbers.
pub(super) fn bar(figures: &Figures) -> Markup {
    let total = figures.total.bytes;
    let mut start = 0.0;
    let parts = STATES.map(|state| {
        let part = (state, start, figures.of(state).bytes / total * 100.0);
        start += part.2;
        part
    });
    html! {
        @if total > 0.0 {
            svg.bar role="img" aria-label="Shares of the states; the next table has the numbers" {
                @for (state, start, width) in parts.iter().filter(|part| part.2 > 0.0) {
                    rect class=(state.name()) x=(format!("{start:.3}%")) width=(format!("{width:.3}%")) height="100%" {
                        title { (words(*state).0) ", " (percent(*width, 100.0)) }
                    }
                }
            }
        }
    }
}

/// Shows the sums by state.
pub(super) fn states(subject: &Subject<'_>, figures: &Figures) -> Markup {
    html! {
        table {
            caption { "Storage by state" }
            thead {
                tr {
                    th scope="col" { "State" }
                    th.number scope="col" { "Number" }
                    th.number scope="col" { "Size" }
                    th.number scope="col" { "Share" }
                    @if subject.has_prices() { th.number scope="col" { "Monthly cost" } }
                }
            }
            tbody { @for state in STATES { (of_state(subject, figures, state)) } }
            tfoot {
                tr #Total { th scope="row" { "Total" } (sum(subject, figures.total, figures.total)) }
                tr #Stuck.part {
                    th scope="row" { "of that, stuck" }
                    (sum(subject, figures.stuck, figures.total))
                }
            }
        }
    }
}

/// The row of a state, and for [`State::Unused`] one more row for each age that a claim has.
fn of_state(subject: &Subject<'_>, figures: &Figures, state: State) -> Markup {
    let (title, meaning) = words(state);
    let ages = Age::ALL.into_iter().filter(|_| state == State::Unused);
    html! {
        tr id=(state.name()) {
            th scope="row" {
                span class=(format!("key {}", state.name())) {}
                (title) " " span.small { (meaning) }
            }
            (sum(subject, figures.of(state), figures.total))
        }
        @for age in ages {
            @if let Some(of_age) = figures.by_age.get(&age) {
                tr.part id=(age.name()) {
                    th scope="row" { (age.title()) }
                    (sum(subject, *of_age, figures.total))
                }
            }
        }
    }
}
