//! Finds the locations in files of the probes that were asked for.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::slice;
use std::sync::Arc;

use tracer_common::kernel::{PROBE_ARGUMENTS, ProbeArgument, ProbeSite, probe_kind};
use zerocopy::FromZeros;

use super::arguments::{self, LocatedArgument};
use super::binary::{Binary, BinaryError, Function, StaticProbe};
use super::dwarf::Entries;
use super::exits::{self, Borders, NotDecoded, Piece};
use super::files::{self, Used};
use super::find_error::FindProbeError;
use super::named_files::named;
use super::named_functions::{functions, name_of_several, typed_functions};
use super::registers;
use super::spec::ProbeSpec;
use super::types::{Signature, ValueType};

/// The most probes that may be asked for: one more would not fit into a record's type.
pub const MAX_PROBES: usize = 512;

/// Processes or command to be probed.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Processes that run.
    Processes(&'a [i32]),
    /// Command that is to be started.
    Command(&'a OsStr),
}

/// Location that is to be probed.
#[derive(Clone, Debug)]
pub struct Location {
    /// The file.
    pub binary: Arc<Binary>,
    /// Offset in the file.
    pub offset: u64,
    /// Offset of the semaphore in the file.
    pub semaphore: Option<u64>,
    /// Probe of the return of the function that starts there.
    pub is_return: bool,
    /// Description of the site for the eBPF program.
    pub site: ProbeSite,
}

/// Kind of a probe: several locations may have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeKind {
    /// The name of its event type.
    pub name: String,
    /// Its values, where their types are known.
    pub signature: Option<Signature>,
}

/// Probes to be set.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Kinds of the probes, by index.
    pub kinds: Vec<ProbeKind>,
    /// The locations, each of which belongs to one probe.
    pub locations: Vec<Location>,
    /// Index of the probe of trace points, where those are probed: it has no kind.
    pub trace_points: Option<u16>,
    /// Processes in which the probes are set; `None` for all, of which the traced ones are
    /// recorded.
    pub only: Option<Vec<i32>>,
    /// Sentences about files that are left out, and probes that may do harm.
    pub warnings: Vec<String>,
}

/// Provider and name of the static probe that each trace point is.
const TRACE_POINT: (&str, &str) = ("posixtrace", "event");

/// Finds all probes that were asked for, and the trace points where those are probed too.
///
/// # Errors
///
/// One of them cannot be found.
pub fn find(
    specs: &[ProbeSpec],
    with_trace_points: bool,
    subject: Subject<'_>,
) -> Result<Probes, FindProbeError> {
    let mut probes = Probes::default();
    if specs.is_empty() && !with_trace_points {
        return Ok(probes);
    }
    if specs.len() > MAX_PROBES {
        return Err(FindProbeError::TooMany { asked: specs.len() });
    }
    let used = used_by(subject, &mut probes.warnings)?;
    let mut kinds: Vec<ProbeKind> = Vec::new();
    let mut left = Entries::default();
    for spec in specs {
        for (mut location, signature, function) in
            locations_of(spec, &used, subject, &mut (&mut left, &mut probes.warnings))?
        {
            let name = function.map(|function| spec.event_name_of(&function));
            let kind = ProbeKind {
                name: name.unwrap_or_else(|| spec.event_name()),
                signature,
            };
            let known = kinds.iter().position(|known| *known == kind);
            let probe = known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            // A function of one name may have other arguments in each file.
            if probe >= MAX_PROBES {
                return Err(FindProbeError::TooMany { asked: probe + 1 });
            }
            location.site.probe = u16::try_from(probe).unwrap_or(u16::MAX);
            probes.locations.push(location);
        }
    }
    if with_trace_points {
        if kinds.len() >= MAX_PROBES {
            return Err(FindProbeError::TooMany {
                asked: kinds.len() + 1,
            });
        }
        let index = u16::try_from(kinds.len()).unwrap_or(u16::MAX);
        probes.locations.extend(trace_points(index, &used)?);
        probes.trace_points = Some(index);
    }
    probes.kinds = kinds;
    Ok(probes)
}

/// Finds all trace points of these files, as the probe with this index.
fn trace_points(index: u16, used: &[Arc<Binary>]) -> Result<Vec<Location>, FindProbeError> {
    let (provider, name) = TRACE_POINT;
    let found = usdt(provider, name, None, used).map_err(|error| match error {
        FindProbeError::NoUsdt { files, .. } => FindProbeError::NoTracePoints { files },
        other => other,
    })?;
    let locations = found.into_iter().map(|(mut location, ..)| {
        location.site.probe = index;
        location
    });
    Ok(locations.collect())
}

/// Location, the signature of its values where that is known, and the name of its function where
/// several were asked for.
type Known = (Location, Option<Signature>, Option<String>);

