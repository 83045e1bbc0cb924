use super::*;
use crate::tls::trust::{Trust, trust};

const HOST: &str = "a.b.svc";
const START: i64 = 1_800_000_000;

pub(in crate::tls) fn names() -> [String; 1] {
    [HOST.to_owned()]
}

pub(in crate::tls) fn day(days: i64) -> i64 {
    days * 86_400
}

/// Returns the inputs of a step at this number of seconds after the start, with the default
/// lifetimes.
pub(in crate::tls) fn scene(seconds: i64) -> Scene<'static> {
    static NAMES: std::sync::LazyLock<[String; 1]> = std::sync::LazyLock::new(names);
    let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
    Scene {
        names: &*NAMES,
        lifetimes: Lifetimes::new(days(365), days(90)).expect("lifetimes"),
        now: OffsetDateTime::from_unix_timestamp(START).expect("a time")
            + time::Duration::seconds(seconds),
    }
}

fn generate() -> Material {
    Material::generate("", scene(0)).expect("generates")
}

fn at(seconds: i64, material: &Material) -> Material {
    renewed(material, Some(60), seconds)
}

/// The material after a step, if it has been published everywhere for this number of seconds.
fn renewed(material: &Material, published: Option<u64>, seconds: i64) -> Material {
    let published = published.map(Duration::from_secs);
    material.renewed(published, scene(seconds)).expect("renews")
}

fn is_trusted(pair: &Pair, bundle: &str, seconds: i64) -> bool {
    let trust = trust(&pair.certificate, bundle, Some(HOST), scene(seconds).now);
    matches!(trust, Trust::Until(_))
}

#[test]
fn a_leaf_is_renewed_at_two_thirds_of_its_life() {
    let first = generate();
    assert!(at(day(59), &first) == first);
    let second = at(day(61), &first);
    assert!(second.authority == first.authority && second.next.is_none());
    assert!(second.pair != first.pair);
    assert!(at(day(62), &second) == second);
}

#[test]
fn a_new_ca_is_published_before_it_signs_and_the_old_one_after() {
    let young = at(day(240), &generate());
    let announced = at(day(244), &young);
    assert!(announced.authority == young.authority && announced.pair == young.pair);
    let next = announced.next.clone().expect("a new CA");
    let both = format!("{}{}", young.authority.certificate, next.certificate);
    assert_eq!(announced.trusted(), both);

    assert!(at(day(244) + 59, &announced) == announced, "too early");
    for published in [None, Some(59)] {
        let early = renewed(&announced, published, day(245));
        assert!(early == announced, "{published:?}");
    }
    let signed = at(day(244) + 60, &announced);
    assert!(signed.authority == next && signed.next.is_none());
    assert!(signed.pair != announced.pair);
    assert!(is_trusted(&signed.pair, &both, day(245)));
    assert!(is_trusted(&announced.pair, &signed.trusted(), day(245)));

    let late = at(day(366), &signed);
    assert_eq!(late.trusted(), next.certificate, "the old one has expired");
}

/// A replica that is one renewal late is trusted, and so is one that is early, at every moment of
/// three years.
#[test]
fn every_replica_is_trusted_before_and_after_each_step() {
    let (mut before, mut authorities) = (generate(), 1);
    for hours in (0..3 * 365 * 24).step_by(24) {
        let seconds = hours * 3600;
        let after = at(seconds, &before);
        for (pair, bundle) in [
            (&before.pair, after.trusted()),
            (&after.pair, before.trusted()),
            (&after.pair, after.trusted()),
        ] {
            assert!(is_trusted(pair, &bundle, seconds), "after {hours} hours");
        }
        authorities += i64::from(after.authority != before.authority);
        before = after;
    }
    assert_eq!(authorities, 5, "one every 243 days");
}

/// The clock jumps ahead after its machine was suspended, and ahead or back when it is set.
#[test]
fn after_a_jump_everything_is_valid_again_at_once() {
    for days in [100, 400, 4000, -5] {
        for rotating in [false, true] {
            let first = if !rotating {
                generate()
            } else {
                at(day(244), &at(day(240), &generate()))
            };
            let seconds = day(days) + if rotating { day(244) } else { 0 };
            let renewed = at(seconds, &first);
            let valid = is_trusted(&renewed.pair, &renewed.trusted(), seconds);
            assert!(valid, "{days} days, rotating: {rotating}");
        }
    }
}

#[test]
fn the_next_step_is_known() {
    // Expired certificates are dropped whether or not a renewal step is due.
    let parts = |of: &Material| {
        (
            of.authority.key.clone(),
            of.next.is_some(),
            of.pair.key.clone(),
        )
    };
    let mut material = generate();
    for _ in 0..20 {
        let due = material.next_step() - START;
        let (early, in_time) = (at(due - 1, &material), at(due, &material));
        assert!(parts(&early) == parts(&material), "nothing before {due}");
        assert!(parts(&in_time) != parts(&material), "something at {due}");
        material = in_time;
    }
}

/// A replica that starts without the Secret keeps the CAs of the other replicas in the caBundle.
#[test]
fn what_was_published_stays_trusted() {
    let (foreign, now) = (generate(), scene(0));
    let bundle = foreign.trusted();
    let published = format!("# a remark\n{}", bundle.trim_end());
    let own = Material::generate(&published, now).expect("generates");
    for pair in [&foreign.pair, &own.pair] {
        assert!(is_trusted(pair, &own.trusted(), 0));
    }
    assert!(!is_trusted(&own.pair, &bundle, 0));
    let junk = Material::generate("junk", now).expect("generates");
    assert_eq!(junk.trusted(), junk.authority.certificate);
}

/// The clock of one of two replicas is ahead by more than a year, so each replaces the CA of the
/// other in its next round.
#[test]
fn clocks_that_differ_do_not_grow_the_secret_without_limit() {
    let mut material = generate();
    for round in 1..=20 {
        let ahead = renewed(&material, None, day(400) + round);
        material = renewed(&ahead, None, round);
        assert!(is_trusted(
            &ahead.pair,
            &material.trusted(),
            day(400) + round
        ));
    }
    let previous = material.previous.matches("BEGIN CERTIFICATE");
    assert_eq!(previous.count(), MAX_PREVIOUS);
}
