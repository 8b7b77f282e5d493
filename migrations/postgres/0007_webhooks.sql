-- What webhooks are to be told, and what became of it. A row is written in the transaction in which its alert begins or
-- ends. `due_at` is when the next attempt may begin, and null when there is none: it is delivered, or given up.

CREATE TABLE webhook_deliveries (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    rule_id      TEXT COLLATE "C" NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    alert_id     TEXT COLLATE "C" NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    event        TEXT COLLATE "C" NOT NULL CHECK (event IN ('alert.began', 'alert.ended')),
    body         TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    attempts     BIGINT NOT NULL,
    due_at       BIGINT,
    delivered_at BIGINT,
    status       BIGINT,
    error        TEXT COLLATE "C",
    CHECK (due_at IS NULL OR delivered_at IS NULL)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at);
CREATE INDEX webhook_deliveries_alert ON webhook_deliveries (alert_id, id);
CREATE INDEX webhook_deliveries_rule ON webhook_deliveries (rule_id);