/// Returns the files, each once.
fn used_by(
    subject: Subject<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arc<Binary>>, FindProbeError> {
    let used: Vec<Used> = match subject {
        Subject::Command(command) => files::find_for_command(command)?,
        Subject::Processes(pids) => {
            let mut used = Vec::new();
            for pid in pids {
                match files::find_in_process(*pid, warnings) {
                    Ok(files) => used.extend(files),
                    // Of many, some end meanwhile.
                    Err(_) if pids.len() > 1 && !files::is_there(*pid) => {}
                    // One process that does not answer does not keep the others from being probed.
                    Err(error) if pids.len() > 1 && error.kind() == ErrorKind::TimedOut => {
                        warnings.push(format!("{error}: its files are not looked at"));
                    }
                    Err(source) => return Err(FindProbeError::Maps { pid: *pid, source }),
                }
            }
            used
        }
    };
    let mut binaries: Vec<Arc<Binary>> = Vec::new();
    for used in used {
        match used.open() {
            Ok(binary) => {
                let is_new = binaries
                    .iter()
                    .all(|known| known.identity() != binary.identity());
                if is_new {
                    binaries.push(Arc::new(binary));
                }
            }
            // Another user may have hidden it on purpose.
            Err(error) if error.is_hidden() => {
                warnings.push(format!("{:#}", anyhow::Error::new(error)));
            }
            // Of what is mapped, not all is a program; what was asked for and is not found is said.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "not looked at")
            }
        }
    }
    Ok(binaries)
}

fn locations_of(
    spec: &ProbeSpec,
    used: &[Arc<Binary>],
    subject: Subject<'_>,
    (left, warnings): &mut (&mut Entries, &mut Vec<String>),
) -> Result<Vec<Known>, FindProbeError> {
    match spec {
        ProbeSpec::Usdt {
            provider,
            name,
            types,
        } => usdt(provider, name, types.as_deref(), used),
        ProbeSpec::Function {
            file,
            symbol,
            offset,
            types,
        } => {
            let binaries = named(file, used, subject)?;
            let found = typed_functions(&binaries, symbol, *offset, types.as_deref())?;
            let locations = found.into_iter().map(|(binary, function)| {
                let name = name_of_several(symbol, &function);
                let signature = match types {
                    Some(types) => Some(Signature::unnamed(types)),
                    None if *offset == 0 => binary.signature(&function, left),
                    None => None,
                };
                // Only at the start do the registers hold the arguments.
                let all = registers::arguments().map(LocatedArgument::in_register);
                let site = match &signature {
                    Some(signature) => typed_site(
                        probe_kind::TYPED_FUNCTION,
                        signature,
                        &signature.arguments(),
                    ),
                    None if *offset == 0 => site(probe_kind::FUNCTION, &all),
                    None => site(probe_kind::FUNCTION, &[]),
                };
                let location = Location {
                    binary,
                    offset: function.offset.saturating_add(*offset),
                    semaphore: None,
                    is_return: false,
                    site,
                };
                (location, signature, name)
            });
            Ok(locations.collect())
        }
        ProbeSpec::Return {
            file,
            symbol,
            result,
        } => {
            let binaries = named(file, used, subject)?;
            let found =
                typed_functions(&binaries, symbol, 0, result.as_ref().map(slice::from_ref))?;
            warn_of_returns(&found, symbol, warnings)?;
            let found = found.into_iter();
            let untyped = [LocatedArgument::in_register(registers::result())];
            let locations = found.map(|(binary, function)| {
                let name = name_of_several(symbol, &function);
                let signature = result.map(Signature::result);
                let site = match &signature {
                    Some(signature) => {
                        typed_site(probe_kind::TYPED_RETURN, signature, &signature.results())
                    }
                    None => site(probe_kind::RETURN, &untyped),
                };
                let location = Location {
                    binary,
                    offset: function.offset,
                    semaphore: None,
                    is_return: true,
                    site,
                };
                (location, signature, name)
            });
            Ok(locations.collect())
        }
        ProbeSpec::SpanBegin { file, symbol } => {
            let found = bordered(&named(file, used, subject)?, symbol)?.into_iter();
            let all = registers::arguments().map(LocatedArgument::in_register);
            let locations = found.map(|(binary, borders)| {
                let kind = probe_kind::FUNCTION;
                (
                    instruction(&binary, borders.entry, site(kind, &all)),
                    None,
                    None,
                )
            });
            Ok(locations.collect())
        }
        ProbeSpec::SpanEnd { file, symbol } => {
            let mut locations = Vec::new();
            let result = [LocatedArgument::in_register(registers::result())];
            for (binary, borders) in bordered(&named(file, used, subject)?, symbol)? {
                let mut add = |offsets: &[u64], arguments: &[LocatedArgument]| {
                    let site = site(probe_kind::RETURN, arguments);
                    let added = offsets.iter().map(|at| instruction(&binary, *at, site));
                    locations.extend(added.map(|location| (location, None, None)));
                };
                add(&borders.returns, &result);
                // The result is then that of the function that it jumps to.
                add(&borders.tail_calls, &[]);
                if !borders.tail_calls.is_empty() {
                    warnings.push(format!(
                        "{symbol} of {} may end by going on in another function (a tail call): \
                         its spans end there",
                        binary.path().display()
                    ));
                }
            }
            Ok(locations)
        }
    }
}

