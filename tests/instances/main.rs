//! Several servers that share their limits through Redis: what they let through together, whatever happens to them.
//!
//! Faults are done to servers that the tests have started themselves. Loads last ten seconds;
//! `SLUICEGATE_TEST_LOAD_SECONDS=60` makes them longer.

/// Prints a figure, which is seen with `--nocapture`.
macro_rules! say {
    ($($figure:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($figure)*);
    }};
}

mod clocks;
mod decisions;
mod fairness;
mod faults;
mod fleet;
mod load;
mod nodes;
mod operator;
mod outages;
mod outcome;
mod reloading;
mod slots;
mod statistics;
