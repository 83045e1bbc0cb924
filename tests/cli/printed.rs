//! Help, version, completions and manual pages.

use super::{assert_usage_error, stdout_of, warden};
use std::process::Command;
use volume_warden::version::{COMMIT, VERSION};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

#[test]
fn help_states_the_purpose() {
    let help = stdout_of(&["--help"]);
    for word in ["Kubernetes volumes", "run", "--version"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

/// The help lists all exit codes.
#[test]
fn help_has_every_exit_code() {
    let help = stdout_of(&["--help"]);
    let (_, codes) = help.split_once("\nExit codes:\n").expect("exit codes");
    let of_codes = codes.lines().filter(|line| !line.starts_with("     "));
    let numbers: Vec<_> = of_codes
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(numbers, ["0", "1", "2", "3"], "{codes}");
}

#[test]
fn help_of_run_has_every_group() {
    let help = stdout_of(&["run", "--help"]);
    for group in [
        "Options:",
        "Cluster:",
        "pvc-protection:",
        "pvc-provisioner and pv-releaser:",
        "pvc-provisioner:",
        "pv-releaser:",
        "pvc-trash:",
        "namespace-gc: storage backend:",
        "namespace-gc: collection:",
        "namespace-gc: schedule:",
        "Leader election:",
        "Servers:",
        "TLS:",
    ] {
        assert!(help.lines().any(|line| line == group), "{group}: {help}");
    }
    assert!(
        help.lines().all(|line| line.chars().count() <= 100),
        "{help}"
    );
}

#[test]
fn version_is_the_packages_with_the_commit() {
    let expected = format!("volume-warden {VERSION} (commit {COMMIT})\n");
    assert_eq!(stdout_of(&["--version"]), expected);
}

#[test]
fn every_shell_gets_completions() {
    for shell in SHELLS {
        let script = stdout_of(&["completions", shell]);
        for word in ["volume-warden", "drain", "finished-pods"] {
            assert!(script.contains(word), "{shell}, {word}: {script}");
        }
    }
    assert_usage_error(warden(&["completions", "cmd"]), &["cmd", "bash", "zsh"]);
    assert_usage_error(warden(&["completions"]), &["<SHELL>"]);
}

/// The completions that bash offers for the last of `words`.
fn bash_offers(words: &str) -> String {
    let script = stdout_of(&["completions", "bash"]);
    let program = format!(
        "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); set -- {words}
         _volume__warden volume-warden \"${{!#}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\""
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &program])
        .output();
    let output = output.expect("bash");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn bash_completes_commands_flags_and_values() {
    for (words, offered) in [
        ("volume-warden dr", "drain\n"),
        ("volume-warden run --finished-p", "--finished-pods\n"),
        ("volume-warden run --finished-pods ''", "hold release\n"),
        ("volume-warden drain --in-tree o", "on off\n"),
    ] {
        assert_eq!(bash_offers(words), offered, "{words}");
    }
}

#[test]
fn the_program_and_its_commands_have_manual_pages() {
    let page = stdout_of(&["man"]);
    for word in [
        ".TH volume-warden 1",
        "volume\\-warden\\-run(1)",
        "Exit codes",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    let page = stdout_of(&["man", "run"]);
    for word in [
        ".TH volume-warden-run 1",
        "volume\\-warden run",
        "finished\\-pods",
        "VOLUME_WARDEN_FINISHED_PODS",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert_usage_error(warden(&["man", "walk"]), &["there is no command walk"]);
}
