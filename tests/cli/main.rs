//! Runs the binary: its output, the input that it refuses, and its exit codes.

mod answers;
mod collected;
mod drained;
mod printed;
mod probe;
mod reports;
mod trash;

use std::{
    fs,
    io::Read,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use volume_warden_storageos::Closed;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The exit code and the output of a command.
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The binary, without the caller's environment.
fn warden(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volume-warden"));
    command.args(arguments).env_clear().env("RUST_LOG", "off");
    command
}

/// Runs a command until it exits.
fn finish(mut command: Command) -> Finished {
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running(piped.spawn().expect("starts"));
    let stdout = running.0.stdout.take().map(read_in_thread).expect("a pipe");
    let stderr = running.0.stderr.take().map(read_in_thread).expect("a pipe");
    let begun = Instant::now();
    let status = loop {
        match running.0.try_wait().expect("waits") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(10)),
        }
        assert!(begun.elapsed() < TIMEOUT, "the command did not exit");
    };
    Finished {
        code: status.code(),
        stdout: stdout.join().expect("read"),
        stderr: stderr.join().expect("read"),
    }
}

/// Reads a pipe to its end in a thread.
fn read_in_thread(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("text");
        text
    })
}

#[track_caller]
fn stdout_of(arguments: &[&str]) -> String {
    let finished = finish(warden(arguments));
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    finished.stdout
}

/// Checks that the command refuses its command line, and that standard error contains all of
/// `words`.
#[track_caller]
fn assert_usage_error(command: Command, words: &[&str]) {
    let finished = finish(command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    for word in words {
        assert!(
            finished.stderr.contains(word),
            "{word}: {}",
            finished.stderr
        );
    }
}

/// Checks that the command fails, and that standard error is one line that contains `words`.
#[track_caller]
fn assert_failure(command: Command, words: &str) {
    let finished = finish(command);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    let sentence = finished.stderr.strip_prefix("volume-warden: ");
    assert!(
        sentence.is_some_and(|sentence| sentence.contains(words)),
        "{words}: {}",
        finished.stderr
    );
}

/// An address that refuses connections until the process ends.
fn closed_address() -> SocketAddr {
    static CLOSED: OnceLock<Closed> = OnceLock::new();
    let closed = CLOSED.get_or_init(|| Closed::new().expect("a free port"));
    closed.address()
}

/// A kubeconfig for an address at which no API server listens.
fn kubeconfig(directory: &TempDir) -> PathBuf {
    kubeconfig_for(directory, closed_address())
}

/// A kubeconfig for an API server at `server`.
fn kubeconfig_for(directory: &TempDir, server: SocketAddr) -> PathBuf {
    let file = directory.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n"
    );
    fs::write(&file, text).expect("writes");
    file
}

/// The command `run` with this kubeconfig, on free ports unless `arguments` set others.
fn run(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = warden(&["run"]);
    command
        .env("VOLUME_WARDEN_WEBHOOK_BIND_ADDRESS", "127.0.0.1:0")
        .env("VOLUME_WARDEN_METRICS_BIND_ADDRESS", "127.0.0.1:0")
        .env("VOLUME_WARDEN_PROBE_BIND_ADDRESS", "127.0.0.1:0")
        .env("VOLUME_WARDEN_KUBECONFIG", kubeconfig)
        .args(arguments);
    command
}

