//! What callers and operators see, from outside, on both databases.

mod api;
mod asking;
mod authentication;
mod bypass;
mod callers;
mod command_line;
mod concurrency;
mod connections;
mod hostile;
mod mcp_clients;
mod processes;
mod reload;
mod repeated;
mod rmcp_handlers;
mod sessions;
mod several_servers;
mod streaming;
mod stub_servers;
mod throttling;
mod tools;
mod usage;
mod wording;
