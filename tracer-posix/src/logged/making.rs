//! Making the recorder of a stream: the program, or a fork.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::agent::AgentSource;
use crate::stream::CreateError;
use tracer_area as area;
use tracer_area::descriptor::Guarded;
use tracer_log::LogHeader;

use super::order::{Order, Start};
use super::protocol::Reply;
use super::record::{record, record_for};
use super::rights::Rights;
use super::serve::settle_down;
use super::{Activity, process, program, protocol};

/// A recorder's job.
pub(super) struct Job {
    /// The process to trace.
    pub target: i32,
    pub header: LogHeader,
    pub log: OwnedFd,
    /// The kernel's events, if they are wanted.
    pub kernel: Option<AgentSource>,
}

/// A recorder that is ready.
pub(super) struct Made {
    /// The controller's end of the conversation.
    pub socket: Guarded<OwnedFd>,
    pub activity: Arc<Activity>,
    pub recorder: libc::pid_t,
}

/// Makes a recorder for a job.
///
/// # Errors
///
/// See [`CreateError`].
pub(super) fn make(job: Job) -> Result<Made, CreateError> {
    match by_program(&job) {
        Ok(made) => made,
        // The attempt has had no effect.
        Err(_no_program) => by_fork(job),
    }
}

impl Job {
    fn order(&self, end: &Guarded<OwnedFd>) -> Order {
        Order {
            target: self.target,
            controller: area::own_pid(),
            end: (end.raw(), end.identity().inode),
            header: self.header.clone(),
        }
    }
}

/// Makes the recorder's program record. With the outer error, the program cannot do it here.
fn by_program(job: &Job) -> io::Result<Result<Made, CreateError>> {
    if !program::is_there() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let traces_itself = job.target == area::own_pid();
    // If the file of this process's own area is not available, only a fork has the area.
    let area = traces_itself.then(area::own_file_anew).transpose()?;
    let (activity, shared) = Activity::in_file()?;
    let (ours, theirs) = protocol::pair()?;
    let ours = Guarded::new(ours)?;
    let rights = Rights::read_own();
    program::start(&theirs, rights)?;
    drop(theirs);
    let agent = job.kernel.as_ref();
    let start = Start::new(&job.order(&ours), rights, area.is_some(), agent.is_some());
    let message = postcard::to_stdvec(&start).map_err(io::Error::other)?;
    let files: Vec<RawFd> = [Some(job.log.as_raw_fd()), Some(shared.as_raw_fd())]
        .into_iter()
        .chain([area.as_ref().map(AsRawFd::as_raw_fd)])
        .chain([agent.map(AsRawFd::as_raw_fd)])
        .flatten()
        .collect();
    protocol::send_with_files(ours.get()?, &message, &files)?;
    match first_reply(&ours)? {
        Reply::Ready(recorder) => Ok(Ok(Made {
            socket: ours,
            activity: Arc::new(activity),
            recorder,
        })),
        Reply::Failed(error) => Ok(Err(CreateError::Refused(error))),
        // The program is of another version, cannot have the rights of this process, or sends
        // nonsense.
        Reply::Unfit | Reply::Done | Reply::Event(_) | Reply::EventType(_) | Reply::Name(_) => {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

/// Makes a fork of this process record.
fn by_fork(job: Job) -> Result<Made, CreateError> {
    let (ours, theirs) = protocol::pair().map_err(CreateError::Recorder)?;
    let ours = Guarded::new(ours).map_err(CreateError::Recorder)?;
    let activity = Arc::new(Activity::new().map_err(CreateError::Recorder)?);
    let order = job.order(&ours);
    let mut parts = Some((job.log, job.kernel));
    process::spawn(&mut || {
        let Some((log, kernel)) = parts.take() else {
            return;
        };
        let area = area::own_file();
        let agent = kernel.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let open = [
            theirs.as_raw_fd(),
            log.as_raw_fd(),
            area.unwrap_or(-1),
            agent,
        ];
        settle_down(&open);
        let made = record(&order, None, (File::from(log), kernel));
        record_for(&order, made, &theirs, Arc::clone(&activity));
    })
    .map_err(CreateError::Recorder)?;
    drop(theirs);
    match first_reply(&ours) {
        Ok(Reply::Ready(recorder)) => Ok(Made {
            socket: ours,
            activity,
            recorder,
        }),
        Ok(Reply::Failed(error)) => Err(CreateError::Refused(error)),
        Ok(_) => Err(CreateError::Recorder(io::ErrorKind::InvalidData.into())),
        Err(error) => Err(CreateError::Recorder(error)),
    }
}

/// Receives the first message of a recorder.
fn first_reply(socket: &Guarded<OwnedFd>) -> io::Result<Reply> {
    let mut message = [0; 256];
    let bytes = protocol::receive(socket.get()?, &mut message)?;
    postcard::from_bytes(bytes).map_err(io::Error::other)
}
