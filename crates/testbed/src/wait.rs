//! Waiting for a condition, never for a guessed time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::paths::Paths;
use crate::process;

/// How often a condition is looked at. Short, because every wait of a start adds up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until `ready` gives a value; errors only mean "not yet". A timeout names `what` and the last reason.
pub fn until<T>(what: &str, timeout: Duration, ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    look(what, timeout, ready, || Ok(()))
}

/// Waits for something a component does. Ends at once when the component has ended; either way the error names its log.
pub fn for_component<T>(
    paths: &Paths,
    component: &str,
    what: &str,
    timeout: Duration,
    ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let log = paths.log(component);
    look(what, timeout, ready, || {
        if !process::running(paths, component) {
            bail!("waited for {what}, but {component} has ended");
        }
        Ok(())
    })
    .with_context(|| format!("read {}", log.display()))
}

fn look<T>(
    what: &str,
    timeout: Duration,
    mut ready: impl FnMut() -> Result<Option<T>>,
    hope: impl Fn() -> Result<()>,
) -> Result<T> {
    let started = Instant::now();
    let mut last = None;
    loop {
        match ready() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        hope()?;
        if started.elapsed() > timeout {
            let reason = last.map_or_else(String::new, |error| format!("; last seen: {error:#}"));
            bail!("waited {} s for {what} in vain{reason}", timeout.as_secs());
        }
        sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_names_what_was_waited_for() {
        let error = until("the moon", Duration::ZERO, || -> Result<Option<()>> {
            bail!("cloudy")
        })
        .unwrap_err()
        .to_string();
        assert!(error.contains("the moon") && error.contains("cloudy"));
    }

    #[test]
    fn a_dead_component_ends_the_wait_and_its_log_is_named() {
        let paths = Paths::at("/nowhere").unwrap();
        let error =
            for_component(&paths, "sun", "light", Duration::from_hours(1), || Ok(None::<()>)).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("sun has ended") && error.contains("/nowhere/.testbed/run/logs/sun.log"));
    }
}
