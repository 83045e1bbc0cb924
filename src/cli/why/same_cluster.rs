//! Makes the commands of an answer reach the cluster that `why` examined: with the flags
//! `--context` and `--kubeconfig` of the command line. Without them, a command that deletes
//! something would run in the cluster of the current context.

use crate::why::{Answer, Cause, Conclusion, Next, Stuck};

/// Adds the flags, each after a space, to all commands of the answer.
pub(super) fn answer(answer: &mut Answer, flags: &str) {
    for cause in answer.chain.iter_mut().chain(&mut answer.also) {
        add_to_next(cause, flags);
    }
    if let Conclusion::NothingFound { command, .. } = &mut answer.conclusion {
        add(command, flags);
    }
}

/// Adds the flags, each after a space, to all commands about the stuck objects.
pub(super) fn list(stuck: &mut Stuck, flags: &str) {
    for item in &mut stuck.items {
        add(&mut item.command, flags);
        if let Some(root) = &mut item.root {
            add_to_next(root, flags);
        }
    }
}

fn add_to_next(cause: &mut Cause, flags: &str) {
    if let Next::Run { command, .. } = &mut cause.next {
        add(command, flags);
    }
}

/// Adds the flags after the subcommand, as in `kubectl get --context=c pv`. At the end, there may
/// be the file to which the shell writes.
fn add(command: &mut String, flags: &str) {
    let subcommand_ends = command.match_indices(' ').nth(1);
    let at = subcommand_ends.map_or(command.len(), |(at, _)| at);
    command.insert_str(at, flags);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::{Code, Evidence, Item, Object};

    fn cause(command: &str) -> Cause {
        let evidence = Evidence::new("Pod shop/web", "spec");
        Cause::new(Code::InUse, "It is used.", evidence).run(command, "to see it")
    }

    #[test]
    fn every_command_of_an_answer_gets_the_flags() {
        let object = Object::claim("shop", "data");
        let mut found = Answer::of(&object, "Pending");
        answer(&mut found, " --context=c");
        let Conclusion::NothingFound { command, .. } = &found.conclusion else {
            panic!("{found:?}");
        };
        assert_eq!(command, "kubectl describe --context=c pvc data -n shop");
        let mut found = found.because([cause("kubectl get pv"), cause("kubectl get")]);
        found.also = vec![cause("kubectl get pv disk -o yaml > disk.yaml")];
        answer(&mut found, " --context=c");
        let commands = found
            .chain
            .iter()
            .chain(&found.also)
            .map(|cause| &cause.next);
        let expected = [
            "kubectl get --context=c pv",
            "kubectl get --context=c",
            "kubectl get --context=c pv disk -o yaml > disk.yaml",
        ];
        let expected = expected.map(|command| Next::Run {
            command: command.to_owned(),
            purpose: "to see it".to_owned(),
        });
        assert!(commands.eq(&expected), "{found:?}");
    }

    #[test]
    fn every_command_of_the_list_gets_the_flags() {
        let item = Item {
            kind: "PersistentVolume",
            object: "pv/disk".to_owned(),
            resource: "persistentvolume/disk".to_owned(),
            namespace: String::new(),
            name: "disk".to_owned(),
            state: "Released".to_owned(),
            since: None,
            root: Some(cause("kubectl get pv")),
            command: "volume-warden why pv/disk".to_owned(),
        };
        let mut stuck = Stuck {
            items: vec![item],
            unread: Vec::new(),
            calls: 1,
        };
        list(&mut stuck, " --context=c");
        let item = &stuck.items[0];
        assert_eq!(item.command, "volume-warden why --context=c pv/disk");
        let next = item.root.as_ref().map(|root| &root.next);
        let Some(Next::Run { command, .. }) = next else {
            panic!("{item:?}");
        };
        assert_eq!(command, "kubectl get --context=c pv");
    }
}
