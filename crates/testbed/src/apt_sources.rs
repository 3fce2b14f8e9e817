//! The machine's own Debian mirror. No host name is written in this repository: it is read from apt at run time.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// One place packages come from, in the terms of either file format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where the archive is.
    pub address: String,
    /// The suites taken from it.
    pub suites: Vec<String>,
    /// The parts of the archive taken from it.
    pub components: Vec<String>,
}

/// The mirror this machine takes Debian itself from.
pub fn mirror() -> Result<String> {
    let codename = codename(&fs::read_to_string("/etc/os-release").context("read /etc/os-release")?)
        .context("/etc/os-release names no VERSION_CODENAME: is this Debian?")?;
    let mut sources = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        if Path::new(&path)
            .extension()
            .is_some_and(|extension| extension == "sources")
        {
            sources.extend(parse_deb822(&text));
        } else {
            sources.extend(parse_lines(&text));
        }
    }
    match choose(&sources, &codename) {
        Some(address) => Ok(address.to_owned()),
        None => bail!("apt's sources name no mirror for Debian {codename} main"),
    }
}

fn files() -> Vec<String> {
    let mut files = vec!["/etc/apt/sources.list".to_owned()];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut more: Vec<String> = folder
            .flatten()
            .map(|entry| entry.path().to_string_lossy().into_owned())
            .collect();
        more.sort();
        files.extend(more);
    }
    files.retain(|file| {
        let path = Path::new(file);
        path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == "list" || extension == "sources")
    });
    files
}

/// The release's name as `/etc/os-release` gives it.
fn codename(os_release: &str) -> Option<String> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
}

/// The archive that has the release itself: security and vendors' archives have other suites.
fn choose<'a>(sources: &'a [Source], codename: &str) -> Option<&'a str> {
    sources
        .iter()
        .find(|source| {
            source.suites.iter().any(|suite| suite == codename)
                && source.components.iter().any(|part| part == "main")
        })
        .map(|source| source.address.trim_end_matches('/'))
}

/// Reads the one-line format: `deb [options] address suite component…`.
#[must_use]
pub fn parse_lines(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?.trim_start();
    // `deb-src` and words that only begin like it are not binary archives.
    if rest.len() == line.len() - 3 {
        return None;
    }
    if let Some(options) = rest.strip_prefix('[') {
        rest = options.split_once(']')?.1.trim_start();
    }
    let mut words = rest.split_whitespace();
    Some(Source {
        address: words.next()?.to_owned(),
        suites: vec![words.next()?.to_owned()],
        components: words.map(str::to_owned).collect(),
    })
}

/// Reads the deb822 format: paragraphs of `Field: value` with continuation lines.
#[must_use]
pub fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for paragraph in lines.split(|line| line.trim().is_empty()) {
        let field = |name: &str| field(paragraph, name);
        if !field("types").iter().any(|kind| kind == "deb") || field("enabled").iter().any(|yes| yes == "no")
        {
            continue;
        }
        for address in field("uris") {
            sources.push(Source {
                address,
                suites: field("suites"),
                components: field("components"),
            });
        }
    }
    sources
}

fn field(paragraph: &[&str], name: &str) -> Vec<String> {
    let mut inside = false;
    let mut words = Vec::new();
    for line in paragraph {
        let value = if line.starts_with([' ', '\t']) {
            line
        } else if let Some((field, value)) = line.split_once(':') {
            inside = field.trim().eq_ignore_ascii_case(name);
            value
        } else {
            continue;
        };
        if inside {
            words.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_line_sources() {
        let sources = parse_lines(
            "# comment\n\
             deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # tail\n\
             deb-src http://mirror.example/debian bookworm main\n\
             \n\
             deb http://vendor.example/apt tool-bookworm main\n",
        );
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].address, "http://mirror.example/debian");
        assert_eq!(sources[0].components, ["main", "contrib"]);
        assert_eq!(sources[1].suites, ["tool-bookworm"]);
    }

    #[test]
    fn reads_deb822_sources() {
        let sources = parse_deb822(
            "Types: deb deb-src\n\
             # http://snapshot.example/\n\
             URIs: http://mirror.example/debian/\n\
             Suites: bookworm\n bookworm-updates\n\
             Components: main\n\
             Signed-By:\n -----BEGIN PGP-----\n .\n\
             \n\
             Types: deb\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n\
             \n\
             Types: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\n",
        );
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(choose(&sources, "bookworm"), Some("http://mirror.example/debian"));
    }

    #[test]
    fn security_and_vendor_archives_are_not_the_mirror() {
        let sources = parse_lines(
            "deb http://a.example/debian-security bookworm-security main\n\
             deb http://b.example/apt cloud-bookworm main\n\
             deb http://c.example/debian bookworm contrib\n",
        );
        assert_eq!(choose(&sources, "bookworm"), None);
    }

    #[test]
    fn reads_the_release_name() {
        assert_eq!(
            codename("NAME=\"Debian\"\nVERSION_CODENAME=bookworm\n").as_deref(),
            Some("bookworm")
        );
    }
}
