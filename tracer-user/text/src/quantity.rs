//! Sizes and times as people type them.

use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// Reads a number of bytes: `4096`, `512K`, `8M`, `1G`; also `8MiB`.
///
/// # Errors
///
/// It is none, or is not from `least` to `most`. `option` is what the line names.
pub fn size(option: &str, typed: &str, least: u64, most: u64) -> anyhow::Result<u64> {
    let digits = typed.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let shift = match typed[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => bail!("{option} {typed:?} is no size; give bytes, or a size with K, M or G: 8M"),
    };
    let count: u64 = digits.parse().with_context(|| {
        format!("{option} {typed:?} is no size; give bytes, or a size with K, M or G: 8M")
    })?;
    let bytes = count.checked_mul(1 << shift);
    let is_possible = bytes.is_some_and(|bytes| (least..=most).contains(&bytes));
    ensure!(
        is_possible,
        "{option} is {typed}, and must be from {} to {}",
        in_words(least),
        in_words(most)
    );
    Ok(bytes.unwrap_or(most))
}

/// Reads a time: `10s`, `500ms`, `1m`, `1.5h`; without a unit it is seconds.
///
/// # Errors
///
/// It is none, or is not above 0. `option` is what the line names.
pub fn time(option: &str, typed: &str) -> anyhow::Result<Duration> {
    /// Longest wait that makes sense, and that cannot overflow.
    const MOST_SECONDS: f64 = 1e9;
    let digits = typed.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match &typed[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            bail!("{option} {typed:?} is no time; give seconds, or a time with ms, s, m or h: 10s")
        }
    };
    let count: f64 = digits.parse().with_context(|| {
        format!("{option} {typed:?} is no time; give seconds, or a time with ms, s, m or h: 10s")
    })?;
    let seconds = count * unit;
    ensure!(
        seconds > 0.0 && seconds <= MOST_SECONDS,
        "{option} is {typed}, and must be above 0 and at most 30 years"
    );
    Ok(Duration::from_secs_f64(seconds))
}

fn in_words(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let fitting = units
        .iter()
        .find(|(_, shift)| bytes >> shift << shift == bytes && bytes >> shift > 0);
    match fitting {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(typed: &str) -> Option<u64> {
        size("--ring-size", typed, 4096, 1 << 30).ok()
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("512K"), Some(512 << 10));
        assert_eq!(bytes("8M"), Some(8 << 20));
        assert_eq!(bytes("8MiB"), Some(8 << 20));
        assert_eq!(bytes("1g"), Some(1 << 30));
    }

    #[test]
    fn what_is_no_size_or_out_of_bounds_is_refused() {
        for typed in [
            "",
            "M",
            "-1",
            "8 M",
            "1.5M",
            "8X",
            "0",
            "4095",
            "2G",
            "99999999999999999999",
            "18014398509481984K",
            "8é",
        ] {
            assert_eq!(bytes(typed), None, "{typed}");
        }
        let error = size("--ring-size", "1", 4096, 1 << 30).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--ring-size is 1, and must be from 4K to 1G"
        );
    }

    #[test]
    fn times_have_units_and_are_seconds_without() {
        let ms = |typed| time("--duration", typed).unwrap().as_millis();
        assert_eq!(ms("10s"), 10_000);
        assert_eq!(ms("500ms"), 500);
        assert_eq!(ms("1m"), 60_000);
        assert_eq!(ms("2"), 2000);
        assert_eq!(ms("1.5"), 1500);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for typed in ["", "soon", "-1", "0", "1d", "nan", "inf", "1e300", "NaNs"] {
            assert!(time("--duration", typed).is_err(), "{typed}");
        }
    }
}
