//! What callers of upstreams and of MCP servers see, on paused time.

mod answers;
mod attempts;
mod breaker;
mod budget;
mod caller;
mod idempotency;
mod observed;
mod scripted;
mod spread;
