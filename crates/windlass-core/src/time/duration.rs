//! Durations as people write them.

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// `30s`, `5m`, `1h30m`, `250ms`, `2d`: whole numbers with units, the larger unit first, each once.
#[must_use]
pub fn parse_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut units = UNITS.as_slice();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let at = units.iter().position(|(name, _)| *name == unit)?;
        let ms = number.parse::<u64>().ok()?.checked_mul(units[at].1)?;
        total = total.checked_add(ms)?;
        units = &units[at + 1..];
        rest = after.trim_start();
    }
    Some(total)
}

/// The shortest way to write a duration, for messages.
#[must_use]
pub fn write_ms(ms: u64) -> String {
    let mut out = String::new();
    let mut rest = ms;
    for (unit, size) in UNITS {
        if rest >= size {
            out.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}
