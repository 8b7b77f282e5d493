-- Tenants, agents, API keys, plans, limits, tools, audit and the change feed.
-- The same model as sqlite/0001; see ../README.md for the rules both follow.

-- One row. Every change updates it first, so it is the lock that puts changes in
-- one order, the revision the change feed counts by, and the head of the audit chain.
CREATE TABLE control_state (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision   BIGINT  NOT NULL,
    audit_seq  BIGINT  NOT NULL,
    audit_hash TEXT COLLATE "C" NOT NULL
);
INSERT INTO control_state (id, revision, audit_seq, audit_hash)
VALUES (1, 0, 0, '0000000000000000000000000000000000000000000000000000000000000000');

CREATE TABLE plans (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    note       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);
CREATE INDEX plans_revision ON plans (revision);

CREATE TABLE tenants (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    slug       TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'suspended')),
    plan_id    TEXT COLLATE "C" REFERENCES plans (id) ON DELETE RESTRICT,
    settings   TEXT COLLATE "C" NOT NULL,
    metadata   TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);
CREATE INDEX tenants_plan ON tenants (plan_id, slug);
CREATE INDEX tenants_revision ON tenants (revision);

CREATE TABLE agents (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant_id    TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name         TEXT COLLATE "C" NOT NULL,
    status       TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'suspended')),
    origin       TEXT COLLATE "C" NOT NULL CHECK (origin IN ('created', 'first_sight')),
    created_at   BIGINT NOT NULL,
    last_seen_at BIGINT,
    revision     BIGINT NOT NULL,
    UNIQUE (tenant_id, name),
    UNIQUE (tenant_id, id)
);
CREATE INDEX agents_revision ON agents (revision);
CREATE INDEX agents_suspended ON agents (id) WHERE status = 'suspended';

CREATE TABLE api_keys (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant_id    TEXT COLLATE "C" NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    agent_id     TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    environment  TEXT COLLATE "C" NOT NULL,
    secret_hash  TEXT COLLATE "C" NOT NULL,
    scopes       TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    created_by   TEXT COLLATE "C" NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT,
    rotated_from TEXT COLLATE "C" REFERENCES api_keys (id) ON DELETE SET NULL,
    revision     BIGINT NOT NULL,
    UNIQUE (tenant_id, agent_id, id),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
CREATE INDEX api_keys_rotated_from ON api_keys (rotated_from);
CREATE INDEX api_keys_revision ON api_keys (revision);

-- `target` is the text form of the scope and its columns; it exists because NULLs
-- are distinct to a unique index. A temporary entry (one with an end) lies over the
-- lasting one of the same target and kind, which is in force again when it ends.
CREATE TABLE limits (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    target     TEXT COLLATE "C" NOT NULL,
    scope      TEXT COLLATE "C" NOT NULL CHECK (scope IN ('server', 'tenant', 'agent', 'key', 'tool',
                   'tenant_tool', 'agent_tool', 'plan', 'plan_agent', 'plan_tool')),
    tenant_id  TEXT COLLATE "C" REFERENCES tenants (id) ON DELETE CASCADE,
    agent_id   TEXT COLLATE "C",
    key_id     TEXT COLLATE "C",
    plan_id    TEXT COLLATE "C" REFERENCES plans (id) ON DELETE CASCADE,
    tool       TEXT COLLATE "C",
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('rate', 'concurrency')),
    quotas     TEXT COLLATE "C",
    burst      BIGINT  CHECK (burst > 0),
    algorithm  TEXT COLLATE "C",
    per        TEXT COLLATE "C",
    cap        BIGINT  CHECK (cap > 0),
    mode       TEXT COLLATE "C" NOT NULL,
    temporary  BOOLEAN NOT NULL,
    expires_at BIGINT,
    note       TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    updated_by TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL,
    UNIQUE (target, kind, temporary),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, agent_id, key_id)
        REFERENCES api_keys (tenant_id, agent_id, id) ON DELETE CASCADE,
    CHECK (temporary = (expires_at IS NOT NULL)),
    CHECK ((tenant_id IS NOT NULL) = (scope IN ('tenant', 'agent', 'key', 'tenant_tool', 'agent_tool'))),
    CHECK ((agent_id IS NOT NULL) = (scope IN ('agent', 'key', 'agent_tool'))),
    CHECK ((key_id IS NOT NULL) = (scope = 'key')),
    CHECK ((plan_id IS NOT NULL) = (scope IN ('plan', 'plan_agent', 'plan_tool'))),
    CHECK ((tool IS NOT NULL) = (scope IN ('tool', 'tenant_tool', 'agent_tool', 'plan_tool'))),
    CHECK ((kind = 'rate') = (quotas IS NOT NULL)),
    CHECK ((kind = 'concurrency') = (cap IS NOT NULL)),
    CHECK (kind = 'rate' OR (burst IS NULL AND algorithm IS NULL AND per IS NULL))
);
CREATE INDEX limits_tenant ON limits (tenant_id, target, kind, temporary);
CREATE INDEX limits_agent ON limits (tenant_id, agent_id, key_id);
CREATE INDEX limits_plan ON limits (plan_id, target, kind, temporary);
CREATE INDEX limits_with_agent ON limits (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX limits_revision ON limits (revision);

CREATE TABLE tools (
    name            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    title           TEXT COLLATE "C",
    description     TEXT COLLATE "C",
    input_schema    TEXT COLLATE "C" NOT NULL,
    declared_limits TEXT COLLATE "C" NOT NULL,
    first_seen_at   BIGINT NOT NULL,
    last_seen_at    BIGINT NOT NULL
);

-- What was deleted, for instances that load only what changed since a revision. The
-- tombstone of a tenant or a plan stands for everything inside it.
CREATE TABLE tombstones (
    kind     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('tenant', 'plan', 'limit')),
    id       TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX tombstones_revision ON tombstones (revision);

-- Append-only. No foreign keys: an entry outlives what it speaks of.
CREATE TABLE audit_log (
    seq           BIGINT NOT NULL PRIMARY KEY,
    id            TEXT COLLATE "C" NOT NULL UNIQUE,
    at            BIGINT NOT NULL,
    actor         TEXT COLLATE "C" NOT NULL,
    action        TEXT COLLATE "C" NOT NULL,
    target        TEXT COLLATE "C" NOT NULL,
    tenant_id     TEXT COLLATE "C",
    before        TEXT COLLATE "C",
    after         TEXT COLLATE "C",
    address       TEXT COLLATE "C",
    request_id    TEXT COLLATE "C",
    previous_hash TEXT COLLATE "C" NOT NULL,
    hash          TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, seq);