/// Returns a probe at an instruction.
fn instruction(binary: &Arc<Binary>, offset: u64, site: ProbeSite) -> Location {
    Location {
        binary: Arc::clone(binary),
        offset,
        semaphore: None,
        is_return: false,
        site,
    }
}

/// Finds the functions of that name, with their beginnings and exits.
fn bordered(
    binaries: &[Arc<Binary>],
    symbol: &str,
) -> Result<Vec<(Arc<Binary>, Borders)>, FindProbeError> {
    let mut found = Vec::new();
    for (binary, function) in functions(binaries, symbol, 0)? {
        let borders = borders_of(&binary, &function)?;
        let borders = borders.map_err(|why| FindProbeError::NotDecoded {
            file: binary.path().to_owned(),
            symbol: symbol.to_owned(),
            why,
        })?;
        found.push((binary, borders));
    }
    Ok(found)
}

/// Finds the borders of a function in its code. At most 4 MiB of each piece are read: larger
/// functions are not supported.
fn borders_of(
    binary: &Binary,
    function: &Function,
) -> Result<Result<Borders, NotDecoded>, BinaryError> {
    const LONGEST: usize = 4 << 20;
    const PIECES: usize = 64;
    let piece = |function: &Function| -> Result<Piece, BinaryError> {
        Ok(Piece {
            offset: function.offset,
            code: binary.code(function, LONGEST)?,
        })
    };
    let mut pieces = vec![piece(function)?];
    // Parts that are seldom executed: `name.cold`, `name.cold.1`.
    let is_cold = |other: &&Function| {
        let rest = other.name.strip_prefix(&function.name);
        rest.is_some_and(|rest| rest.starts_with(".cold"))
    };
    let all = binary.functions()?;
    for cold in all.iter().filter(is_cold).take(PIECES) {
        pieces.push(piece(cold)?);
    }
    // Go has none.
    let has_tail_calls = !binary.is_of_go()?;
    Ok(exits::borders(&pieces, has_tail_calls))
}

/// Refuses a probe of a return that is certain to end the programs of a file, and warns of one that
/// may.
fn warn_of_returns(
    found: &[(Arc<Binary>, Function)],
    symbol: &str,
    warnings: &mut Vec<String>,
) -> Result<(), FindProbeError> {
    for (binary, _) in found {
        if binary.is_of_go()? {
            return Err(FindProbeError::ReturnInGo {
                file: binary.path().to_owned(),
                symbol: symbol.to_owned(),
            });
        }
        if let Some(means) = binary.leaves_stacks()? {
            warnings.push(format!(
                "warning: {file} has {means}: a program ends when it unwinds or leaves a stack on \
                 which the return of {symbol} is probed; --span {file}:{symbol} probes its return \
                 instructions instead, which harms nothing",
                file = binary.path().display()
            ));
        }
    }
    Ok(())
}

fn usdt(
    provider: &str,
    name: &str,
    types: Option<&[ValueType]>,
    used: &[Arc<Binary>],
) -> Result<Vec<Known>, FindProbeError> {
    let signature = types.map(Signature::unnamed);
    let mut locations = Vec::new();
    let mut similar = None;
    for binary in used {
        for found in binary.static_probes()? {
            if found.provider == provider && found.name == name {
                let mut location = static_location(binary, &found);
                if let Some(signature) = &signature {
                    let located = arguments::parse(&found.arguments).into_iter();
                    let located = signature.located(located.map(|argument| argument.location));
                    location.site = typed_site(probe_kind::TYPED_FUNCTION, signature, &located);
                }
                locations.push((location, signature.clone(), None));
            } else if found.name.eq_ignore_ascii_case(name) {
                similar = Some(format!("{}:{}", found.provider, found.name));
            }
        }
    }
    if locations.is_empty() {
        return Err(FindProbeError::NoUsdt {
            provider: provider.to_owned(),
            name: name.to_owned(),
            files: used.len(),
            similar,
        });
    }
    Ok(locations)
}

fn static_location(binary: &Arc<Binary>, found: &StaticProbe) -> Location {
    Location {
        binary: Arc::clone(binary),
        offset: found.offset,
        semaphore: found.semaphore,
        is_return: false,
        site: site(probe_kind::USDT, &arguments::parse(&found.arguments)),
    }
}

