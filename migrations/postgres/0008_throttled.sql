-- How often each agent was throttled over all tools, by the bucket: who is throttled most, and who runs away, is found in
-- these few rows. Agents that were not have none. `agent_id` is empty as in the tables of usage.
CREATE TABLE usage_throttled_minute (
    tenant_id     TEXT COLLATE "C" NOT NULL,
    agent_id      TEXT COLLATE "C" NOT NULL,
    bucket        BIGINT NOT NULL,
    throttled     BIGINT NOT NULL DEFAULT 0,
    ignored_waits BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket)
);
CREATE INDEX usage_throttled_minute_bucket ON usage_throttled_minute (bucket, tenant_id, agent_id, throttled, ignored_waits);
CREATE INDEX usage_throttled_minute_tenant ON usage_throttled_minute (tenant_id, bucket, agent_id, throttled, ignored_waits);
INSERT INTO usage_throttled_minute (tenant_id, agent_id, bucket, throttled, ignored_waits)
    SELECT tenant_id, agent_id, bucket, CAST(SUM(throttled) AS BIGINT), CAST(SUM(ignored_waits) AS BIGINT)
    FROM usage_minute WHERE throttled > 0 GROUP BY tenant_id, agent_id, bucket;

CREATE TABLE usage_throttled_hour (
    tenant_id     TEXT COLLATE "C" NOT NULL,
    agent_id      TEXT COLLATE "C" NOT NULL,
    bucket        BIGINT NOT NULL,
    throttled     BIGINT NOT NULL DEFAULT 0,
    ignored_waits BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket)
);
CREATE INDEX usage_throttled_hour_bucket ON usage_throttled_hour (bucket, tenant_id, agent_id, throttled, ignored_waits);
CREATE INDEX usage_throttled_hour_tenant ON usage_throttled_hour (tenant_id, bucket, agent_id, throttled, ignored_waits);
INSERT INTO usage_throttled_hour (tenant_id, agent_id, bucket, throttled, ignored_waits)
    SELECT tenant_id, agent_id, bucket, CAST(SUM(throttled) AS BIGINT), CAST(SUM(ignored_waits) AS BIGINT)
    FROM usage_hour WHERE throttled > 0 GROUP BY tenant_id, agent_id, bucket;

CREATE TABLE usage_throttled_day (
    tenant_id     TEXT COLLATE "C" NOT NULL,
    agent_id      TEXT COLLATE "C" NOT NULL,
    bucket        BIGINT NOT NULL,
    throttled     BIGINT NOT NULL DEFAULT 0,
    ignored_waits BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, agent_id, bucket)
);
CREATE INDEX usage_throttled_day_bucket ON usage_throttled_day (bucket, tenant_id, agent_id, throttled, ignored_waits);
CREATE INDEX usage_throttled_day_tenant ON usage_throttled_day (tenant_id, bucket, agent_id, throttled, ignored_waits);
INSERT INTO usage_throttled_day (tenant_id, agent_id, bucket, throttled, ignored_waits)
    SELECT tenant_id, agent_id, bucket, CAST(SUM(throttled) AS BIGINT), CAST(SUM(ignored_waits) AS BIGINT)
    FROM usage_day WHERE throttled > 0 GROUP BY tenant_id, agent_id, bucket;

-- Who is refused one tool is still looked for among the rows of usage, but only among those of the tool.
DROP INDEX usage_minute_throttled;
DROP INDEX usage_minute_tenant_throttled;
CREATE INDEX usage_minute_tool_throttled ON usage_minute (tool, bucket, tenant_id, agent_id, throttled) WHERE throttled > 0;
CREATE INDEX usage_minute_tenant_tool_throttled ON usage_minute
    (tenant_id, tool, bucket, agent_id, throttled) WHERE throttled > 0;
DROP INDEX usage_hour_throttled;
DROP INDEX usage_hour_tenant_throttled;
CREATE INDEX usage_hour_tool_throttled ON usage_hour (tool, bucket, tenant_id, agent_id, throttled) WHERE throttled > 0;
CREATE INDEX usage_hour_tenant_tool_throttled ON usage_hour
    (tenant_id, tool, bucket, agent_id, throttled) WHERE throttled > 0;
DROP INDEX usage_day_throttled;
DROP INDEX usage_day_tenant_throttled;
CREATE INDEX usage_day_tool_throttled ON usage_day (tool, bucket, tenant_id, agent_id, throttled) WHERE throttled > 0;
CREATE INDEX usage_day_tenant_tool_throttled ON usage_day
    (tenant_id, tool, bucket, agent_id, throttled) WHERE throttled > 0;

-- The calls of a page of tenants over a day are read from this alone.
CREATE INDEX usage_sum_hour_calls ON usage_sum_hour (tenant_id, bucket, tool, calls, throttled);

-- Rows that were moved are not known to the planner yet.
ANALYZE usage_throttled_minute;
ANALYZE usage_throttled_hour;
ANALYZE usage_throttled_day;