#[test]
fn an_invalid_command_line_is_reported() {
    let known: &[&str] = &["'nonsense'", "pvc-protection", "pv-protection"];
    let storageos = "--storage-backend=storageos";
    let wrong: &[(&[&str], &[&str])] = &[
        (&[], &["Usage:"]),
        (&["run", "--components", "nonsense"], known),
        (&["run", "--components", "pv-protection,nonsense"], known),
        (
            &["run", "--tls-cert-file", "a"],
            &["--tls-private-key-file"],
        ),
        (
            &["run", "--tls-private-key-file", "a"],
            &["--tls-cert-file"],
        ),
        (
            &["run", "--client-allowed-name", "a"],
            &["--client-ca-file"],
        ),
        (
            &[
                "drain",
                "--in-tree=on",
                "--purge-trash",
                "--components=pv-protection",
            ],
            &["--purge-trash", "pvc-trash"],
        ),
        (&["run", "--max-in-flight", "0"], &["--max-in-flight"]),
        // Every replica with an empty identity would hold the Lease of the others.
        (
            &["run", "--leader-elect-identity="],
            &["--leader-elect-identity"],
        ),
        (
            &["run", "--leader-elect-resource-name="],
            &["--leader-elect-resource-name"],
        ),
        (
            &["drain", "--in-tree=on", "--system-namespace="],
            &["--system-namespace"],
        ),
        (
            &["run", "--max-webhook-timeout=0"],
            &["--max-webhook-timeout", "at least 1s"],
        ),
        (
            &["run", "--controller-id", "a/b"],
            &["--controller-id", "the value of a label"],
        ),
        (&["run", "--legacy-label=maybe"], &["--legacy-label"]),
        (&["why", "pvc"], &["why pvc NAME"]),
        (&["why", "pvc/data", "data"], &["why pvc/NAME"]),
        (&["why", "node", "a"], &["pvc, pv, pod, statefulset"]),
        (&["why", "pvc/data", "--as-group=devs"], &["--as"]),
        (&["why"], &["KIND"]),
        (&["why", "pvc/data", "--stuck"], &["--stuck"]),
        (&["why", "pvc/data", "-A"], &["--stuck"]),
        (&["why", "--stuck", "-A", "-n", "a"], &["--namespace"]),
        (&["why", "pvc/data", "-o", "wide"], &["--stuck"]),
        (&["why", "--stuck", "-o", "tree"], &["-o tree"]),
        (&["drain"], &["--in-tree"]),
        (&["drain", "--in-tree=maybe"], &["--in-tree", "off"]),
        (
            &["run", "--webhook-bind-address", "9443"],
            &["--webhook-bind-address"],
        ),
        (&["gc", "--once"], &["--storage-backend"]),
        (&["gc", storageos], &["--dry-run", "--once"]),
        (
            &["gc", "--once", storageos, "--namespace=a"],
            &["--namespace"],
        ),
        (
            &["gc", "--once", "--storage-backend=directory"],
            &["--directory-root"],
        ),
        (
            &["gc", "--once", storageos, "--storageos-endpoint=http://h"],
            &["--insecure-http"],
        ),
        (
            &["gc", "--once", storageos, "--gc-protect="],
            &["--gc-protect"],
        ),
    ];
    for (arguments, words) in wrong {
        assert_usage_error(warden(arguments), words);
    }
}

#[test]
fn an_invalid_variable_is_reported() {
    let mut command = warden(&["run"]);
    command.env("VOLUME_WARDEN_COMPONENTS", "pvc-protection,nonsense");
    assert_usage_error(command, &["'nonsense'", "--components", "pv-protection"]);
    let mut command = warden(&["run"]);
    command.env("VOLUME_WARDEN_MAX_IN_FLIGHT", "0");
    assert_usage_error(command, &["--max-in-flight"]);
    let mut command = warden(&["run"]);
    command.env("VOLUME_WARDEN_CONTROLLER_ID", "");
    assert_usage_error(command, &["--controller-id"]);
}

/// The program ignores variables with unknown names, so a misspelled one would have no effect.
#[test]
fn the_manifests_set_known_variables_only() {
    let help = stdout_of(&["run", "--help"]);
    let mut found = 0;
    let mut folders = vec![PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/manifests"
    ))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a file");
            for line in text.lines() {
                let name = line.trim().trim_start_matches("- ").strip_prefix("name: ");
                // tests/operations/chart/collecting.rs checks the names that the chart computes.
                let literal =
                    |name: &&str| name.starts_with("VOLUME_WARDEN_") && !name.contains('{');
                let Some(name) = name.filter(literal) else {
                    continue;
                };
                found += 1;
                assert!(
                    help.contains(&format!("[env: {name}=")),
                    "{name} in {path:?}"
                );
            }
        }
    }
    assert!(found >= 6, "{found}");
}

/// Go programs accept flags with a single dash, as did the programs that some components replace.
#[test]
fn the_error_for_a_single_dash_shows_the_right_flag() {
    let wrong: [(&[&str], &str); 4] = [
        (
            &["run", "-controller-id", "a"],
            "flags require two dashes: use --controller-id\n",
        ),
        (
            &["run", "-disable-automatic-association=true"],
            "flags require two dashes: use --disable-automatic-association\n",
        ),
        (
            &["-lease-lock-name=a"],
            "flags require two dashes: use --leader-elect-resource-name\n",
        ),
        (
            &["run", "-logtostderr"],
            "unknown flag -logtostderr: flags require two dashes, and there is no --logtostderr\n",
        ),
    ];
    for (arguments, words) in wrong {
        assert_usage_error(warden(arguments), &[words]);
    }
}

