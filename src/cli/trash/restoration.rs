//! The claim that `undelete` creates, and its messages.

use crate::{
    cli::{
        print::{print_error, print_step},
        user::exit_code::EXIT_UNKNOWN,
    },
    cluster::{DEFAULT_CALL_TIMEOUT, error_message, is_absent, is_refused, within},
    components::pvc_trash::reasons::CANNOT_RESTORE,
    objects::undelete_request::{UNDELETE, of_claim, of_volume},
};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, PersistentVolumeClaimSpec};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
    core::Status,
};
use std::{fmt, process::ExitCode, time::Duration};
use tokio::time::Instant;

/// Interval between two reads of the claim.
const POLL: Duration = Duration::from_millis(500);
/// Maximum number of characters of an Event that are printed.
const MAX_NOTE: usize = 1024;
/// Number of reads of the claim between two reads of its Events.
const READS: usize = 4;

/// Printed before `undelete` waits for the claim.
pub(super) const WAITING: &str = "Waiting until the claim is Bound.";

/// A claim that `undelete` creates to restore the data of a deleted claim.
pub(super) struct Restoration<'a> {
    pub(super) namespace: &'a str,
    /// The name of the deleted claim.
    pub(super) deleted: &'a str,
    /// The volume to restore, if the caller selects one by `--volume`.
    pub(super) volume: Option<&'a str>,
    /// The name of the new claim.
    pub(super) name: &'a str,
    /// The namespace of the deleted claim, if `--to-namespace` is set.
    pub(super) from: Option<&'a str>,
    /// The flags of the command line that select the cluster, for the commands in messages.
    pub(super) cluster_flags: &'a str,
}

/// How the wait for a claim ended.
#[derive(Debug)]
pub(super) enum End {
    /// The claim is Bound.
    Bound,
    /// The claim does not exist any more.
    Deleted,
    /// The claim does not get the data, for the reason that an Event gives.
    Refused(String),
    /// The claim was not Bound in time; with the error of the last read, if that read failed.
    Late(Option<kube::Error>),
}

