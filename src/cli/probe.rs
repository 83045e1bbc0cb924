//! `volume-warden probe`: queries the probe server of the `run` process in the same container, for
//! the kubelet's `exec` probes. With the default address, no other pod can reach that server.

use super::{options::ProbeOptions, print::print};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

/// Timeout of each step of the HTTP exchange. The kubelet's `timeoutSeconds` in the manifests is
/// longer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of the answer in bytes; more than any list of what is missing.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024;

pub(super) const EXIT_CODES: &str = "Exit codes: 0 live, or ready; 1 not live, not ready, or no \
answer; 2 the command line is wrong.";

/// `volume-warden probe`
#[derive(Debug, Args)]
pub(super) struct ProbeCommand {
    /// Probe to run.
    #[arg(value_enum)]
    probe: ProbeKind,

    #[command(flatten)]
    options: ProbeOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProbeKind {
    /// Succeeds while the process answers; the process exits if one of its tasks ends. If the probe
    /// fails, restart the process.
    Live,
    /// Succeeds if the process can answer reviews. If it fails, the output lists what is missing.
    Ready,
}

impl ProbeKind {
    fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
        }
    }
}

/// Runs the probe. The exit code is 0 if it succeeds and 1 if it fails; no answer is an error.
pub(super) fn run(command: ProbeCommand) -> anyhow::Result<ExitCode> {
    let address = command.options.probe_bind_address;
    let answer = get(address, command.probe.path());
    let answer = answer.with_context(|| format!("no answer from {address}"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| format!("{address} does not speak HTTP"))?;
    print(body.trim_end())?;
    let succeeded = head.split_whitespace().nth(1) == Some("200");
    Ok(ExitCode::from(u8::from(!succeeded)))
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // With HTTP/1.0 the server closes the connection after the answer, which marks its end.
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream
        .take(MAX_RESPONSE_BYTES)
        .read_to_string(&mut answer)?;
    Ok(answer)
}
