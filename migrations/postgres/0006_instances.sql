-- The servers that run on the database. Each writes its row every few seconds and removes it
-- when it stops; one whose row is old has ended without saying so.
CREATE TABLE instances (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    address    TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    revision   BIGINT NOT NULL,
    draining   BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL
);
CREATE INDEX instances_seen ON instances (seen_at);
