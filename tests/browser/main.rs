//! The panel as people see it: Debian's Chromium in front of real servers.
//!
//! Needs `chromium` and `chromedriver`; without them a test says so and passes, unless `SLUICEGATE_TEST_STRICT` is set.
//! `SLUICEGATE_TEST_AXE` names the file `axe.min.js` of axe-core, which `scripts/test` brings.

mod actions;
mod browser;
mod chromium;
mod forms;
mod journey;
mod keyboard;
mod looks;
mod seeded;
