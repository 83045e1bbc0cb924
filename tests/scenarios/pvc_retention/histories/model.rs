//! Which claims must exist and which must be gone, as far as a user can know from the specs alone.

use super::steps::{How, SETS, Spec};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// A claim that exists and is not being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub uid: String,
}

/// One claim from its creation to its deletion, distinguished by its uid from others of its name.
#[derive(Debug)]
struct Incarnation {
    set: &'static str,
    ordinal: i32,
    /// At some moment since the last steady state the policy allowed its deletion.
    may_go: bool,
    /// Its set was deleted with `whenDeleted: Delete`, after Volume Warden had time to prepare.
    must_go: bool,
    /// It was out of range in the last steady state, and has never been in range since.
    kept: bool,
    /// It was in range under `whenScaled: Delete` in the last steady state, and the policy has not
    /// changed since.
    goes_when_scaled: bool,
    /// `whenDeleted` was Delete in the last steady state, and has never been Retain since.
    goes_with_set: bool,
}

impl Incarnation {
    fn new(name: &str) -> Option<Self> {
        let (set, ordinal) = set_and_ordinal(name)?;
        Some(Self {
            set,
            ordinal,
            may_go: false,
            must_go: false,
            kept: false,
            goes_when_scaled: false,
            goes_with_set: false,
        })
    }

    fn under(&mut self, spec: Spec) {
        let wanted = spec.wants(self.ordinal);
        self.kept &= !wanted;
        self.may_go |= !wanted && spec.deletes_when_scaled() && !self.kept;
        self.goes_when_scaled &= spec.deletes_when_scaled();
        self.goes_with_set &= spec.deletes_with_set();
    }

    fn rests(&mut self, spec: Option<Spec>) -> Result<()> {
        ensure!(!self.must_go, "left, although its set is gone: {self:?}");
        let wanted = spec.is_some_and(|spec| spec.wants(self.ordinal));
        // Without a set the claim had time to be deleted, but only a set requires its deletion.
        let scaled_away = spec.is_some() && !wanted;
        ensure!(
            !(scaled_away && self.goes_when_scaled),
            "left, although it was scaled away: {self:?}"
        );
        self.may_go = false;
        self.kept = !wanted;
        self.goes_when_scaled = wanted && spec.is_some_and(Spec::deletes_when_scaled);
        self.goes_with_set = spec.is_some_and(Spec::deletes_with_set);
        Ok(())
    }
}

/// `data-web-2` belongs to the set web and its ordinal 2; `None` for claims of other sets.
pub fn set_and_ordinal(claim: &str) -> Option<(&'static str, i32)> {
    let (set, ordinal) = claim.strip_prefix("data-")?.rsplit_once('-')?;
    let set = SETS.into_iter().find(|name| *name == set)?;
    Some((set, ordinal.parse().ok()?))
}

/// The known state of a history.
#[derive(Debug, Default)]
pub struct Model {
    /// The specs of the existing sets.
    pub specs: BTreeMap<&'static str, Spec>,
    /// The previous specs: a claim that was not observed yet may have been created under them.
    before: BTreeMap<&'static str, Spec>,
    /// Sets whose claims may still have references to them: `whenDeleted` was Delete since the
    /// last steady state.
    referred: BTreeSet<&'static str>,
    /// Sets that were just deleted, together with claims that had a reference.
    taking: BTreeSet<&'static str>,
    claims: BTreeMap<String, Incarnation>,
}

impl Model {
    /// Updates the model with the existing claims. Fails if a claim to keep is gone.
    pub fn sees(&mut self, there: &[Found]) -> Result<()> {
        let is_there = |uid: &String| there.iter().any(|found| found.uid == *uid);
        let gone: Vec<_> = self
            .claims
            .extract_if(.., |uid, _| !is_there(uid))
            .collect();
        let lost: Vec<_> = gone
            .iter()
            .filter(|(_, claim)| !claim.may_go && !claim.must_go)
            .collect();
        ensure!(lost.is_empty(), "lost: {lost:?}, sets: {:?}", self.specs);
        for found in there {
            if !self.claims.contains_key(&found.uid) {
                self.sees_new(found);
            }
        }
        self.before.clear();
        self.taking.clear();
        self.apply();
        Ok(())
    }

    fn sees_new(&mut self, found: &Found) {
        let Some(mut claim) = Incarnation::new(&found.name) else {
            return;
        };
        if let Some(spec) = self.before.get(claim.set) {
            claim.under(*spec);
        }
        claim.may_go |= self.taking.contains(claim.set);
        self.claims.insert(found.uid.clone(), claim);
    }

    /// A set is about to be created or changed.
    pub fn will_be(&mut self, set: &'static str, spec: Spec) {
        if let Some(before) = self.specs.insert(set, spec) {
            self.before.insert(set, before);
        }
        self.apply();
    }

    fn apply(&mut self) {
        for (set, spec) in &self.specs {
            if spec.deletes_with_set() {
                self.referred.insert(set);
            }
        }
        for claim in self.claims.values_mut() {
            if let Some(spec) = self.specs.get(claim.set) {
                claim.under(*spec);
            }
        }
    }

    /// A set is about to be deleted.
    pub fn will_be_deleted(&mut self, set: &'static str, how: How) {
        let Some(spec) = self.specs.remove(set) else {
            return;
        };
        let takes = how != How::Orphan && self.referred.contains(set);
        if takes {
            self.before.insert(set, spec);
            self.taking.insert(set);
        }
        for claim in self.claims.values_mut().filter(|claim| claim.set == set) {
            claim.may_go |= takes;
            claim.must_go |= how != How::Orphan && claim.goes_with_set;
            claim.goes_when_scaled = false;
            claim.goes_with_set = false;
        }
    }

    /// Volume Warden runs in a steady state with the claims `there`. Fails if a claim to delete is
    /// left.
    pub fn rests(&mut self, there: &[Found]) -> Result<()> {
        self.sees(there)?;
        for claim in self.claims.values_mut() {
            claim.rests(self.specs.get(claim.set).copied())?;
        }
        let specs = self.specs.iter();
        self.referred = specs
            .filter(|(_, spec)| spec.deletes_with_set())
            .map(|(set, _)| *set)
            .collect();
        Ok(())
    }
}
