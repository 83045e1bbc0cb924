//! Tests of the claim that `undelete` creates, and of its sentences.

use super::*;
use crate::cluster::test_server::{answering, failure, uncertain};
use parking_lot::Mutex;
use serde_json::{Value, json};

const WANTED: Restoration<'static> = Restoration {
    namespace: "shop",
    deleted: "data",
    volume: None,
    name: "copy",
    from: None,
    cluster_flags: "",
};

fn refused((_, status): (u16, Value)) -> String {
    let status: Status = serde_json::from_value(status).expect("a status");
    WANTED.refusal(&kube::Error::Api(Box::new(status)))
}

/// Waits for the claim with the uid 1 while the API server gives these answers, the last of them
/// again and again.
async fn ended(answers: Vec<(u16, Value)>) -> End {
    let answers = Mutex::new(answers);
    let client = answering(move |_, _| {
        let mut left = answers.lock();
        match left.len() {
            1 => left[0].clone(),
            _ => left.remove(0),
        }
    });
    let claims = Api::namespaced(client, "shop");
    let created: PersistentVolumeClaim =
        serde_json::from_value(claim("1", "Pending")).expect("a claim");
    WANTED
        .bound(&claims, &created, Duration::from_secs(5))
        .await
}

fn claim(uid: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "copy", "uid": uid},
        "status": {"phase": phase}})
}

/// The webhook fills in the rest. The user's command does not know class and size.
#[test]
fn the_claim_names_what_it_restores_and_nothing_else() {
    let created = serde_json::to_value(WANTED.claim()).expect("JSON");
    let expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "copy", "namespace": "shop", "annotations": {"volume-warden.dev/undelete": "pvc/data"}},
        "spec": {},
    });
    assert_eq!(created, expected);
    let by_volume = Restoration {
        volume: Some("pv-1"),
        ..WANTED
    };
    assert_eq!(by_volume.claim().annotations()[UNDELETE], "pv/pv-1");
}

#[test]
fn a_refusal_says_what_to_do() {
    let exists = refused(failure(409, "AlreadyExists"));
    for words in [
        "a claim copy exists",
        "undelete pvc data -n shop --new-name NEW",
        "set its whenScaled to Retain, and scale it to 0 before",
    ] {
        assert!(exists.contains(words), "{words}: {exists}");
    }
    assert_eq!(
        refused(failure(422, "Invalid")),
        "the claim was not created: the words"
    );
    let mut invalid = failure(422, "Invalid");
    invalid.1["details"] =
        json!({"causes": [{"field": "spec.accessModes", "reason": "FieldValueRequired"}]});
    let invalid = refused(invalid);
    assert!(invalid.contains("did not process"), "{invalid}");
    let silent = WANTED.refusal(&kube::Error::Service("no answer".into()));
    let late = refused(failure(504, "Timeout"));
    let broken = refused(failure(500, "InternalError"));
    for words in [silent, late, broken] {
        assert!(words.contains("it is unknown whether"), "{words}");
    }
}

#[tokio::test]
async fn the_exit_code_says_whether_the_claim_may_have_been_created() {
    let created = async |answer: (u16, Value)| {
        let claims = Api::namespaced(answering(move |_, _| answer.clone()), "shop");
        let created = WANTED.create(&claims, &WANTED.claim()).await;
        created.map(|claim| claim.uid())
    };
    let uid = Some("1".to_owned());
    assert_eq!(created((201, claim("1", "Pending"))).await, Ok(uid));
    for (code, reason) in [(409, "AlreadyExists"), (422, "Invalid")] {
        let refused = created(failure(code, reason)).await;
        assert_eq!(refused, Err(ExitCode::FAILURE), "{code}");
    }
    for answer in uncertain() {
        let code = answer.0;
        let unknown = created(answer).await;
        assert_eq!(unknown, Err(ExitCode::from(EXIT_UNKNOWN)), "{code}");
    }
}

/// The webhook restores the volume that `--volume` selects, whatever the name of its claim was.
/// With `--to-namespace`, the command itself selects the volume by both.
#[test]
fn a_volume_is_not_called_that_of_the_named_claim_unless_it_is() {
    let by_volume = Restoration {
        volume: Some("pv-1"),
        ..WANTED
    };
    assert_eq!(
        by_volume.created("pv-1"),
        "Created the claim shop/copy, which gets the data of the deleted claim of volume pv-1."
    );
    let by_both = Restoration {
        from: Some("other"),
        ..by_volume
    };
    assert_eq!(
        by_both.created("pv-1"),
        "Created the claim shop/copy for volume pv-1, which has the data of the deleted claim."
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_when_the_claim_is_bound() {
    let answers = vec![
        (200, claim("1", "Pending")),
        failure(503, "ServiceUnavailable"),
        (200, claim("1", "Bound")),
    ];
    let end = ended(answers).await;
    assert!(matches!(end, End::Bound), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_when_the_claim_does_not_exist_any_more() {
    for answer in [failure(404, "NotFound"), (200, claim("2", "Bound"))] {
        let end = ended(vec![answer]).await;
        assert!(matches!(end, End::Deleted), "{end:?}");
    }
}

/// Volume Warden's Event on the claim says that the claim does not get the data, and why.
#[tokio::test(start_paused = true)]
async fn the_wait_ends_when_the_claim_is_refused() {
    let pending = || (200, claim("1", "Pending"));
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {}, "message": "the volume has been purged"});
    let events =
        |items| json!({"apiVersion": "v1", "kind": "EventList", "metadata": {}, "items": items});
    let mut answers = vec![pending(), pending(), pending(), pending()];
    answers.push(failure(403, "Forbidden"));
    answers.extend([pending(), pending(), pending(), pending()]);
    answers.push((200, events(json!([event]))));
    answers.push((200, claim("1", "Bound")));
    let end = ended(answers).await;
    let End::Refused(why) = end else {
        unreachable!("{end:?}");
    };
    assert_eq!(why, "the volume has been purged");
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_after_the_timeout() {
    let end = ended(vec![(200, claim("1", "Pending"))]).await;
    assert!(matches!(end, End::Late(None)), "{end:?}");
    // A proxy may answer 404 for objects that exist.
    let end = ended(vec![(404, json!("404 page not found"))]).await;
    assert!(matches!(end, End::Late(Some(_))), "{end:?}");
    let late = WANTED.late(Duration::from_secs(60), None);
    assert!(late.contains("not Bound after 60s"), "{late}");
    assert!(late.contains("why pvc copy -n shop"), "{late}");
}

#[test]
fn the_page_of_the_command_shows_its_output() {
    let restored = Restoration {
        name: "data",
        ..WANTED
    };
    let output = [
        restored.created("pvc-7d2c"),
        WAITING.to_owned(),
        restored.restored("pvc-7d2c"),
    ];
    let block = format!("```text\n{}\n```", output.join("\n"));
    let page = include_str!("../../../docs/commands/undelete.md");
    assert!(page.contains(&block), "{block}");
}
