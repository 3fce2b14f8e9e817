//! The ledger on disk, so that another process can verify it later.
//!
//! One line of JSON that says whose it is, then one line per key (`index generation attempted
//! acknowledged replicated`), then `end` and their number: a file that was cut short is refused.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ledger::{Entry, Promises};
use crate::value::RunId;

const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    format: u32,
    run: String,
    prefix: String,
    acknowledged: u64,
    replicated: u64,
}

/// A ledger read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The run that wrote the values.
    pub run: RunId,
    /// The prefix of its keys.
    pub prefix: String,
    /// What has to be there.
    pub promises: Promises,
}

/// Writes a ledger beside its final place and moves it there, so that a reader never sees half.
pub fn save(path: &Path, saved: &Saved) -> io::Result<()> {
    let head = Head {
        format: FORMAT,
        run: saved.run.to_string(),
        prefix: saved.prefix.clone(),
        acknowledged: saved.promises.acknowledged,
        replicated: saved.promises.replicated,
    };
    let mut text = serde_json::to_string(&head)?;
    text.push('\n');
    for Entry {
        index,
        generation,
        attempted,
        acknowledged,
        replicated,
    } in &saved.promises.entries
    {
        let _ = writeln!(
            text,
            "{index} {generation} {attempted} {acknowledged} {replicated}"
        );
    }
    let _ = writeln!(text, "end {}", saved.promises.entries.len());

    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = std::fs::File::create(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(partial, path)
}

/// Reads a ledger that `save` wrote.
pub fn load(path: &Path) -> io::Result<Saved> {
    let mut lines = BufReader::new(std::fs::File::open(path)?).lines();
    let first = lines.next().ok_or_else(|| invalid("the file is empty"))??;
    let head: Head = serde_json::from_str(&first).map_err(|_| invalid("the first line is not a ledger's"))?;
    if head.format != FORMAT {
        return Err(invalid("written by another version of this tool"));
    }
    let run = RunId::parse(&head.run).ok_or_else(|| invalid("the run id cannot be read"))?;
    let mut entries = Vec::new();
    for line in lines {
        let line = line?;
        if let Some(count) = line.strip_prefix("end ") {
            if count.parse() != Ok(entries.len()) {
                return Err(invalid("lines are missing"));
            }
            let promises = Promises {
                entries,
                acknowledged: head.acknowledged,
                replicated: head.replicated,
            };
            return Ok(Saved {
                run,
                prefix: head.prefix,
                promises,
            });
        }
        entries.push(parse_entry(&line).ok_or_else(|| invalid("a line cannot be read"))?);
    }
    Err(invalid("the file was cut short"))
}

fn parse_entry(line: &str) -> Option<Entry> {
    let mut numbers = line.split(' ').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let entry = Entry {
        index: next()?,
        generation: next()?,
        attempted: next()?,
        acknowledged: next()?,
        replicated: next()?,
    };
    next().is_none().then_some(entry)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("foreshard-load-{}-{name}", std::process::id()))
    }

    fn sample() -> Saved {
        let entry = |index| Entry {
            index,
            generation: 1,
            attempted: 9,
            acknowledged: 8,
            replicated: 7,
        };
        Saved {
            run: RunId::generate(),
            prefix: "load".into(),
            promises: Promises {
                entries: vec![entry(0), entry(5)],
                acknowledged: 16,
                replicated: 14,
            },
        }
    }

    #[test]
    fn a_ledger_comes_back() {
        let path = temporary("round-trip");
        let saved = sample();
        save(&path, &saved).unwrap();
        assert_eq!(load(&path).unwrap(), saved);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_cut_file_is_refused() {
        let path = temporary("cut");
        save(&path, &sample()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for lines in 0..text.lines().count() {
            let cut: Vec<&str> = text.lines().take(lines).collect();
            std::fs::write(&path, cut.join("\n")).unwrap();
            assert!(load(&path).is_err(), "{lines} lines");
        }
        std::fs::remove_file(path).unwrap();
    }
}
