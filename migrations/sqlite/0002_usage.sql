-- What was called, by whom, and what became of it; and the recent refusals themselves.

-- One row for each agent, tool and bucket of time. `bucket` is when it begins, in UTC. An
-- empty `agent_id` stands for callers that nobody identified, and for those beyond the cap
-- of what one process counts apart; an empty `tool` for requests that call no known tool.
-- The indexes of rows with refusals hold all that the search for the most refused needs.
-- No foreign keys: what happened stays true when a tenant is gone, and retention ends it.
CREATE TABLE usage_minute (
    tenant_id       TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket, tool)
);
CREATE INDEX usage_minute_bucket ON usage_minute (bucket);
CREATE INDEX usage_minute_throttled ON usage_minute (bucket, tenant_id, agent_id, tool, throttled) WHERE throttled > 0;
CREATE INDEX usage_minute_tenant_throttled ON usage_minute
    (tenant_id, bucket, agent_id, tool, throttled) WHERE throttled > 0;

CREATE TABLE usage_hour (
    tenant_id       TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket, tool)
);
CREATE INDEX usage_hour_bucket ON usage_hour (bucket);
CREATE INDEX usage_hour_throttled ON usage_hour (bucket, tenant_id, agent_id, tool, throttled) WHERE throttled > 0;
CREATE INDEX usage_hour_tenant_throttled ON usage_hour
    (tenant_id, bucket, agent_id, tool, throttled) WHERE throttled > 0;

CREATE TABLE usage_day (
    tenant_id       TEXT   NOT NULL,
    agent_id        TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket, tool)
);
CREATE INDEX usage_day_bucket ON usage_day (bucket);
CREATE INDEX usage_day_throttled ON usage_day (bucket, tenant_id, agent_id, tool, throttled) WHERE throttled > 0;
CREATE INDEX usage_day_tenant_throttled ON usage_day
    (tenant_id, bucket, agent_id, tool, throttled) WHERE throttled > 0;

-- The same, summed over the agents of a tenant, and under the tenant `*` over everybody:
-- totals and charts read a row for each tool, however many agents there are.
CREATE TABLE usage_sum_minute (
    tenant_id       TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, bucket, tool)
);
CREATE INDEX usage_sum_minute_bucket ON usage_sum_minute (bucket);

CREATE TABLE usage_sum_hour (
    tenant_id       TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, bucket, tool)
);
CREATE INDEX usage_sum_hour_bucket ON usage_sum_hour (bucket);

CREATE TABLE usage_sum_day (
    tenant_id       TEXT   NOT NULL,
    bucket          BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    calls           BIGINT NOT NULL DEFAULT 0,
    ok              BIGINT NOT NULL DEFAULT 0,
    errors          BIGINT NOT NULL DEFAULT 0,
    denied          BIGINT NOT NULL DEFAULT 0,
    throttled       BIGINT NOT NULL DEFAULT 0,
    would_throttle  BIGINT NOT NULL DEFAULT 0,
    ignored_waits   BIGINT NOT NULL DEFAULT 0,
    by_server       BIGINT NOT NULL DEFAULT 0,
    by_tenant       BIGINT NOT NULL DEFAULT 0,
    by_agent        BIGINT NOT NULL DEFAULT 0,
    by_tool         BIGINT NOT NULL DEFAULT 0,
    by_rate         BIGINT NOT NULL DEFAULT 0,
    by_concurrency  BIGINT NOT NULL DEFAULT 0,
    by_cost         BIGINT NOT NULL DEFAULT 0,
    by_overload     BIGINT NOT NULL DEFAULT 0,
    latency_us      BIGINT NOT NULL DEFAULT 0,
    latency_1       BIGINT NOT NULL DEFAULT 0,
    latency_2       BIGINT NOT NULL DEFAULT 0,
    latency_3       BIGINT NOT NULL DEFAULT 0,
    latency_4       BIGINT NOT NULL DEFAULT 0,
    latency_5       BIGINT NOT NULL DEFAULT 0,
    latency_6       BIGINT NOT NULL DEFAULT 0,
    latency_7       BIGINT NOT NULL DEFAULT 0,
    latency_8       BIGINT NOT NULL DEFAULT 0,
    latency_9       BIGINT NOT NULL DEFAULT 0,
    latency_10      BIGINT NOT NULL DEFAULT 0,
    latency_11      BIGINT NOT NULL DEFAULT 0,
    latency_12      BIGINT NOT NULL DEFAULT 0,
    attempts_1      BIGINT NOT NULL DEFAULT 0,
    attempts_2      BIGINT NOT NULL DEFAULT 0,
    attempts_3      BIGINT NOT NULL DEFAULT 0,
    attempts_4      BIGINT NOT NULL DEFAULT 0,
    attempts_5      BIGINT NOT NULL DEFAULT 0,
    attempts_6      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, bucket, tool)
);
CREATE INDEX usage_sum_day_bucket ON usage_sum_day (bucket);

-- How far the batches of each writing process are in, so that one that is sent again after
-- a lost answer is not counted twice.
CREATE TABLE usage_writers (
    id  TEXT   NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    at  BIGINT NOT NULL
);
CREATE INDEX usage_writers_at ON usage_writers (at);

-- Refusals (sampled when one agent floods; `count` says for how many a row stands) and
-- changes of state. Kept by time and number.
CREATE TABLE events (
    id             TEXT   NOT NULL PRIMARY KEY,
    at             BIGINT NOT NULL,
    kind           TEXT   NOT NULL CHECK (kind IN ('throttled', 'denied', 'state')),
    tenant_id      TEXT,
    agent_id       TEXT,
    tool           TEXT,
    scope          TEXT,
    reason         TEXT   NOT NULL,
    detail         TEXT   NOT NULL,
    retry_after_ms BIGINT,
    request_id     TEXT,
    count          BIGINT NOT NULL
);
CREATE INDEX events_at ON events (at);
CREATE INDEX events_tenant ON events (tenant_id, id);
CREATE INDEX events_agent ON events (tenant_id, agent_id, id);
