-- Who may administer: people, tokens of programs, and the sessions of people.

CREATE TABLE admin_users (
    id            TEXT   NOT NULL PRIMARY KEY,
    name          TEXT   NOT NULL UNIQUE,
    password_hash TEXT   NOT NULL,
    role          TEXT   NOT NULL CHECK (role IN ('viewer', 'operator', 'owner')),
    tenant_id     TEXT   REFERENCES tenants (id) ON DELETE CASCADE,
    status        TEXT   NOT NULL CHECK (status IN ('active', 'suspended')),
    created_at    BIGINT NOT NULL,
    created_by    TEXT   NOT NULL,
    updated_at    BIGINT NOT NULL,
    last_login_at BIGINT,
    revision      BIGINT NOT NULL
);
CREATE INDEX admin_users_tenant ON admin_users (tenant_id, name);
CREATE INDEX admin_users_owners ON admin_users (role, status);

CREATE TABLE admin_tokens (
    id           TEXT   NOT NULL PRIMARY KEY,
    name         TEXT   NOT NULL,
    token_hash   TEXT   NOT NULL UNIQUE,
    role         TEXT   NOT NULL CHECK (role IN ('viewer', 'operator', 'owner')),
    tenant_id    TEXT   REFERENCES tenants (id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    created_by   TEXT   NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT,
    revision     BIGINT NOT NULL
);
CREATE INDEX admin_tokens_tenant ON admin_tokens (tenant_id, id);

-- `hash` is of the secret in the cookie. A session ends when nobody has used it until
-- `idle_ends_at`, and at `ends_at` in any case.
CREATE TABLE admin_sessions (
    hash         TEXT   NOT NULL PRIMARY KEY,
    id           TEXT   NOT NULL UNIQUE,
    user_id      TEXT   REFERENCES admin_users (id) ON DELETE CASCADE,
    data         TEXT   NOT NULL,
    address      TEXT,
    user_agent   TEXT,
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
    token_hash TEXT   NOT NULL PRIMARY KEY,
    ends_at    BIGINT NOT NULL
);
