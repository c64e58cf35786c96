-- One row. Every write locks it first and adds one, so that the order of revisions is the order of commits. The random id tells
-- one history from another: after a restore the same number comes back with a different id.
CREATE TABLE head (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    revision bigint NOT NULL CHECK (revision >= 0),
    id uuid NOT NULL
);
INSERT INTO head (revision, id) VALUES (0, gen_random_uuid());

-- Every write there ever was, and who made it.
CREATE TABLE revisions (
    revision bigint PRIMARY KEY,
    id uuid NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL
);
INSERT INTO revisions (revision, id, at, actor) SELECT revision, id, date_trunc('second', now()), 'migrate' FROM head;

-- The constraints equal the one constructor of a rule: a row that it would refuse cannot be stored.
CREATE TABLE rules (
    id uuid PRIMARY KEY,
    resource text NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 1024),
    -- The text that all spellings of the resource share.
    pattern text COLLATE "C" NOT NULL,
    -- A pattern may be longer than an index takes.
    pattern_digest text COLLATE "C" NOT NULL GENERATED ALWAYS AS (md5(pattern)) STORED,
    -- The part of the pattern by which a call finds it.
    head text COLLATE "C" NOT NULL,
    client text COLLATE "C" CHECK (octet_length(client) BETWEEN 1 AND 256 AND client !~ '[\u0001-\u001f\u007f-\u009f]'),
    tier text COLLATE "C" CHECK (tier IN ('free', 'paid', 'premium')),
    per text COLLATE "C" NOT NULL CHECK (per IN ('client', 'all', 'ip')),
    "override" boolean NOT NULL,
    split bigint NOT NULL CHECK (split = 1),
    algorithm text COLLATE "C" NOT NULL CHECK (algorithm = 'token_bucket'),
    "limit" bigint CHECK ("limit" BETWEEN 0 AND 1000000000),
    time_window bigint NOT NULL CHECK (time_window BETWEEN 1 AND 31622400),
    burst bigint CHECK (burst BETWEEN 1 AND 1000000000),
    on_failure text COLLATE "C" NOT NULL CHECK (on_failure IN ('limit', 'allow', 'deny')),
    status text COLLATE "C" NOT NULL CHECK (status IN ('active', 'shadow', 'terminated')),
    description text NOT NULL CHECK (octet_length(description) <= 1024),
    -- The part of the published copy that the rule lies in.
    chunk smallint NOT NULL CHECK (chunk BETWEEN 0 AND 4095),
    revision bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT rule_is_for_a_client_or_a_tier CHECK (client IS NULL OR tier IS NULL),
    -- Ticks: microseconds for windows to a minute, milliseconds to a day, seconds beyond.
    CONSTRAINT rule_can_be_counted_exactly CHECK (
        coalesce("limit", 0) = 0
        OR (
            coalesce(burst, "limit")::numeric * time_window
                * CASE WHEN time_window <= 60 THEN 1000000 WHEN time_window <= 86400 THEN 1000 ELSE 1 END <= 4503599627370496
            AND "limit"::numeric
                * CASE WHEN time_window <= 60 THEN 1000000 WHEN time_window <= 86400 THEN 1000 ELSE 1 END <= 4503599627370496
        )
    ),
    -- Deferred, so that one write may let two rules change places.
    CONSTRAINT one_rule_for_each_place
        UNIQUE NULLS NOT DISTINCT (pattern_digest, client, tier, per, algorithm, time_window)
        DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX rules_by_head ON rules USING hash (head);
CREATE INDEX rules_by_client ON rules (client, id) WHERE client IS NOT NULL;
CREATE INDEX rules_by_chunk ON rules (chunk);

-- The newest revision that touched each part of the published copy, deletions included.
CREATE TABLE rule_chunks (
    chunk smallint PRIMARY KEY CHECK (chunk BETWEEN 0 AND 4095),
    revision bigint NOT NULL
);
CREATE INDEX rule_chunks_by_revision ON rule_chunks (revision);

CREATE TABLE clients (
    client_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(client_id) BETWEEN 1 AND 256 AND client_id !~ '[\u0001-\u001f\u007f-\u009f]'),
    tier text COLLATE "C" NOT NULL CHECK (tier IN ('free', 'paid', 'premium')),
    status text COLLATE "C" NOT NULL CHECK (status IN ('active', 'terminated')),
    -- As it was written, and as it is compared.
    principal text CHECK (octet_length(principal) <= 2048),
    principal_name text COLLATE "C" UNIQUE,
    may_ask text COLLATE "C" NOT NULL CHECK (may_ask IN ('self', 'any')),
    description text NOT NULL CHECK (octet_length(description) <= 1024),
    generation bigint NOT NULL CHECK (generation >= 0),
    revision bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT principal_and_its_name CHECK ((principal IS NULL) = (principal_name IS NULL))
);

CREATE TABLE api_keys (
    key_id uuid PRIMARY KEY,
    client_id text COLLATE "C" NOT NULL REFERENCES clients ON DELETE CASCADE,
    -- SHA-256 in hexadecimal: all that is kept of the secret.
    hash text COLLATE "C" NOT NULL UNIQUE CHECK (hash ~ '^[0-9a-f]{64}$'),
    description text NOT NULL CHECK (octet_length(description) <= 1024),
    revision bigint NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX api_keys_by_client ON api_keys (client_id, key_id);

-- Every name that a registry entry was ever found by, and the newest revision that touched it. A name that comes back after it
-- was gone is no creation: somebody may remember what it was.
CREATE TABLE registry_names (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('client', 'key', 'principal')),
    id text COLLATE "C" NOT NULL,
    lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 255),
    revision bigint NOT NULL,
    creation boolean NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX registry_names_by_lane ON registry_names (lane, kind, id);
CREATE INDEX registry_names_by_lane_and_revision ON registry_names (lane, revision);
CREATE INDEX registry_names_by_revision ON registry_names (revision);

-- The newest registry change of each lane.
CREATE TABLE registry_lanes (
    lane smallint PRIMARY KEY CHECK (lane BETWEEN 0 AND 255),
    revision bigint NOT NULL
);

CREATE TABLE audit (
    revision bigint NOT NULL REFERENCES revisions,
    position int NOT NULL,
    action text NOT NULL CHECK (action IN ('create', 'update', 'delete')),
    rule uuid,
    -- The client that was changed, whose key was changed, or that the rule named before or names after.
    clients text[] COLLATE "C" NOT NULL,
    key_id uuid,
    before jsonb,
    after jsonb,
    PRIMARY KEY (revision, position)
);
CREATE INDEX audit_by_rule ON audit (rule, revision, position) WHERE rule IS NOT NULL;
CREATE INDEX audit_by_client ON audit USING gin (clients);

-- A function that is frozen in the middle of a write must not hold the head's lock, and nobody waits for it longer than a
-- caller would. Set on the role, since SET would pin the session of a proxy. A role that may not is left as it is.
DO $$
DECLARE
    setting text;
BEGIN
    FOREACH setting IN ARRAY ARRAY[
        'idle_in_transaction_session_timeout = ''5s''',
        'lock_timeout = ''1500ms''',
        'statement_timeout = ''20s'''
    ] LOOP
        EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET %s', current_database(), setting);
    END LOOP;
EXCEPTION
    WHEN OTHERS THEN RAISE NOTICE 'deadlines are not set on the role: %', SQLERRM;
END
$$;
