-- What operators want to be told of, and what there was to tell.

CREATE TABLE alert_rules (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('throttling', 'runaway', 'engine_degraded', 'breaker_open')),
    tenant_id  TEXT    REFERENCES tenants (id) ON DELETE CASCADE,
    tool       TEXT,
    threshold  BIGINT  NOT NULL,
    minutes    BIGINT  NOT NULL,
    enabled    BOOLEAN NOT NULL,
    webhook    TEXT,
    secret     TEXT,
    created_by TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL,
    CHECK ((webhook IS NULL) = (secret IS NULL))
);
CREATE INDEX alert_rules_tenant ON alert_rules (tenant_id, id);

-- `open` is the rule and the subject while the alert lasts, so that a subject has one at a
-- time whoever evaluates; it is null afterwards.
CREATE TABLE alerts (
    id         TEXT   NOT NULL PRIMARY KEY,
    rule_id    TEXT   NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    tenant_id  TEXT   REFERENCES tenants (id) ON DELETE CASCADE,
    agent_id   TEXT,
    subject    TEXT   NOT NULL,
    open       TEXT   UNIQUE,
    message    TEXT   NOT NULL,
    value      BIGINT NOT NULL,
    began_at   BIGINT NOT NULL,
    ended_at   BIGINT
);
CREATE INDEX alerts_rule ON alerts (rule_id, id);
CREATE INDEX alerts_tenant ON alerts (tenant_id, id);
CREATE INDEX alerts_ended ON alerts (ended_at);
