//! The webhook of greeter.

use std::{sync::Arc, time::Duration};
use volume_warden::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::{
        Claim,
        claim::ClaimWire,
        finalizers::{append, has},
    },
};

pub fn hook(greeting: Arc<str>) -> Hook {
    Hook {
        path: "/greeter/claims",
        rules: &[Rule("CREATE", "persistentvolumeclaims")],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(move |request| greet(request, &greeting)),
    }
}

fn greet(request: &Request, greeting: &str) -> Reviewed {
    let claim = Claim::from(request.object::<ClaimWire>()?);
    if has(&claim.finalizers, greeting) {
        return Ok(Answer::Allow);
    }
    Ok(Answer::Patch {
        operations: vec![append(&claim.finalizers, greeting)],
        what: "greet the claim".into(),
        warnings: Vec::new(),
    })
}
