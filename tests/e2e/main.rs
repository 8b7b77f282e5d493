//! What callers and operators see, from outside, on both databases.

mod authentication;
mod bypass;
mod command_line;
mod concurrency;
mod connections;
mod mcp_clients;
mod processes;
mod reload;
mod several_servers;
mod throttling;
mod tools;
mod wording;
