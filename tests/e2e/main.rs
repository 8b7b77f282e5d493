//! What callers and operators see, from outside, on both databases.

mod asking;
mod authentication;
mod bypass;
mod command_line;
mod concurrency;
mod connections;
mod draining;
mod mcp_clients;
mod metrics;
mod observing;
mod priorities;
mod processes;
mod proxies;
mod reload;
mod rmcp_handlers;
mod sessions;
mod settings_files;
mod several_servers;
mod streaming;
mod streams;
mod throttling;
mod tools;
mod wording;
