//! `unused` and `report`, against an API server that gives prepared answers.

use super::{
    answers::{CLAIM, EMPTY, asked, has, status},
    misused, warden,
};
use tempfile::TempDir;

#[test]
fn unused_lists_what_the_user_may_read() {
    let unused = &["unused", "-n", "shop"];
    let (ended, requests) = asked(unused, vec![("GET", 200, EMPTY.to_owned())]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(&ended.stderr, &["nothing is unused"]);
    assert_eq!(requests.len(), 11, "{requests:?}");
    let claims = EMPTY.replace("[]", &format!("[{}]", CLAIM.replace("PHASE", "Bound")));
    let forbidden = || status(403, "Forbidden", "you may not");
    let answers = |refused| {
        vec![
            (refused, 403, forbidden()),
            ("persistentvolumeclaims", 200, claims.clone()),
            ("GET", 200, EMPTY.to_owned()),
        ]
    };
    let (ended, _) = asked(unused, answers("statefulsets"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    has(
        &ended.stderr,
        &["StatefulSets could not be listed", "you may not"],
    );
    has(&ended.stdout, &["shop", "data", "unknown"]);
    let older = &["unused", "-n", "shop", "--older-than=1d"];
    let (ended, _) = asked(older, answers("statefulsets"));
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(
        &ended.stderr,
        &["since when they are unused: 1", "for that long"],
    );
    for required in ["/pods", "persistentvolumeclaims"] {
        let (ended, _) = asked(unused, answers(required));
        assert_eq!((ended.code, &*ended.stdout), (Some(3), ""));
        has(
            &ended.stderr,
            &["the claims or the pods could not be listed"],
        );
    }
    misused(warden(&["unused", "--price=fast"]), &["CLASS=PRICE"]);
    misused(warden(&["unused", "--older-than=soon"]), &["30d"]);
}

#[test]
fn report_writes_a_page() {
    let claims = EMPTY.replace("[]", &format!("[{}]", CLAIM.replace("PHASE", "Bound")));
    let answers = |refused| {
        let refusal = status(403, "Forbidden", "<b>no</b>");
        vec![
            (refused, 403, refusal),
            ("persistentvolumeclaims", 200, claims.clone()),
            ("GET", 200, EMPTY.to_owned()),
        ]
    };
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("page.html");
    let report = &[
        "report",
        "-n",
        "shop",
        "--html",
        file.to_str().expect("UTF-8"),
    ];
    let (ended, requests) = asked(report, answers("statefulsets"));
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(&ended.stderr, &["StatefulSets could not be listed"]);
    assert_eq!(requests.len(), 11, "{requests:?}");
    let page = std::fs::read_to_string(&file).expect("a page");
    let next = "<code>volume-warden why pvc/data -n shop</code>";
    has(
        &page,
        &[
            "<!DOCTYPE html>",
            "StatefulSets could not be listed",
            "&lt;b&gt;no",
            next,
        ],
    );

    let (ended, _) = asked(
        &["report", "-n", "shop", "--html=-"],
        answers("statefulsets"),
    );
    assert!(ended.code == Some(0) && ended.stdout.starts_with("<!DOCTYPE html>"));
    let (ended, _) = asked(report, answers("/pods"));
    assert_eq!((ended.code, &*ended.stdout), (Some(3), ""));
    assert_eq!(std::fs::read_to_string(&file).expect("a page"), page);
    let missing = &["report", "-n", "shop", "--html=/nonexistent/page.html"];
    let (ended, _) = asked(missing, answers("statefulsets"));
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
    has(
        &ended.stderr,
        &["cannot write /nonexistent/page.html", "No such file"],
    );
    misused(warden(&["report"]), &["--html"]);
    misused(
        warden(&["report", "--html=-", "--price=fast"]),
        &["CLASS=PRICE"],
    );
}
