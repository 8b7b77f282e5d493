//! The panel as a browser sees it: requests to its router, on a real database.

mod actions;
mod door;
mod harness;
mod pages;
mod reach;
mod routes;
