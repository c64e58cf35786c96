-- What all callers share may be spread, where each share has a part of the limit and of the capacity: as the one constructor of a
-- rule has it. An exemption and a block count nothing.
ALTER TABLE rules
    DROP CONSTRAINT rules_split_check,
    ADD CONSTRAINT rules_split_check CHECK (split BETWEEN 1 AND 64),
    ADD CONSTRAINT each_share_has_a_part CHECK (
        split = 1
        OR (
            per = 'all'
            AND coalesce("limit", 0) >= split
            AND coalesce(burst, CASE algorithm WHEN 'leaky_bucket' THEN 1 ELSE "limit" END) >= split
        )
    );
