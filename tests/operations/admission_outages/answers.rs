//! Volume Warden's endpoint accepts connections, but does not respond or sends invalid responses.

use super::{
    fixture::OutageFixture,
    stand_in::{Authority, StandIn},
};
use crate::support::{claim, dry_run};
use anyhow::{Context, Result};
use serde_json::json;
use tokio::time::timeout;
use volume_warden_controlplane::DEFAULT_TIMEOUT;

/// Volume Warden's process is paused: the kernel accepts connections, the API server sends
/// requests, and the process answers none.
#[tokio::test]
async fn hung() -> Result<()> {
    let fixture = OutageFixture::open("hung").await?;
    fixture.warden.process().pause()?;
    fixture.users_are_unaffected().await?;
    fixture.warden.process().resume()?;
    fixture.recovers().await
}

/// A stand-in with a trusted certificate answers the reviews with invalid responses.
#[tokio::test]
async fn invalid_responses() -> Result<()> {
    let review = |field: &str| {
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{field}}}"#
        );
        response("200 OK", "", &body)
    };
    let responses = vec![
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        Vec::new(),
        response("200 OK", "", ""),
        response("200 OK", "", "<html>hello</html>"),
        response("200 OK", "", "null"),
        response("200 OK", "", r#"{"apiVersion":"v1","kind":"Status"}"#),
        response("200 OK", "", "{\"apiVersion\":\"admission.k8s.io/v1\""),
        review(r#"{"uid":"another","allowed":false}"#),
        review(r#"{"allowed":false}"#),
        review("[]"),
        response("404 Not Found", "", "no"),
        response("500 Internal Server Error", "", "no"),
        response("503 Service Unavailable", "retry-after: 1\r\n", "no"),
        response("429 Too Many Requests", "retry-after: 1\r\n", "no"),
        response(
            "302 Found",
            "location: https://volume-warden.volume-warden.svc/\r\n",
            "",
        ),
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{".to_vec(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
    ];
    let count = responses.len();
    let fixture = OutageFixture::open("junk").await?;
    fixture.kill()?;
    let authority = Authority::trusted_by(&fixture.cluster).await?;
    let stand_in = StandIn::start(&fixture, &authority.issue(1)?, responses).await?;
    fixture.users_are_unaffected().await?;
    // Users continue until the stand-in has used each response at least once.
    let (claims, probe) = (&fixture.users.space.claims, claim("probe", json!({}))?);
    let repeated = async {
        while stand_in.answered() < count {
            claims.create(&dry_run(), &probe).await?;
        }
        anyhow::Ok(())
    };
    let repeated = timeout(DEFAULT_TIMEOUT, repeated).await;
    repeated.context("the stand-in did not use each response")??;
    drop(stand_in);
    let _successor = fixture.successor().serving().start().await?;
    fixture.recovers().await
}

/// An HTTP response with this status line, these additional headers and this body.
fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}
