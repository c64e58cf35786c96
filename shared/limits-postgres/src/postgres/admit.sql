-- Makes the role that the setting weir.role names, or what it lacks, and gives it what functions do in this schema. A table that a
-- migration adds is added here.
DO $$
DECLARE
    wanted text := current_setting('weir.role');
    known pg_roles%ROWTYPE;
    privilege record;
    setting text;
BEGIN
    SELECT * INTO known FROM pg_roles WHERE rolname = wanted;
    IF NOT FOUND THEN
        EXECUTE format('CREATE ROLE %I LOGIN', wanted);
    ELSIF known.rolname = current_user
        OR known.rolsuper OR known.rolcreaterole OR known.rolcreatedb OR known.rolreplication OR known.rolbypassrls
        OR EXISTS (
            SELECT FROM pg_auth_members
            JOIN pg_roles ON pg_roles.oid = pg_auth_members.roleid
            WHERE pg_auth_members.member = known.oid AND pg_roles.rolname <> 'rds_iam'
        )
        -- An owner may do all, and can give back to itself what it is denied.
        OR EXISTS (
            SELECT FROM pg_shdepend
            WHERE refclassid = 'pg_authid'::regclass AND refobjid = known.oid AND deptype = 'o'
        )
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_role_specification',
            MESSAGE = 'must be a role of its own: this one is there, and may do more than functions do';
    ELSIF NOT known.rolcanlogin THEN
        EXECUTE format('ALTER ROLE %I LOGIN', wanted);
    END IF;

    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') THEN
        EXECUTE format('GRANT rds_iam TO %I', wanted);
    END IF;

    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), wanted);
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', current_schema(), wanted);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), wanted);
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', current_schema(), wanted);
    FOR privilege IN
        SELECT * FROM (VALUES
            ('head', 'SELECT, UPDATE'),
            ('revisions', 'SELECT, INSERT'),
            ('audit', 'SELECT, INSERT'),
            ('rules', 'SELECT, INSERT, UPDATE, DELETE'),
            ('rule_chunks', 'SELECT, INSERT, UPDATE'),
            ('rule_resets', 'SELECT, INSERT, UPDATE'),
            ('clients', 'SELECT, INSERT, UPDATE, DELETE'),
            ('client_resets', 'SELECT, INSERT, UPDATE'),
            ('api_keys', 'SELECT, INSERT, DELETE'),
            ('registry_names', 'SELECT, INSERT, UPDATE'),
            ('registry_lanes', 'SELECT, INSERT, UPDATE')
        ) AS needed (of_table, actions)
    LOOP
        EXECUTE format('GRANT %s ON TABLE %I.%I TO %I', privilege.actions, current_schema(), privilege.of_table, wanted);
    END LOOP;

    -- As the first migration has them for its own role.
    FOREACH setting IN ARRAY ARRAY[
        'idle_in_transaction_session_timeout = ''5s''',
        'lock_timeout = ''1500ms''',
        'statement_timeout = ''20s'''
    ] LOOP
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', wanted, current_database(), setting);
    END LOOP;
END
$$
