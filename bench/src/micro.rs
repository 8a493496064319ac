//! Micro-benchmarks by criterion: `tracer-posix/benches`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use super::results::Micro;
use xtask::{process, workspace};

/// Runs all micro-benchmarks and reads criterion's estimates.
pub fn measure(is_quick: bool) -> anyhow::Result<Vec<Micro>> {
    let results = workspace::target("criterion");
    let _nothing_there = fs::remove_dir_all(&results);
    let mut bench = workspace::cargo_for_host("bench");
    bench
        .args([
            "--quiet",
            "--package=tracer-posix",
            "--package=tracer-log",
            "--package=libposixtrace",
            "--benches",
            "--",
        ])
        .args(["--noplot", "--quiet"])
        .env("CRITERION_HOME", &results);
    if is_quick {
        bench.args([
            "--warm-up-time=0.1",
            "--measurement-time=0.2",
            "--sample-size=10",
        ]);
    } else {
        bench.args(["--warm-up-time=0.5", "--measurement-time=2"]);
    }
    process::run(&mut bench)?;
    let mut all = Vec::new();
    for folder in folders_with_estimates(&results)? {
        all.push(read(&folder)?);
    }
    all.sort_by_key(|one| natural(&one.name));
    Ok(all)
}

/// Finds the folders in which criterion left the estimates of a new run.
fn folders_with_estimates(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.join("new/estimates.json").is_file() {
            found.push(path.join("new"));
        } else if path.is_dir() {
            found.extend(folders_with_estimates(&path)?);
        }
    }
    Ok(found)
}

fn read(folder: &Path) -> anyhow::Result<Micro> {
    let json = |name: &str| -> anyhow::Result<Value> {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    };
    let (benchmark, estimates) = (json("benchmark.json")?, json("estimates.json")?);
    // Events by iteration, where the benchmark says so.
    let events = benchmark
        .pointer("/throughput/Elements")
        .and_then(Value::as_f64)
        .unwrap_or(1.0);
    let median = |what: &str| {
        let median = estimates
            .pointer(&format!("/median/{what}"))
            .and_then(Value::as_f64);
        median
            .map(|ns| ns / events)
            .with_context(|| format!("{} has no {what}", folder.display()))
    };
    Ok(Micro {
        name: benchmark
            .get("title")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        ns: median("point_estimate")?,
        low: median("confidence_interval/lower_bound")?,
        high: median("confidence_interval/upper_bound")?,
    })
}

/// Splits a name into a sort key: digits count by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut was_digit = false;
    for letter in name.chars() {
        let digit = letter.to_digit(10).map(u64::from);
        if was_digit && digit.is_none() {
            parts.push((String::new(), 0));
        }
        was_digit = digit.is_some();
        if let Some((text, value)) = parts.last_mut() {
            match digit {
                Some(digit) => *value = value.saturating_mul(10).saturating_add(digit),
                None => text.push(letter),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_the_value_of_their_digits() {
        let mut names = ["data/256", "data/8", "data/32", "a 10 b", "a 9 b"];
        names.sort_by_key(|name| natural(name));

        assert_eq!(names, ["a 9 b", "a 10 b", "data/8", "data/32", "data/256"]);
    }
}
