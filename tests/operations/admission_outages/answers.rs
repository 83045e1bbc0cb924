//! The endpoint accepts connections, and does not respond or responds with invalid data.

use super::{
    fixture::OutageFixture,
    stand_in::{Authority, StandIn},
};
use anyhow::Result;

/// The kernel accepts connections, the API server sends requests, and the paused process answers
/// none.
#[tokio::test]
async fn hung() -> Result<()> {
    let fixture = OutageFixture::open("hung").await?;
    fixture.warden.process().pause()?;
    fixture.users_are_unaffected().await?;
    fixture.warden.process().resume()?;
    fixture.recovers().await
}

/// The stand-in has a trusted certificate, so the API server takes it for Volume Warden.
#[tokio::test]
async fn answering_junk() -> Result<()> {
    let review = |response: &str| {
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{response}}}"#
        );
        answer("200 OK", "", &body)
    };
    let junk = vec![
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        Vec::new(),
        answer("200 OK", "", ""),
        answer("200 OK", "", "<html>hello</html>"),
        answer("200 OK", "", "null"),
        answer("200 OK", "", r#"{"apiVersion":"v1","kind":"Status"}"#),
        answer("200 OK", "", "{\"apiVersion\":\"admission.k8s.io/v1\""),
        review(r#"{"uid":"another","allowed":false}"#),
        review(r#"{"allowed":false}"#),
        review("[]"),
        answer("404 Not Found", "", "no"),
        answer("500 Internal Server Error", "", "no"),
        answer("503 Service Unavailable", "retry-after: 1\r\n", "no"),
        answer("429 Too Many Requests", "retry-after: 1\r\n", "no"),
        answer(
            "302 Found",
            "location: https://volume-warden.volume-warden.svc/\r\n",
            "",
        ),
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{".to_vec(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
    ];
    let fixture = OutageFixture::open("junk").await?;
    fixture.kill()?;
    let authority = Authority::trusted_by(&fixture.cluster).await?;
    let stand_in = StandIn::start(&fixture, &authority.issue(1)?, junk).await?;
    fixture.users_are_unaffected().await?;
    assert!(stand_in.answered() > 0, "the stand-in received no request");
    drop(stand_in);
    let _successor = fixture.successor().serving().start().await?;
    fixture.recovers().await
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}
