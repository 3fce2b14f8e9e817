//! Where the repository is.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The folder with the Makefile. Cargo says where this crate lies when it runs it, also after the checkout was moved.
pub fn root() -> Result<PathBuf> {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let parent = crate_folder.parent().unwrap_or_else(|| Path::new("."));
    parent
        .canonicalize()
        .with_context(|| format!("look for the repository at {}", parent.display()))
}
