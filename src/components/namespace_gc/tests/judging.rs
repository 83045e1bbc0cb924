//! Tests of the rule of namespace-gc, as a table.

use super::*;
use crate::{backend::Listed, hashing::HashSet};
use Verdict::{InKubernetes, NotSeen, Orphan, OverTheCap, Protected, TooYoung, Waiting};
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);

fn listed(name: &str, since: Option<SystemTime>) -> Listed {
    Listed {
        id: name.into(),
        name: name.into(),
        version: "1".into(),
        since,
    }
}

fn set(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn verdict(namespace: &Listed, now: SystemTime, options: &Options) -> Verdict {
    let known = KnownNames {
        kubernetes: &set(&["alive", "kube-public"]),
        seen: &set(&["alive", "shop", "stuck", "young", "default"]),
        waiting: &set(&["stuck"]),
        now,
    };
    judge(namespace, &known, options)
}

fn scope(scope: Scope) -> Options {
    Options {
        scope,
        ..Options::default()
    }
}

/// NS-15, NS-18, NS-25 and `--gc-scope`.
#[test]
fn reasons_to_keep_a_namespace() {
    for (name, all, seen) in [
        ("alive", InKubernetes, InKubernetes),
        ("kube-public", InKubernetes, InKubernetes),
        ("default", Protected, Protected),
        ("kube-node-lease", Protected, Protected),
        ("foreign", Orphan, NotSeen),
        ("stuck", Waiting, Waiting),
        ("shop", Orphan, Orphan),
    ] {
        let now = SystemTime::now();
        let namespace = listed(name, None);
        assert_eq!(verdict(&namespace, now, &scope(Scope::All)), all, "{name}");
        assert_eq!(
            verdict(&namespace, now, &scope(Scope::Seen)),
            seen,
            "{name}"
        );
    }
}

#[test]
fn a_young_namespace_is_kept_until_the_grace_period_ends() {
    let (options, now) = (Options::default(), SystemTime::now());
    for (since, expected) in [
        (None, Orphan),
        (Some(now), TooYoung),
        (Some(now - SECOND * 59), TooYoung),
        (Some(now - SECOND * 60), Orphan),
        (Some(now + SECOND * 3600), TooYoung),
    ] {
        let namespace = listed("shop", since);
        assert_eq!(verdict(&namespace, now, &options), expected, "{since:?}");
    }
    let patient = Options {
        grace: Duration::ZERO,
        ..Options::default()
    };
    for since in [now, now + SECOND * 3600] {
        let namespace = listed("shop", Some(since));
        assert_eq!(
            verdict(&namespace, now, &patient),
            Orphan,
            "no grace period is set"
        );
    }
}

#[test]
fn the_cap_counts_orphans_only() {
    let names = ["alive", "a", "b", "default", "c", "stuck", "d"];
    let namespaces = names.map(|name| listed(name, None));
    let known = KnownNames {
        kubernetes: &set(&["alive"]),
        seen: &set(&[]),
        waiting: &set(&["stuck"]),
        now: SystemTime::now(),
    };
    for (max_deletions, c, d) in [
        (2, OverTheCap, OverTheCap),
        (3, Orphan, OverTheCap),
        (0, Orphan, Orphan),
    ] {
        let options = Options {
            max_deletions,
            ..Options::default()
        };
        let verdicts = judge_all(&namespaces, &known, &options);
        let expected = [InKubernetes, Orphan, Orphan, Protected, c, Waiting, d];
        assert_eq!(verdicts, expected, "{max_deletions}");
    }
}
