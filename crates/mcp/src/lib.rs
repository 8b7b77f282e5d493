//! Sluicegate mcp.
