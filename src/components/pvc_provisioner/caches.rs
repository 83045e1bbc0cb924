//! Looks up a claim in the watch of claims, and the pods that name it in the watch of pods or in a
//! live LIST. Parses the templates of these pods.

use super::{TemplatePolicy, parse::request_for, template::Template, view::User};
use crate::{
    cluster::{Feed, Feeds, Store},
    objects::{Claim, ObjectName, Pod},
};
use std::sync::Arc;
use tokio::task::yield_now;

/// The watches that pvc-provisioner reads.
#[derive(Clone)]
pub struct Caches {
    /// The watch of claims, whether a pod requests them or not.
    pub claims: Arc<Feed<Claim>>,
    /// The watch of pods that name a claim or have an annotation of pvc-provisioner.
    pub pods: Arc<Feed<Pod>>,
    /// What claim templates may contain.
    pub policy: Arc<TemplatePolicy>,
}

impl Caches {
    /// Creates caches that read the watches of `feeds` and parse templates under `policy`.
    pub fn new(feeds: &Feeds, policy: TemplatePolicy) -> Self {
        Self {
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
            policy: Arc::new(policy),
        }
    }

    /// The cached claim with this name, if it exists.
    ///
    /// # Errors
    /// [`Stale`] if Volume Warden has written the claim and the watch has yet to deliver that
    /// version; for a minute at most.
    pub fn claim(&self, name: &ObjectName) -> Result<Option<Arc<Claim>>, Stale> {
        let claims = self.claims.read();
        match (claims.get_fresh(name), claims.get(name)) {
            (None, Some(_)) => Err(Stale),
            (claim, _) => Ok(claim),
        }
    }

    /// Returns the cached pods that name the claim, sorted by [`User::rank`] as if none had been
    /// seen before.
    pub async fn users(&self, claim: &ObjectName) -> Vec<User> {
        let pods = naming(&self.pods.read(), claim);
        self.parse(&pods, claim).await
    }

    /// Returns the pods in `store` that name the claim, sorted as by [`Caches::users`].
    pub async fn users_in(&self, store: &Store<Pod>, claim: &ObjectName) -> Vec<User> {
        self.parse(&naming(store, claim), claim).await
    }

    /// Converts the pod to a user of the claim, with its request for the claim, if it has a valid
    /// one.
    pub fn requesting_user(&self, name: &ObjectName, pod: &Pod, claim: &ObjectName) -> User {
        Templates::new(&self.policy).with_request(user(name, pod), pod, claim)
    }

    /// Converts the pods to users of the claim, sorted by [`User::rank`] as if none had been seen
    /// before. Other tasks run between two templates, because parsing one may take almost a
    /// millisecond.
    async fn parse(&self, pods: &[(ObjectName, Arc<Pod>)], claim: &ObjectName) -> Vec<User> {
        let users = pods.iter().map(|(name, pod)| (user(name, pod), &**pod));
        let mut users: Vec<_> = users.collect();
        users.sort_by(|(one, _), (other, _)| one.rank(None).cmp(&other.rank(None)));
        let mut templates = Templates::new(&self.policy);
        let mut requesting = Vec::with_capacity(users.len());
        for (user, pod) in users {
            let parsed = templates.parsed.len();
            requesting.push(templates.with_request(user, pod, claim));
            if templates.parsed.len() > parsed {
                yield_now().await;
            }
        }
        requesting
    }

    /// The names of the cached pods that request the claim and have a template for it, valid or
    /// not.
    pub fn requesting_pods(&self, claim: &ObjectName) -> Vec<ObjectName> {
        let pods = self.pods.read();
        let users = pods.named_referrers(claim);
        let requesting_pods = users.filter(|(_, pod)| request(pod, claim).is_some());
        requesting_pods.map(|(name, _)| name.clone()).collect()
    }
}

/// The cached claim is older than the last write of Volume Warden.
#[derive(Debug)]
pub struct Stale;

fn naming(store: &Store<Pod>, claim: &ObjectName) -> Vec<(ObjectName, Arc<Pod>)> {
    let pods = store.named_referrers(claim);
    pods.map(|(name, pod)| (name.clone(), pod.clone()))
        .collect()
}

/// Converts the pod to a user of a claim, without its request for the claim.
fn user(name: &ObjectName, pod: &Pod) -> User {
    let claim_requests = pod.claim_requests.as_deref();
    User {
        deleting: claim_requests.is_some_and(|claim_requests| claim_requests.deleting),
        ended: claim_requests.is_some_and(|claim_requests| claim_requests.ended),
        started: claim_requests.is_some_and(|claim_requests| !claim_requests.pending),
        scheduled: pod.scheduled,
        created: claim_requests.map_or(0, |claim_requests| claim_requests.created),
        name: (&*name.name).into(),
        uid: pod.uid.to_string().into(),
        requested_volume: None,
        template: None,
    }
}

fn request<'a>(pod: &'a Pod, claim: &ObjectName) -> Option<(&'a str, &'a str)> {
    request_for(pod.claim_requests.as_deref()?, &claim.name)
}

/// Maximum number of different templates that are parsed for one claim at a time. The pods of a
/// workload share one template text. Parsing the most expensive text takes almost a millisecond,
/// and any tenant may write such a text. From the 33rd different text on, a pod that has not ended
/// counts as one that does not request the claim.
const TEXTS: usize = 32;

/// Parsed templates by their texts. A text that is invalid or not allowed has no template.
struct Templates<'a> {
    policy: &'a TemplatePolicy,
    parsed: Vec<(&'a str, Option<Arc<Template>>)>,
}

impl<'a> Templates<'a> {
    fn new(policy: &'a TemplatePolicy) -> Self {
        Self {
            policy,
            parsed: Vec::new(),
        }
    }

    /// Adds the pod's request for the claim to the user, if its template is valid and allowed. The
    /// request of a pod that has ended is added in any case, without the template.
    fn with_request(&mut self, mut user: User, pod: &'a Pod, claim: &ObjectName) -> User {
        if let Some((volume, text)) = request(pod, claim) {
            user.template = self.read(text).filter(|_| !user.ended);
            user.requested_volume = (user.ended || user.template.is_some()).then(|| volume.into());
        }
        user
    }

    fn read(&mut self, text: &'a str) -> Option<Arc<Template>> {
        if let Some((_, template)) = self.parsed.iter().find(|(known, _)| *known == text) {
            return template.clone();
        }
        if self.parsed.len() == TEXTS {
            return None;
        }
        let template = Template::parse(text).ok();
        let template = template.filter(|template| self.policy.check(template).is_ok());
        let template = template.map(Arc::new);
        self.parsed.push((text, template.clone()));
        template
    }
}
