-- Since when counters count: seconds since 1970, or one more than the last reset where that is greater. Tables of their own, so
-- that no function that does not know them publishes or shows them. Rows stay when their rule or client goes: one that comes back
-- under the same id must not find its old counters.

CREATE TABLE rule_resets (
    rule uuid PRIMARY KEY,
    generation bigint NOT NULL CHECK (generation > 0)
);

-- The client need not be registered.
CREATE TABLE client_resets (
    client_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(client_id) BETWEEN 1 AND 256 AND client_id !~ '[\u0001-\u001f\u007f-\u009f]'),
    -- Of all its counters; 0 where only single rules were reset.
    generation bigint NOT NULL CHECK (generation >= 0),
    -- Of single rules, by id, where that is newer.
    generations jsonb NOT NULL CHECK (jsonb_typeof(generations) = 'object')
);

-- Said nothing yet, and says nothing any more; functions from before still write it.
ALTER TABLE clients ALTER COLUMN generation SET DEFAULT 0;

ALTER TABLE audit DROP CONSTRAINT audit_action_check;
ALTER TABLE audit ADD CONSTRAINT audit_action_check CHECK (action IN ('create', 'update', 'delete', 'reset'));
