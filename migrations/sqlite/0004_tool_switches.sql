-- Tools that are switched off (or on again), everywhere (`scope` is empty) or for one
-- tenant (`scope` is its id). Rows stay, so that a change is found by its revision.
CREATE TABLE tool_switches (
    tool       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    tenant_id  TEXT    REFERENCES tenants (id) ON DELETE CASCADE,
    enabled    BOOLEAN NOT NULL,
    updated_by TEXT    NOT NULL,
    updated_at BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL,
    PRIMARY KEY (tool, scope),
    CHECK ((tenant_id IS NULL) = (scope = ''))
);
CREATE INDEX tool_switches_scope ON tool_switches (scope, tool);
CREATE INDEX tool_switches_tenant ON tool_switches (tenant_id);
CREATE INDEX tool_switches_revision ON tool_switches (revision);
