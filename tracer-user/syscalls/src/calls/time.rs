//! Times and timers.

use super::bytes::Bytes;
use super::pointed::Data;

/// Renders seconds and a fraction of one.
pub fn time(bytes: Bytes<'_>, fraction: &str) -> Option<String> {
    let (seconds, rest) = (bytes.i64(0)?, bytes.i64(8)?);
    Some(format!("{{tv_sec={seconds}, {fraction}={rest}}}"))
}

pub fn push_timespec(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(time(bytes, "tv_nsec")?.as_bytes());
    Some(())
}

pub fn push_timeval(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(time(bytes, "tv_usec")?.as_bytes());
    Some(())
}

pub fn push_file_times(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let one = |bytes: Bytes<'_>| {
        Some(match bytes.i64(8)? {
            libc::UTIME_NOW => "UTIME_NOW".to_owned(),
            libc::UTIME_OMIT => "UTIME_OMIT".to_owned(),
            _ => time(bytes, "tv_nsec")?,
        })
    };
    let shown = format!("[{}, {}]", one(bytes)?, one(bytes.from(16)?)?);
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

pub fn push_file_timevals(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let (first, second) = (time(bytes, "tv_usec")?, time(bytes.from(16)?, "tv_usec")?);
    out.extend_from_slice(format!("[{first}, {second}]").as_bytes());
    Some(())
}

fn timer(bytes: Bytes<'_>, fraction: &str) -> Option<String> {
    let (interval, value) = (time(bytes, fraction)?, time(bytes.from(16)?, fraction)?);
    Some(format!("{{it_interval={interval}, it_value={value}}}"))
}

pub fn push_itimerspec(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(timer(bytes, "tv_nsec")?.as_bytes());
    Some(())
}

pub fn push_itimerval(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(timer(bytes, "tv_usec")?.as_bytes());
    Some(())
}

pub fn push_tms(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    let shown = format!(
        "{{tms_utime={}, tms_stime={}, tms_cutime={}, tms_cstime={}}}",
        bytes.i64(0)?,
        bytes.i64(8)?,
        bytes.i64(16)?,
        bytes.i64(24)?
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

/// Appends how long a thread still had to sleep: of one that slept as long as it was to, nothing is
/// said.
pub fn push_time_left(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    (data.returned != Some(0)).then_some(())?;
    push_timespec(out, data)
}
