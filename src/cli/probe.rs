//! `volume-warden probe`: asks the process that serves in the same container, as the kubelet's
//! `exec` probes do. The address is one that no other pod can reach.

use super::{options::ProbeOptions, print::print};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

/// For each step of the exchange. The kubelet's `timeoutSeconds` in the manifests is longer.
const LIMIT: Duration = Duration::from_secs(4);
/// More than any sentence about what is missing.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// `volume-warden probe`
#[derive(Debug, Args)]
pub(super) struct ProbeCommand {
    /// What to ask.
    #[arg(value_enum)]
    question: Question,

    #[command(flatten)]
    options: ProbeOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Question {
    /// Whether the process runs its tasks: if not, it is to be restarted.
    Live,
    /// Whether it can answer reviews: if not, what is missing.
    Ready,
}

impl Question {
    fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
        }
    }
}

/// 0 if it is, 1 if it is not or does not answer.
pub(super) fn run(command: ProbeCommand) -> anyhow::Result<ExitCode> {
    let address = command.options.probe_bind_address;
    let answer = ask(address, command.question.path());
    let answer = answer.with_context(|| format!("no answer from {address}"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| format!("{address} does not speak HTTP"))?;
    print(body.trim_end())?;
    let well = head.split_whitespace().nth(1) == Some("200");
    Ok(ExitCode::from(u8::from(!well)))
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    // HTTP/1.0: the answer ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}
