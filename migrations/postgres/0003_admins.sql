-- Who may administer: people, tokens of programs, and the sessions of people.

CREATE TABLE admin_users (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name          TEXT COLLATE "C" NOT NULL UNIQUE,
    password_hash TEXT COLLATE "C" NOT NULL,
    role          TEXT COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'owner')),
    tenant_id     TEXT COLLATE "C" REFERENCES tenants (id) ON DELETE CASCADE,
    status        TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'suspended')),
    created_at    BIGINT NOT NULL,
    created_by    TEXT COLLATE "C" NOT NULL,
    updated_at    BIGINT NOT NULL,
    last_login_at BIGINT,
    revision      BIGINT NOT NULL
);
CREATE INDEX admin_users_tenant ON admin_users (tenant_id, name);
CREATE INDEX admin_users_owners ON admin_users (role, status);

CREATE TABLE admin_tokens (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL,
    token_hash   TEXT COLLATE "C" NOT NULL UNIQUE,
    role         TEXT COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'owner')),
    tenant_id    TEXT COLLATE "C" REFERENCES tenants (id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    created_by   TEXT COLLATE "C" NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT,
    revision     BIGINT NOT NULL
);
CREATE INDEX admin_tokens_tenant ON admin_tokens (tenant_id, id);

-- `hash` is of the secret in the cookie. A session ends when nobody has used it until
-- `idle_ends_at`, and at `ends_at` in any case.
CREATE TABLE admin_sessions (
    hash         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    user_id      TEXT COLLATE "C" REFERENCES admin_users (id) ON DELETE CASCADE,
    data         TEXT COLLATE "C" NOT NULL,
    address      TEXT COLLATE "C",
    user_agent   TEXT COLLATE "C",
    created_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    idle_ends_at BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL
);
CREATE INDEX admin_sessions_user ON admin_sessions (user_id, id);
CREATE INDEX admin_sessions_idle ON admin_sessions (idle_ends_at);
CREATE INDEX admin_sessions_end ON admin_sessions (ends_at);

-- One-time links to create the first owner, as hashes. All are void once there is one.
CREATE TABLE admin_setup (
    token_hash TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    ends_at    BIGINT NOT NULL
);
