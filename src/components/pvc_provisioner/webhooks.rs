//! The webhook at admission: the claims of an annotated pod are made before the pod is stored.
//!
//! It is a validating webhook although it validates little: those are called last, so the pod is as it will be stored, and one that the
//! API's own validation or Pod Security refuses never gets here. Only quota refuses later, and then the claim is collected.

use super::{
    Caches, ClaimRequest, NAME, Notice, Options, Requesters,
    notice::is_the_templates_fault,
    parse::parse_claim_requests,
    reasons,
    rule::{Decision, Terms, User, View, Wait, decide},
    template::Birth,
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    clock::Clock,
    cluster::{Applied, Apply, Caller, Creation},
    objects::{ClaimRequests, Kind, ObjectName, pod::PodWire},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The API server may cut a longer warning.
const WARNING_LIMIT: usize = 250;

/// What the webhook works with.
pub struct PodWebhook {
    /// The watches.
    pub caches: Caches,
    /// The writer.
    pub apply: Arc<Apply>,
    /// For the mark of a claim that awaits its pod.
    pub clock: Clock,
    /// Asked where whoever creates the pod must be allowed to create claims.
    pub requesters: Option<Requesters>,
    /// What may be chosen.
    pub options: Arc<Options>,
    /// The only namespace to look after, where there is one.
    pub namespace: Option<String>,
    /// Namespaces whose pods are not reviewed, as in the webhook configuration: their claims are created in the background.
    pub exempt: Vec<String>,
}

/// The webhook for annotated pods.
pub fn hook(webhook: PodWebhook) -> Hook {
    let webhook = Arc::new(webhook);
    Hook {
        path: "/pvc-provisioner/pods",
        rules: &[Rule {
            operation: "CREATE",
            resource: "pods",
            subresource: "",
        }],
        timeout: Duration::from_secs(2),
        review: Review::Asking(Arc::new(move |request| {
            let webhook = webhook.clone();
            Box::pin(async move { webhook.review(&request).await })
        })),
    }
}

/// What has to be said about a pod.
#[derive(Default)]
struct Said {
    notices: Vec<Notice>,
    /// Some of it is the template's fault.
    invalid: bool,
}

impl Said {
    fn invalid(&mut self, notices: impl IntoIterator<Item = Notice>) {
        let before = self.notices.len();
        self.notices.extend(notices);
        self.invalid |= self.notices.len() > before;
    }

    fn answer(self, strict: bool) -> Answer {
        let sentences = self.notices.into_iter().map(|each| each.sentence);
        if strict && self.invalid {
            let message = sentences.collect::<Vec<_>>().join("; ");
            return Answer::Deny { code: 422, message };
        }
        let warnings: Vec<_> = sentences.map(shortened).collect();
        if warnings.is_empty() {
            Answer::Allow
        } else {
            Answer::Warn(warnings)
        }
    }
}

impl PodWebhook {
    fn covers(&self, namespace: &str) -> bool {
        let is_only = self.namespace.as_ref().is_none_or(|only| only == namespace);
        is_only && !self.exempt.iter().any(|exempt| exempt == namespace)
    }

    async fn review(&self, request: &Request) -> Reviewed {
        let pod = request.object::<PodWire>()?;
        let Some(claim_requests) =
            ClaimRequests::of(&pod).filter(|_| self.covers(&request.namespace))
        else {
            return Ok(Answer::Allow);
        };
        let (claim_requests, notices) = parse_claim_requests(&claim_requests);
        let mut said = Said::default();
        said.invalid(notices);
        let refused = self.options.strict_templates && said.invalid;
        if request.dry_run == Some(true) {
            said.invalid(claim_requests.iter().flat_map(unknown_fields));
        } else if !refused && !claim_requests.is_empty() {
            self.provide(request, &claim_requests, &mut said).await;
        }
        Ok(said.answer(self.options.strict_templates))
    }

    async fn provide(&self, request: &Request, claim_requests: &[ClaimRequest], said: &mut Said) {
        let until = Instant::now() + request.call_budget;
        if let Some(requesters) = &self.requesters
            && let Err(notice) = requesters.check(request).await
        {
            said.notices.push(notice);
            return;
        }
        for wish in claim_requests {
            let name = ObjectName::new(request.namespace.as_str(), wish.claim.clone());
            self.see_to(&name, wish, until, said).await;
        }
    }

    /// The same rule as in the background. The pod itself is the only user that counts, and an absence need not be confirmed: the API
    /// server says so when the claim exists.
    async fn see_to(
        &self,
        name: &ObjectName,
        wish: &ClaimRequest,
        until: Instant,
        said: &mut Said,
    ) {
        let claim = self.caches.claims.read().get(name);
        let pod = [User {
            deleting: false,
            ended: false,
            started: false,
            created: 0,
            name: Box::default(),
            uid: Box::default(),
            asks: Some(wish.volume.clone()),
            template: None,
        }];
        let view = View {
            claim: claim.as_deref(),
            users: &pod,
            confirmed: true,
            wait: Wait::default(),
        };
        let terms = Terms {
            controller_id: &self.options.controller_id,
            grace: self.options.orphan_grace,
            admission_only: false,
        };
        match decide(view, terms) {
            Decision::Create(_) => self.create(name, wish, until, said).await,
            Decision::Refuse(..) => {
                let again = !self.options.authorizes();
                said.notices.push(Notice::stale(&name.name, again));
            }
            // It is there: for another pod, or for this one, which the reconciler makes its owner.
            Decision::Leave(_) | Decision::Await(_) | Decision::Give(_) => {}
            // Not of a claim that a pod asks for.
            Decision::Confirm | Decision::Collect | Decision::Keep | Decision::Later(_) => {}
        }
    }

    async fn create(
        &self,
        name: &ObjectName,
        wish: &ClaimRequest,
        until: Instant,
        said: &mut Said,
    ) {
        let since = self
            .clock
            .timestamp()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let manifest = wish.template.manifest(&Birth {
            namespace: &name.namespace,
            name: &name.name,
            controller_id: self.options.controller_id.as_str(),
            owner: None,
            awaiting_since: Some(&since),
        });
        let creation = Creation {
            kind: Kind::PersistentVolumeClaim,
            name,
            manifest: &manifest,
        };
        let caller = Caller::Review(until);
        let created = self
            .apply
            .create(NAME, creation, caller, reasons::ASKED_FOR);
        match created.await {
            Applied::Withheld => said.notices.push(Notice::withheld(&name.name)),
            Applied::Failed(error) => self.failed(wish, &error, said),
            Applied::Done | Applied::Stale | Applied::NotLeading => {}
        }
    }

    fn failed(&self, wish: &ClaimRequest, error: &kube::Error, said: &mut Said) {
        let then = match self.requesters {
            Some(_) => "re-create the pod once that is mended",
            None => "and will be tried again",
        };
        let notice = Notice::failed(wish, error, then);
        if is_the_templates_fault(error) {
            said.invalid([notice]);
        } else {
            said.notices.push(notice);
        }
    }
}

fn unknown_fields(wish: &ClaimRequest) -> impl Iterator<Item = Notice> {
    let fields = wish.template.unknown_fields().iter();
    fields.map(|field| Notice::unknown_field(&wish.volume, field))
}

fn shortened(mut sentence: String) -> String {
    if sentence.len() > WARNING_LIMIT {
        sentence.truncate(sentence.floor_char_boundary(WARNING_LIMIT - '…'.len_utf8()));
        sentence.push('…');
    }
    sentence
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
