//! Puts the pages of the error codes into the executable, with their titles.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked for when it runs: a build folder may be moved to another checkout.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?;
    let folder = Path::new(&here).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("WL-") {
            let text = std::fs::read_to_string(&path)?;
            let title = text.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, title)| title);
            pages.push((name, title.to_owned(), text));
        }
    }
    pages.sort();
    let mut code = "[".to_owned();
    for (name, title, text) in &pages {
        write!(code, "({name:?}, {title:?}, {text:?}),")?;
    }
    code.push(']');
    let out = std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    std::fs::write(Path::new(&out).join("errors.rs"), code)?;
    Ok(())
}
