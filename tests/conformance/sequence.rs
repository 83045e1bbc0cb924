//! Runs one sequence: sends the same requests to both sides and compares their answers.

use super::{
    comparable::Names,
    generate::{self, KINDS, Kind},
    operation::{Memory, Operation},
    sides::{Events, Side, until_last},
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// A side, and what its answers have shown in this sequence.
struct Player {
    side: Side,
    memory: Memory,
    names: Names,
    watches: Vec<Events>,
}

impl Player {
    fn new(side: Side) -> Self {
        Self {
            side,
            memory: Memory::default(),
            names: Names::default(),
            watches: Vec::new(),
        }
    }

    async fn play(&mut self, operation: &Operation, plural: &str) -> Result<(u16, Value)> {
        let answered = self.side.send(operation, &self.memory).await;
        let (status, answer) = answered.with_context(|| format!("{operation:?}"))?;
        if !operation.query.contains("dryRun") {
            self.memory.learn(plural, &answer);
        }
        Ok((status, self.names.comparable(&answer)))
    }

    async fn open(&mut self, namespace: &str) -> Result<()> {
        for kind in KINDS {
            let watch = Operation::new("GET", kind.collection(namespace))
                .query(format!("watch=true&labelSelector=sequence={namespace}&resourceVersion={{version:namespaces/{namespace}}}"));
            self.watches
                .push(self.side.watch(&watch, &self.memory).await?);
        }
        Ok(())
    }

    async fn events(&mut self) -> Result<Vec<Vec<Value>>> {
        let mut all = Vec::new();
        for events in self.watches.drain(..) {
            let is_last = |event: &Value| event["object"]["metadata"]["labels"]["last"] == "yes";
            let events = until_last(events, is_last).await?;
            all.push(
                events
                    .iter()
                    .map(|event| self.names.comparable(event))
                    .collect(),
            );
        }
        Ok(all)
    }
}

/// Sends the sequence with this number to a real API server and to a model. Returns the
/// differences.
pub async fn compare(client: kube::Client, seed: u64, number: u64) -> Result<Vec<String>> {
    let namespace = format!("s{seed}-{number}");
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(number));
    let mut model = Player::new(Side::model(number)?);
    let mut real = Player::new(Side::Real(client));
    begin(&mut model, &mut real, &namespace).await?;
    let mut differences = Vec::new();
    let mut story = Vec::new();
    for (operation, plural) in generate::operations(&mut random, &namespace) {
        let modelled = model.play(&operation, plural).await?;
        let actual = real.play(&operation, plural).await?;
        story.push(line(&operation, actual.0));
        if modelled != actual {
            differences.push(format!(
                "sequence {number}\n{}\n  body:  {}\n  model: {} {}\n  real:  {} {}\n",
                story.join("\n"),
                operation.body.unwrap_or_default(),
                modelled.0,
                modelled.1,
                actual.0,
                actual.1,
            ));
            // The answers to later requests would differ because of this difference.
            return Ok(differences);
        }
    }
    let (modelled, actual) = (model.events().await?, real.events().await?);
    for ((modelled, actual), kind) in modelled.into_iter().zip(actual).zip(KINDS) {
        if modelled != actual {
            differences.push(format!(
                "sequence {number}, watch of {}\n{}\n{}",
                kind.plural,
                story.join("\n"),
                first_difference(&modelled, &actual)
            ));
        }
    }
    Ok(differences)
}

/// Creates the namespace and the objects that each sequence needs, and opens the watches.
async fn begin(model: &mut Player, real: &mut Player, namespace: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let create = Operation::new("POST", "/api/v1/namespaces").body(generate::JSON, object);
    // Pods need this ServiceAccount, and no controller runs that would create it.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = Operation::new("POST", path).body(generate::JSON, account);
    real.play(&create, "namespaces").await?;
    real.side.send(&account, &real.memory).await?;
    model.play(&create, "namespaces").await?;
    real.open(namespace).await?;
    model.open(namespace).await
}

fn line(operation: &Operation, status: u16) -> String {
    let Operation {
        method,
        path,
        query,
        ..
    } = operation;
    format!("  {method} {path}?{query} → {status}")
}

fn first_difference(modelled: &[Value], actual: &[Value]) -> String {
    let longest = modelled.len().max(actual.len());
    let different = (0..longest).find(|index| modelled.get(*index) != actual.get(*index));
    let index = different.unwrap_or_default();
    format!(
        "  event {index} of {}/{}\n  model: {}\n  real:  {}",
        modelled.len(),
        actual.len(),
        modelled.get(index).unwrap_or(&Value::Null),
        actual.get(index).unwrap_or(&Value::Null),
    )
}

impl Kind {
    /// The path of the collection in this namespace.
    pub fn collection(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.base, self.plural)
        } else {
            format!("{}/{}", self.base, self.plural)
        }
    }
}