impl fmt::Display for Restoration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Restoration<'_> {
    /// The claim with an empty spec, and an annotation that names the deleted claim or its volume.
    /// The webhook of pvc-trash fills in the spec from that volume.
    pub(super) fn claim(&self) -> PersistentVolumeClaim {
        let requested = match self.volume {
            Some(volume) => of_volume(volume),
            None => of_claim(self.deleted),
        };
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(self.name.to_owned()),
                namespace: Some(self.namespace.to_owned()),
                annotations: Some([(UNDELETE.to_owned(), requested)].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeClaimSpec::default()),
            status: None,
        }
    }

    /// Creates the claim.
    ///
    /// # Errors
    /// The exit code, after the error is printed: why the claim was not created, or that this is
    /// unknown, and what to do.
    pub(super) async fn create(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
    ) -> Result<PersistentVolumeClaim, ExitCode> {
        let created = within(
            DEFAULT_CALL_TIMEOUT,
            claims.create(&PostParams::default(), claim),
        )
        .await;
        created.map_err(|error| {
            print_error(self.refusal(&error));
            if is_refused(&error) {
                ExitCode::FAILURE
            } else {
                ExitCode::from(EXIT_UNKNOWN)
            }
        })
    }

    /// Reads the claim until it is Bound or deleted, Volume Warden refuses it by an Event, or
    /// `limit` has passed.
    pub(super) async fn bound(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        created: &PersistentVolumeClaim,
        limit: Duration,
    ) -> End {
        let end = Instant::now() + limit;
        let mut reads = 0;
        loop {
            reads += 1;
            let read = within(DEFAULT_CALL_TIMEOUT, claims.get(self.name)).await;
            let failed = match read {
                Ok(claim) if claim.uid() != created.uid() => return End::Deleted,
                Ok(claim) if is_bound(&claim) => return End::Bound,
                Ok(_) if reads % READS == 0 => match self.refused(claims, created).await {
                    Some(why) => return End::Refused(why),
                    None => None,
                },
                Ok(_) => None,
                Err(error) if is_absent(&error) => return End::Deleted,
                Err(error) => Some(error),
            };
            if Instant::now() + POLL > end {
                return End::Late(failed);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Prints how the wait for the claim ended.
    ///
    /// # Errors
    /// When that cannot be printed.
    pub(super) fn ended(
        &self,
        volume: &str,
        timeout: Duration,
        end: End,
    ) -> anyhow::Result<ExitCode> {
        match end {
            End::Bound => {
                print_step(self.restored(volume))?;
                return Ok(ExitCode::SUCCESS);
            }
            End::Deleted => print_error(format_args!(
                "the claim {self} was deleted before it was Bound"
            )),
            // Any client may have written this Event, so its text is quoted and bounded.
            End::Refused(why) => {
                let why: String = why.chars().take(MAX_NOTE).collect();
                print_error(format_args!(
                    "the claim {self} is not Bound, and its Event {CANNOT_RESTORE} says: {why:?}"
                ));
            }
            End::Late(last) => {
                print_error(self.late(timeout, last));
                return Ok(ExitCode::from(EXIT_UNKNOWN));
            }
        }
        Ok(ExitCode::FAILURE)
    }

    /// Returns the message that the claim was created. If the webhook selects the data by
    /// `--volume`, the volume may have belonged to a claim of another name.
    pub(super) fn created(&self, volume: &str) -> String {
        match (self.volume, self.from) {
            (Some(_), None) => format!(
                "Created the claim {self}, which gets the data of the deleted claim of volume \
                 {volume}."
            ),
            _ => format!(
                "Created the claim {self} for volume {volume}, which has the data of the deleted \
                 claim."
            ),
        }
    }

    /// Returns the message that the claim is Bound.
    pub(super) fn restored(&self, volume: &str) -> String {
        format!("The claim {self} is Bound to volume {volume}.")
    }

    /// Reads why Volume Warden refuses the claim; none if it does not, or if the Events cannot be
    /// read.
    async fn refused(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        created: &PersistentVolumeClaim,
    ) -> Option<String> {
        let client = claims.clone().into_client();
        let events: Api<Event> = Api::namespaced(client, self.namespace);
        let uid = created.uid()?;
        let about = format!("involvedObject.uid={uid},reason={CANNOT_RESTORE}");
        let about = ListParams::default().fields(&about).limit(1);
        let found = within(DEFAULT_CALL_TIMEOUT, events.list(&about))
            .await
            .ok()?;
        found.items.into_iter().find_map(|event| event.message)
    }

    /// The command that restores the deleted claim.
    fn command(&self) -> String {
        let (deleted, namespace, flags) = (self.deleted, self.namespace, self.cluster_flags);
        let command = match self.from {
            None => format!("volume-warden undelete{flags} pvc {deleted} -n {namespace}"),
            Some(from) => format!(
                "volume-warden undelete{flags} pvc {deleted} -n {from} --to-namespace {namespace}"
            ),
        };
        match self.volume {
            None => command,
            Some(volume) => format!("{command} --volume {volume}"),
        }
    }

    /// Returns the message that says why the claim was not created, or that this is unknown, and
    /// what to do.
    pub(super) fn refusal(&self, error: &kube::Error) -> String {
        let Self {
            namespace,
            name,
            cluster_flags,
            ..
        } = self;
        match error {
            kube::Error::Api(status) if status.reason == "AlreadyExists" => format!(
                "a claim {name} exists in the namespace {namespace}. To restore the data under \
                 another name: {} --new-name NEW. To restore the data under this name, delete the \
                 existing claim first; a StatefulSet recreates its claim at once, so set its \
                 whenScaled to Retain, and scale it to 0 before. The existing claim is then the \
                 one that was deleted last, so select the volume of the earlier claim with \
                 --volume",
                self.command()
            ),
            kube::Error::Api(status) if lacks_a_spec(status) => self.not_filled_in(),
            error if is_refused(error) => {
                format!("the claim was not created: {}", error_message(error))
            }
            error => format!(
                "it is unknown whether the claim {self} was created: {}. Check: \
                 kubectl get{cluster_flags} pvc {name} -n {namespace}",
                error_message(error)
            ),
        }
    }

    /// Returns the message that the claim does not get the data, because the webhook of pvc-trash
    /// has not filled in its spec.
    pub(super) fn not_filled_in(&self) -> String {
        format!(
            "the webhook of pvc-trash did not process the claim {self}, so it does not get the \
             data. Check that Volume Warden runs with the component pvc-trash, then check whether \
             the claim exists, delete it, and run this again"
        )
    }

    /// Returns the message that the claim is not Bound in time, with the commands that show why.
    pub(super) fn late(&self, limit: Duration, last: Option<kube::Error>) -> String {
        let Self {
            namespace,
            name,
            cluster_flags,
            ..
        } = self;
        let read = last.map_or_else(String::new, |error| {
            format!(" (the last read failed: {})", error_message(&error))
        });
        format!(
            "the claim {self} is not Bound after {limit:?}{read}. It stays, and is bound later if \
             nothing prevents it. To see what does: volume-warden why{cluster_flags} pvc {name} -n \
             {namespace}, and kubectl describe{cluster_flags} pvc {name} -n {namespace}"
        )
    }
}

/// Returns `spec.volumeName`; none if it is empty or absent.
pub(super) fn volume_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let volume = claim.spec.as_ref()?.volume_name.as_deref();
    volume.filter(|volume| !volume.is_empty())
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Returns whether the API server's own validation refused a claim without a spec, which shows that
/// no webhook has filled it in.
fn lacks_a_spec(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.reason == "Invalid"
        && causes
            .into_iter()
            .any(|cause| cause.field == "spec.accessModes")
}

#[cfg(test)]
#[path = "restoration_tests.rs"]
mod tests;
