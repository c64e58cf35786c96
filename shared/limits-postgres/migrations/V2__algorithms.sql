-- Five algorithms, each with what it can count exactly: as the one constructor of a rule has it.
ALTER TABLE rules
    DROP CONSTRAINT rules_algorithm_check,
    DROP CONSTRAINT rule_can_be_counted_exactly,
    ADD CONSTRAINT rules_algorithm_check CHECK (
        algorithm IN ('token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_window', 'sliding_log')
    ),
    ADD CONSTRAINT only_a_bucket_has_a_burst CHECK (burst IS NULL OR algorithm IN ('token_bucket', 'leaky_bucket')),
    -- Ticks: microseconds for windows to a minute, milliseconds to a day, seconds beyond.
    ADD CONSTRAINT rule_can_be_counted_exactly CHECK (
        coalesce("limit", 0) = 0
        OR CASE algorithm
            WHEN 'fixed_window' THEN true
            WHEN 'sliding_log' THEN "limit" <= 10000
            WHEN 'sliding_window' THEN "limit"::numeric * time_window
                * CASE WHEN time_window <= 60 THEN 1000000 WHEN time_window <= 86400 THEN 1000 ELSE 1 END <= 4503599627370496
            ELSE
                coalesce(burst, CASE algorithm WHEN 'leaky_bucket' THEN 1 ELSE "limit" END)::numeric * time_window
                    * CASE WHEN time_window <= 60 THEN 1000000 WHEN time_window <= 86400 THEN 1000 ELSE 1 END <= 4503599627370496
                AND "limit"::numeric
                    * CASE WHEN time_window <= 60 THEN 1000000 WHEN time_window <= 86400 THEN 1000 ELSE 1 END <= 4503599627370496
        END
    );
