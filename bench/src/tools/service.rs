//! `tracer-user attach` of an ordinary user, who gets the kernel's events from the service.

use std::fs;
use std::process::Command;

use super::background::{Background, Finished, count_before, count_shown};
use super::{Attached, Seen, Tool, What};
use crate::folder;
use anyhow::Context as _;
use xtask::workspace;

/// The ordinary user.
const USER: u32 = 61_004;

/// Returns the command as the ordinary user has it.
pub fn as_user(command: &Command) -> Command {
    let mut as_user = Command::new("setpriv");
    as_user.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    as_user.args(["--clear-groups", "--inh-caps=-all", "--"]);
    as_user.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            as_user.env(name, value);
        }
    }
    as_user
}

/// Our command line without rights, printing text to a file.
#[derive(Clone, Copy)]
pub struct OursByService;

impl Tool for OursByService {
    fn name(&self) -> String {
        "tracer-user attach, by the service".to_owned()
    }

    fn program(&self) -> &'static str {
        "setpriv"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let program = workspace::target("dist/bin/tracer-user");
        let socket = folder().join("service.sock");
        // The round before has left one there.
        let _ = fs::remove_file(&socket);
        let mut serve = Command::new(&program);
        serve
            .args(["serve", "--idle", "0", "--socket"])
            .arg(&socket);
        let mut service = Background::start(&mut serve, "service")?;
        service.wait_a_moment()?;
        let mut client = Command::new(&program);
        client.arg("attach").args(pids.iter().map(u32::to_string));
        client.args(["--events", What::Switches.events()]);
        client.env("LINUX_TRACE_AGENT", &socket);
        let mut client = Background::start(&mut as_user(&client), "by-service")?;
        client.wait_for("kernel events from")?;
        client.wait_a_moment()?;
        Ok(Box::new(Running { client, service }))
    }
}

struct Running {
    client: Background,
    service: Background,
}

impl Attached for Running {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        let client = self.client.stop()?;
        let service = self.service.stop()?;
        let Finished { err, .. } = &client;
        let count = |sign| {
            count_before(err, sign).with_context(|| format!("no {sign:?} in its last line: {err}"))
        };
        Ok(Seen {
            events: count_shown(err)?,
            lost: count(" lost")?,
            bytes: client.bytes(),
            cpu_seconds: client.cpu_seconds + service.cpu_seconds,
        })
    }
}