/// Charts write `--switch=true` or `--switch=false`; users often write `--switch`.
#[test]
fn switches_accept_an_optional_value() {
    for switches in [
        &["--associate-by-storage-class", "--legacy-label"][..],
        &[
            "--disable-automatic-association=true",
            "--legacy-label=false",
        ],
        &["--strict-templates=false", "--release-mode=soft"],
    ] {
        assert_failure(
            run(Path::new("/nowhere/kubeconfig"), switches),
            "cannot read the kubeconfig",
        );
    }
}

#[test]
fn an_id_that_is_no_lease_name_is_reported() {
    let kubeconfig = Path::new("/nowhere/kubeconfig");
    let id = ["--controller-id", "Blue"];
    assert_failure(run(kubeconfig, &id), "--leader-elect-resource-name");
    for option in [
        &["--leader-elect-resource-name", "blue"][..],
        &["--components", "pv-protection"],
    ] {
        assert_failure(
            run(kubeconfig, &[&id, option].concat()),
            "cannot read the kubeconfig",
        );
    }
}

#[test]
fn a_missing_kubeconfig_is_reported_with_its_path() {
    assert_failure(
        run(Path::new("/nowhere/kubeconfig"), &[]),
        "cannot read the kubeconfig /nowhere/kubeconfig: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_missing_certificate_is_reported_with_its_path() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    let key = directory.path().join("tls.key");
    fs::write(&key, "").expect("writes");
    let key = key.to_str().expect("text");
    assert_failure(
        run(
            &kubeconfig,
            &[
                "--tls-cert-file",
                "/nowhere/tls.crt",
                "--tls-private-key-file",
                key,
            ],
        ),
        "cannot read /nowhere/tls.crt",
    );
}

#[test]
fn a_missing_client_ca_is_reported_with_its_path() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    let message = "cannot read /nowhere/ca.crt";
    assert_failure(
        run(&kubeconfig, &["--client-ca-file", "/nowhere/ca.crt"]),
        message,
    );
    let empty = directory.path().join("ca.crt");
    fs::write(&empty, "").expect("writes");
    let empty = empty.to_str().expect("text");
    let message = format!("cannot use {empty}: there is no certificate in the PEM");
    assert_failure(run(&kubeconfig, &["--client-ca-file", empty]), &message);
}

#[test]
fn impossible_lifetimes_are_reported() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    for (flag, message) in [
        ("--tls-certificate-lifetime=9s", "at least 10s"),
        ("--tls-ca-lifetime=4000h", "at least twice"),
        ("--tls-ca-lifetime=100000h", "87600h"),
        ("--tls-ca-lifetime=1y", "expected a duration of at most"),
    ] {
        assert_usage_error(run(&kubeconfig, &[flag]), &[message]);
    }
}

#[test]
fn one_secret_for_certificate_and_path_is_reported() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    for flag in [
        "--tls-secret-name=volume-warden-serving",
        "--webhook-path-secret=volume-warden-tls",
    ] {
        assert_usage_error(run(&kubeconfig, &[flag]), &["have to name two Secrets"]);
    }
}

#[test]
fn a_lifetime_with_certificate_files_is_reported() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    let files = ["--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key"];
    for flag in ["--tls-ca-lifetime", "--tls-certificate-lifetime"] {
        let lifetime = format!("{flag}=100h");
        let arguments = [files[0], files[1], &lifetime];
        assert_usage_error(run(&kubeconfig, &arguments), &[flag, "--tls-cert-file"]);
        let mut by_environment = run(&kubeconfig, &files);
        let variable = flag.trim_start_matches('-').replace('-', "_");
        let variable = format!("VOLUME_WARDEN_{}", variable.to_uppercase());
        by_environment.env(variable, "100h");
        assert_usage_error(by_environment, &[flag, "--tls-cert-file"]);
    }
}

#[test]
fn an_address_in_use_is_reported() {
    let directory = TempDir::new().expect("a directory");
    let kubeconfig = kubeconfig(&directory);
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address").to_string();
    for flag in [
        "--webhook-bind-address",
        "--metrics-bind-address",
        "--probe-bind-address",
    ] {
        assert_failure(
            run(&kubeconfig, &[flag, &address]),
            &format!("cannot listen on {address}"),
        );
    }
}
