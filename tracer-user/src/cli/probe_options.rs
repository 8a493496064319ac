//! Options of `attach` and `run` that name points of programs and of the kernel.

use anyhow::Context;

use tracer_binary::probes::{NotAProbe, ProbeSpec};
use tracer_kernel::named_tracepoints::Pattern;

/// Points of programs, as typed.
#[derive(Debug, Default, clap::Args)]
pub struct ProbeArgs {
    /// Record a static probe of the program (USDT) with its arguments; may be given more than once.
    /// `tracer-user probes PID` lists those of a process. Their types may be given, as to --probe:
    /// 'ruby:cmethod__entry(str, str, str, int)'
    #[arg(long, value_name = "PROVIDER:NAME")]
    usdt: Vec<String>,
    /// Record each time that a function is entered, with what the registers for arguments hold, or
    /// with its arguments by their types: 'libc.so.6:fopen(str, str)'. Types are str (a text, as
    /// far as --string-size says, 256 bytes at most), int, long, uint, ulong, s8 to s64, u8 to u64,
    /// bool, char, ptr, and float and double, which take their space and are not read. Of a C or
    /// C++ program that was built with -g, they are known without being given. A function of C++ or
    /// Rust may be named as stacks show it, with its parameters or without ('app:N::B<long>::go'),
    /// and several by a pattern ('app:N::*'), each of which is a type of its own. With
    /// FILE:FUNCTION+BYTES, each time that the instruction there is reached
    #[arg(long, value_name = "FILE:FUNCTION")]
    probe: Vec<String>,
    /// Record each time that a function returns, with what it returns; its type may be given:
    /// 'libc.so.6:getenv(str)'. The kernel writes over the return address on the program's stack
    /// for that: an exception that unwinds through the function, or a coroutine that leaves it,
    /// ends the program. For the time that a function takes, --span FILE:FUNCTION of `why` and
    /// `stat` is without that danger
    #[arg(long, value_name = "FILE:FUNCTION")]
    retprobe: Vec<String>,
    /// Record tracepoints of the kernel by name, with their fields, separated by commas: NAME,
    /// CATEGORY:NAME, or a pattern ('tcp:*'); may be given more than once. Recorded is what happens
    /// while a traced thread has the CPU, in an interrupt too: that of a timer or of the network
    /// belongs to the thread that was interrupted. `tracer-user events --tracepoints` lists them
    #[arg(long, value_name = "LIST")]
    tracepoint: Vec<String>,
}

impl ProbeArgs {
    /// Returns the tracepoints that were named.
    ///
    /// # Errors
    ///
    /// A word is no valid name of a tracepoint.
    pub fn tracepoints(&self) -> anyhow::Result<Vec<Pattern>> {
        let words = self.tracepoint.iter().flat_map(|list| list.split(','));
        let patterns = words.map(|word| Pattern::new(word.trim()));
        patterns.collect::<Result<_, _>>().context("--tracepoint")
    }
}

/// Option with its typed values and the function that parses one.
type Named<'a> = (
    &'static str,
    &'a [String],
    fn(&str) -> Result<ProbeSpec, NotAProbe>,
);

impl TryFrom<ProbeArgs> for Vec<ProbeSpec> {
    type Error = anyhow::Error;

    fn try_from(args: ProbeArgs) -> anyhow::Result<Self> {
        let options: [Named<'_>; 3] = [
            ("--usdt", &args.usdt, ProbeSpec::usdt),
            ("--probe", &args.probe, ProbeSpec::function),
            ("--retprobe", &args.retprobe, ProbeSpec::on_return),
        ];
        let mut specs = Self::new();
        for (name, typed, read) in options {
            for typed in typed {
                let spec = read(typed).context(name)?;
                // Asked for twice, it would be recorded twice.
                if !specs.contains(&spec) {
                    specs.push(spec);
                }
            }
        }
        Ok(specs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_may_be_given_more_than_once() {
        let args = ProbeArgs {
            usdt: vec!["a:b".into(), "a:c".into(), "a:b".into()],
            probe: vec!["f:x+1".into()],
            retprobe: vec!["f:x".into()],
            ..ProbeArgs::default()
        };
        let specs = Vec::try_from(args).unwrap();
        let names: Vec<_> = specs.iter().map(ProbeSpec::event_name).collect();
        assert_eq!(names, ["usdt:a:b", "usdt:a:c", "probe:x+0x1", "retprobe:x"]);
    }

    #[test]
    fn tracepoints_are_separated_by_commas() {
        let named = |list: &str| {
            let args = ProbeArgs {
                tracepoint: vec![list.into(), "tcp:*".into()],
                ..ProbeArgs::default()
            };
            let patterns = args.tracepoints()?;
            anyhow::Ok(patterns.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(named("a:b, c").unwrap(), ["a:b", "c", "tcp:*"]);
        let error = format!("{:#}", named("a:b:c").unwrap_err());
        assert!(
            error.starts_with("--tracepoint: \"a:b:c\" is no"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_probe_is_refused_with_the_option_named() {
        let args = ProbeArgs {
            usdt: vec!["nothing".into()],
            ..ProbeArgs::default()
        };
        let error = format!("{:#}", Vec::try_from(args).unwrap_err());
        assert!(
            error.starts_with("--usdt: \"nothing\" is no probe"),
            "{error}"
        );
    }
}
