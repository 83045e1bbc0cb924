//! The commands `unused` and `report`, against an API server with predefined responses.

use super::{
    answers::{CLAIM, EMPTY, assert_contains, run_against, status},
    assert_usage_error, warden,
};
use tempfile::TempDir;

#[test]
fn unused_lists_what_the_user_may_read() {
    let unused = &["unused", "-n", "shop"];
    let (finished, requests) = run_against(unused, vec![("GET", 200, EMPTY.to_owned())]);
    assert_eq!((finished.code, &*finished.stdout), (Some(0), ""));
    assert_contains(&finished.stderr, &["nothing is unused"]);
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
    let (finished, _) = run_against(unused, answers("statefulsets"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_contains(
        &finished.stderr,
        &["StatefulSets could not be listed", "you may not"],
    );
    assert_contains(&finished.stdout, &["shop", "data", "unknown"]);
    let older = &["unused", "-n", "shop", "--older-than=1d"];
    let (finished, _) = run_against(older, answers("statefulsets"));
    assert_eq!((finished.code, &*finished.stdout), (Some(0), ""));
    assert_contains(
        &finished.stderr,
        &["since when they are unused: 1", "for that long"],
    );
    for required in ["/pods", "persistentvolumeclaims"] {
        let (finished, _) = run_against(unused, answers(required));
        assert_eq!((finished.code, &*finished.stdout), (Some(3), ""));
        assert_contains(
            &finished.stderr,
            &["the claims or the pods could not be listed"],
        );
    }
    assert_usage_error(warden(&["unused", "--price=fast"]), &["CLASS=PRICE"]);
    assert_usage_error(warden(&["unused", "--older-than=soon"]), &["30d"]);
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
    let (finished, requests) = run_against(report, answers("statefulsets"));
    assert_eq!((finished.code, &*finished.stdout), (Some(0), ""));
    assert_contains(&finished.stderr, &["StatefulSets could not be listed"]);
    assert_eq!(requests.len(), 12, "{requests:?}");
    let page = std::fs::read_to_string(&file).expect("a page");
    let next = "<code>volume-warden why pvc/data -n shop</code>";
    assert_contains(
        &page,
        &[
            "<!DOCTYPE html>",
            "StatefulSets could not be listed",
            "&lt;b&gt;no",
            next,
        ],
    );

    let (finished, _) = run_against(
        &["report", "-n", "shop", "--html=-"],
        answers("statefulsets"),
    );
    assert!(finished.code == Some(0) && finished.stdout.starts_with("<!DOCTYPE html>"));
    let (finished, _) = run_against(report, answers("/pods"));
    assert_eq!((finished.code, &*finished.stdout), (Some(3), ""));
    assert_eq!(std::fs::read_to_string(&file).expect("a page"), page);
    let missing = &["report", "-n", "shop", "--html=/nonexistent/page.html"];
    let (finished, _) = run_against(missing, answers("statefulsets"));
    assert_eq!((finished.code, &*finished.stdout), (Some(1), ""));
    assert_contains(
        &finished.stderr,
        &["cannot write /nonexistent/page.html", "No such file"],
    );
    assert_usage_error(warden(&["report"]), &["--html"]);
    assert_usage_error(
        warden(&["report", "--html=-", "--price=fast"]),
        &["CLASS=PRICE"],
    );
}