/// Describes a location whose values have types, for the eBPF program. The index of the probe is
/// set later.
fn typed_site(kind: u16, signature: &Signature, located: &[ProbeArgument]) -> ProbeSite {
    let signs = signature.values.iter().map(|(_, of)| of.is_signed());
    let arguments: Vec<_> = located
        .iter()
        .zip(signs)
        .map(|(location, is_signed)| LocatedArgument {
            location: *location,
            is_signed,
        })
        .collect();
    let texts = arguments
        .iter()
        .filter(|argument| argument.location.is_text != 0);
    ProbeSite {
        texts: u32::try_from(texts.count()).unwrap_or(0),
        ..site(kind, &arguments)
    }
}

/// Describes a location whose values have no types, for the eBPF program.
fn site(kind: u16, arguments: &[LocatedArgument]) -> ProbeSite {
    let mut args = [ProbeArgument::new_zeroed(); PROBE_ARGUMENTS];
    let mut signed = 0;
    for (index, (slot, argument)) in args.iter_mut().zip(arguments).enumerate() {
        *slot = argument.location;
        signed |= u16::from(argument.is_signed) << index;
    }
    let count = arguments.len().min(PROBE_ARGUMENTS);
    ProbeSite {
        probe: 0,
        kind,
        // At most six.
        count: u16::try_from(count).unwrap_or(0),
        signed,
        address: registers::address().offset,
        truncated: u16::from(arguments.len() > PROBE_ARGUMENTS),
        texts: 0,
        args,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    fn found(spec: ProbeSpec) -> Result<Probes, FindProbeError> {
        find(&[spec], false, Subject::Processes(&[own_pid()]))
    }

    fn own_name() -> String {
        let own = std::env::current_exe().unwrap();
        own.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn a_function_is_found_by_the_name_and_by_the_path_of_its_file() {
        let own = std::env::current_exe().unwrap();
        for file in [own_name(), own.display().to_string()] {
            let spec = ProbeSpec::function(&format!("{file}:main")).unwrap();
            let probes = found(spec).unwrap();
            assert_eq!(probes.kinds[0].name, "probe:main");
            assert_eq!(probes.locations.len(), 1);
            assert_eq!(probes.locations[0].site.count, 6);
        }
    }

    #[test]
    fn within_a_function_no_arguments_are_known() {
        let at = |offset: u32| {
            let typed = format!("{}:main+{offset}", own_name());
            found(ProbeSpec::function(&typed).unwrap())
        };
        let mut within = (1..16).map(at);
        let first = within.find_map(Result::ok).expect("an instruction");
        assert_eq!(first.locations[0].site.count, 0);
        // Not every byte of a function begins an instruction.
        let refused = (1..16).filter_map(|offset| at(offset).err());
        let mut refused = refused.map(|error| error.to_string());
        assert!(refused.any(|error| error.starts_with("no instruction begins ")));

        let spec = ProbeSpec::function(&format!("{}:main+99999", own_name())).unwrap();
        let error = found(spec).unwrap_err().to_string();
        assert!(error.contains("99999 is not within"), "{error}");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let spec = ProbeSpec::function("nosuchfile:main").unwrap();
        let error = found(spec).unwrap_err().to_string();
        assert!(error.contains(&own_name()), "{error}");

        let spec = ProbeSpec::function(&format!("{}:no_such_function", own_name())).unwrap();
        let error = found(spec).unwrap_err().to_string();
        assert!(
            error.contains("no function no_such_function; `tracer-user probes"),
            "{error}"
        );

        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("other_name");
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        let spec = ProbeSpec::function(&format!("{}:no_such_function", link.display())).unwrap();
        let error = found(spec).unwrap_err().to_string();
        let named = format!("other_name, a link to {}, has no function", own_name());
        assert!(error.contains(&named), "{error}");

        let spec = ProbeSpec::usdt("nobody:nothing").unwrap();
        let error = found(spec).unwrap_err().to_string();
        assert!(
            error.contains("no static probe nobody:nothing in the "),
            "{error}"
        );
    }

    #[test]
    fn the_same_name_twice_is_one_event_type() {
        let spec = ProbeSpec::function(&format!("{}:main", own_name())).unwrap();
        let twice = [spec.clone(), spec];
        let probes = find(&twice, false, Subject::Processes(&[own_pid()])).unwrap();
        assert_eq!((probes.kinds.len(), probes.locations.len()), (1, 2));
    }

    #[test]
    fn more_arguments_than_are_recorded_are_said_to_be_truncated() {
        let many = arguments::parse(&["4@$1"; 8].join(" "));
        let site = site(probe_kind::USDT, &many);
        assert_eq!((site.probe, site.count, site.truncated), (0, 6, 1));
    }
}
