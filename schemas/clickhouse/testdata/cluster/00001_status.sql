-- The sink inserts into status_log and nowhere else. It stores nothing: its views
-- fan each block out to the tables below (and turn text into enums and dictionaries
-- there, which is cheaper than in the client), and each table deduplicates the block by
-- the insert's token. A table whose window is 0 forgets tokens at once, which is
-- why every one sets it, and why the sink refuses to start where one does not.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS status_log ON CLUSTER '{cluster}' (
    kind String,
    message_id String,
    tenant String,
    channel String,
    class String,
    template String,
    `to` String,
    recipient_hash UInt64,
    country String,
    status String,
    at DateTime64(3, 'UTC'),
    reason String,
    attempt UInt16,
    provider String,
    provider_message_id String,
    error_code String,
    error String,
    `limit` String,
    `window` String,
    retry_at DateTime64(3, 'UTC'),
    accepted_at DateTime64(3, 'UTC'),
    segments UInt16,
    price String,
    currency String,
    duplicate_of String,
    redrive_of String,
    observed Bool,
    source_topic String,
    source_partition Int32,
    source_offset Int64,
    decision_verdict String,
    decision_partition Int32,
    decision_seq Int64,
    decision_t DateTime64(3, 'UTC'),
    revision Int64,
    input_topic String,
    input_partition Int32,
    input_offset Int64,
    charges Nested(limit String, scope String, t DateTime64(3, 'UTC'), cost Int64),
    returned String,
    missing String,
    evidence String,
    marker String,
    bytes UInt32,
    status_partition Int32,
    status_offset Int64,
    ingested_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = Null;

CREATE TABLE IF NOT EXISTS status_events ON CLUSTER '{cluster}' (
    kind Enum8('status' = 1, 'decision' = 2, 'poison' = 3),
    message_id String CODEC(ZSTD(1)),
    tenant LowCardinality(String),
    channel LowCardinality(String),
    class LowCardinality(String),
    template LowCardinality(String),
    `to` String CODEC(ZSTD(1)),
    recipient_hash UInt64 CODEC(ZSTD(1)),
    country LowCardinality(String),
    status Enum8('' = 0, 'accepted' = 1, 'scheduled' = 2, 'deferred' = 3, 'queued' = 4, 'sending' = 5, 'retrying' = 6, 'sent' = 7, 'delivered' = 8, 'undelivered' = 9, 'failed' = 10, 'unknown' = 11, 'limited' = 12, 'suppressed' = 13, 'expired' = 14, 'cancelled' = 15, 'rejected' = 16, 'duplicate' = 17),
    at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    reason LowCardinality(String),
    attempt UInt16,
    provider LowCardinality(String),
    provider_message_id String CODEC(ZSTD(1)),
    error_code LowCardinality(String),
    error String CODEC(ZSTD(1)),
    `limit` LowCardinality(String),
    `window` LowCardinality(String),
    retry_at Nullable(DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)),
    accepted_at Nullable(DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)),
    segments UInt16,
    price Decimal(18, 6) CODEC(ZSTD(1)),
    currency LowCardinality(String),
    duplicate_of String CODEC(ZSTD(1)),
    redrive_of String CODEC(ZSTD(1)),
    observed Bool,
    source_topic LowCardinality(String),
    source_partition Int32 CODEC(ZSTD(1)),
    source_offset Int64 CODEC(Delta, ZSTD(1)),
    decision_verdict LowCardinality(String),
    decision_partition Int32 CODEC(ZSTD(1)),
    decision_seq Int64 CODEC(Delta, ZSTD(1)),
    decision_t Nullable(DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)),
    revision Int64 CODEC(ZSTD(1)),
    charges Nested(limit LowCardinality(String), scope String, t DateTime64(3, 'UTC'), cost Int64),
    evidence String CODEC(ZSTD(1)),
    bytes UInt32 CODEC(ZSTD(1)),
    status_partition Int32 CODEC(ZSTD(1)),
    status_offset Int64 CODEC(Delta, ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX recipient `to` TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX recipient_by_hash recipient_hash TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX receipt provider_message_id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplicatedMergeTree
PARTITION BY toDate(at)
ORDER BY (message_id, at, status_partition, status_offset)
TTL toDateTime(at) + INTERVAL 400 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS decisions ON CLUSTER '{cluster}' (
    partition Int32,
    seq Int64 CODEC(Delta, ZSTD(1)),
    t DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    verdict LowCardinality(String),
    revision Int64 CODEC(ZSTD(1)),
    kind Enum8('status' = 1, 'decision' = 2, 'poison' = 3),
    message_id String CODEC(ZSTD(1)),
    tenant LowCardinality(String),
    channel LowCardinality(String),
    class LowCardinality(String),
    recipient_hash UInt64 CODEC(ZSTD(1)),
    status Enum8('' = 0, 'accepted' = 1, 'scheduled' = 2, 'deferred' = 3, 'queued' = 4, 'sending' = 5, 'retrying' = 6, 'sent' = 7, 'delivered' = 8, 'undelivered' = 9, 'failed' = 10, 'unknown' = 11, 'limited' = 12, 'suppressed' = 13, 'expired' = 14, 'cancelled' = 15, 'rejected' = 16, 'duplicate' = 17),
    reason LowCardinality(String),
    `limit` LowCardinality(String),
    `window` LowCardinality(String),
    observed Bool,
    input_topic LowCardinality(String),
    input_partition Int32 CODEC(ZSTD(1)),
    input_offset Int64 CODEC(Delta, ZSTD(1)),
    charges Nested(limit LowCardinality(String), scope String, t DateTime64(3, 'UTC'), cost Int64),
    returned String CODEC(ZSTD(1)),
    missing String CODEC(ZSTD(1)),
    evidence String CODEC(ZSTD(1)),
    marker String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    status_partition Int32 CODEC(ZSTD(1)),
    status_offset Int64 CODEC(Delta, ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
) ENGINE = ReplicatedMergeTree
PARTITION BY toDate(at)
ORDER BY (partition, seq, status_offset)
TTL toDateTime(at) + INTERVAL 400 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800, ttl_only_drop_parts = 1;

-- Everything in here is min, max or argMax: applied twice it is the same.
CREATE TABLE IF NOT EXISTS messages_state ON CLUSTER '{cluster}' (
    message_id String CODEC(ZSTD(1)),
    tenant SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    channel SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    class SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    template SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    `to` SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    recipient_hash SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)),
    country SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    attempts SimpleAggregateFunction(max, UInt16),
    segments SimpleAggregateFunction(max, UInt16),
    accepted_at SimpleAggregateFunction(min, Nullable(DateTime64(3, 'UTC'))) CODEC(Delta, ZSTD(1)),
    queued_at SimpleAggregateFunction(min, Nullable(DateTime64(3, 'UTC'))) CODEC(Delta, ZSTD(1)),
    sent_at SimpleAggregateFunction(min, Nullable(DateTime64(3, 'UTC'))) CODEC(Delta, ZSTD(1)),
    delivered_at SimpleAggregateFunction(min, Nullable(DateTime64(3, 'UTC'))) CODEC(Delta, ZSTD(1)),
    ended_at SimpleAggregateFunction(min, Nullable(DateTime64(3, 'UTC'))) CODEC(Delta, ZSTD(1)),
    last_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)),
    -- (status, at, reason, error_code, error, limit, window, retry_at, duplicate_of, redrive_of) of the highest rank, and among equals the latest
    latest AggregateFunction(argMax, Tuple(String, DateTime64(3, 'UTC'), String, String, String, String, String, Nullable(DateTime64(3, 'UTC')), String, String), Tuple(UInt8, DateTime64(3, 'UTC'), Int64)),
    -- (provider, provider_message_id) and (price, currency) of the latest event that names them
    handled AggregateFunction(argMaxIf, Tuple(String, String), Tuple(DateTime64(3, 'UTC'), Int64), UInt8),
    paid AggregateFunction(argMaxIf, Tuple(Decimal(18, 6), String), Tuple(DateTime64(3, 'UTC'), Int64), UInt8)
) ENGINE = ReplicatedAggregatingMergeTree
ORDER BY message_id
TTL toDateTime(last_at) + INTERVAL 400 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS status_by_minute_state ON CLUSTER '{cluster}' (
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    tenant LowCardinality(String),
    channel LowCardinality(String),
    class LowCardinality(String),
    provider LowCardinality(String),
    status Enum8('' = 0, 'accepted' = 1, 'scheduled' = 2, 'deferred' = 3, 'queued' = 4, 'sending' = 5, 'retrying' = 6, 'sent' = 7, 'delivered' = 8, 'undelivered' = 9, 'failed' = 10, 'unknown' = 11, 'limited' = 12, 'suppressed' = 13, 'expired' = 14, 'cancelled' = 15, 'rejected' = 16, 'duplicate' = 17),
    events SimpleAggregateFunction(sum, UInt64),
    latency AggregateFunction(quantilesTDigest(0.5, 0.95, 0.99), Nullable(Int64))
) ENGINE = ReplicatedAggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, tenant, channel, class, provider, status)
TTL minute + INTERVAL 800 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS limits_by_minute_state ON CLUSTER '{cluster}' (
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    tenant LowCardinality(String),
    channel LowCardinality(String),
    class LowCardinality(String),
    `limit` LowCardinality(String),
    `window` LowCardinality(String),
    places SimpleAggregateFunction(sum, UInt64),
    cost SimpleAggregateFunction(sum, Int64),
    refusals SimpleAggregateFunction(sum, UInt64),
    observed SimpleAggregateFunction(sum, UInt64)
) ENGINE = ReplicatedAggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, tenant, channel, class, `limit`, `window`)
TTL minute + INTERVAL 800 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_status_events ON CLUSTER '{cluster}' TO status_events AS
SELECT
    kind, message_id, tenant, channel, class, template, `to`, recipient_hash, country, status, at, reason, attempt,
    provider, provider_message_id, error_code, error, `limit`, `window`,
    nullIf(retry_at, toDateTime64(0, 3, 'UTC')) AS retry_at,
    nullIf(accepted_at, toDateTime64(0, 3, 'UTC')) AS accepted_at,
    segments, toDecimal64OrZero(price, 6) AS price, currency, duplicate_of, redrive_of, observed,
    source_topic, source_partition, source_offset,
    decision_verdict, decision_partition, decision_seq, nullIf(decision_t, toDateTime64(0, 3, 'UTC')) AS decision_t, revision,
    charges.limit, charges.scope, charges.t, charges.cost, evidence, bytes,
    status_partition, status_offset, ingested_at
FROM status_log
WHERE kind != 'decision';

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_decisions ON CLUSTER '{cluster}' TO decisions AS
SELECT
    decision_partition AS partition, decision_seq AS seq, decision_t AS t, decision_verdict AS verdict, revision,
    kind, message_id, tenant, channel, class, recipient_hash, status, reason, `limit`, `window`, observed,
    input_topic, input_partition, input_offset,
    charges.limit, charges.scope, charges.t, charges.cost, returned, missing, evidence, marker,
    at, status_partition, status_offset, ingested_at
FROM status_log
WHERE kind = 'decision' OR decision_verdict != '';

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_messages_state ON CLUSTER '{cluster}' TO messages_state AS
SELECT
    message_id,
    max(l.tenant) AS tenant,
    max(l.channel) AS channel,
    max(l.class) AS class,
    max(l.template) AS template,
    max(l.`to`) AS `to`,
    max(l.recipient_hash) AS recipient_hash,
    max(l.country) AS country,
    max(l.attempt) AS attempts,
    max(l.segments) AS segments,
    min(nullIf(l.accepted_at, toDateTime64(0, 3, 'UTC'))) AS accepted_at,
    min(if(l.status = 'queued', l.at, NULL)) AS queued_at,
    min(if(l.status = 'sent', l.at, NULL)) AS sent_at,
    min(if(l.status = 'delivered', l.at, NULL)) AS delivered_at,
    min(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), l.at, NULL)) AS ended_at,
    max(l.at) AS last_at,
    argMaxState(
        (l.status, l.at, l.reason, l.error_code, l.error, l.`limit`, l.`window`,
            nullIf(l.retry_at, toDateTime64(0, 3, 'UTC')), l.duplicate_of, l.redrive_of),
        (toUInt8(multiIf(l.status = 'delivered', 4, l.status = 'undelivered', 3,
            l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2,
            l.status = 'accepted', 0, 1)), l.at, l.status_offset)) AS latest,
    argMaxIfState((l.provider, l.provider_message_id), (l.at, l.status_offset), l.provider != '') AS handled,
    argMaxIfState((toDecimal64OrZero(l.price, 6), l.currency), (l.at, l.status_offset), l.price != '') AS paid
FROM status_log AS l
WHERE l.kind = 'status' AND l.message_id != ''
GROUP BY message_id;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_status_by_minute_state ON CLUSTER '{cluster}' TO status_by_minute_state AS
SELECT
    toStartOfMinute(l.at) AS minute, l.tenant AS tenant, l.channel AS channel, l.class AS class, l.provider AS provider, l.status AS status,
    count() AS events,
    quantilesTDigestState(0.5, 0.95, 0.99)(if(toUnixTimestamp64Milli(l.accepted_at) = 0, NULL, toUnixTimestamp64Milli(l.at) - toUnixTimestamp64Milli(l.accepted_at))) AS latency
FROM status_log AS l
WHERE l.kind = 'status'
GROUP BY minute, tenant, channel, class, provider, status;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_limits_by_minute_state ON CLUSTER '{cluster}' TO limits_by_minute_state AS
SELECT
    toStartOfMinute(at) AS minute, tenant, channel, class, x.1 AS `limit`, x.2 AS `window`,
    sum(x.3) AS places, sum(x.4) AS cost, sum(x.5) AS refusals, sum(x.6) AS observed
FROM (
    SELECT l.at AS at, l.tenant AS tenant, l.channel AS channel, l.class AS class,
        arrayJoin(arrayConcat(
            arrayMap((limit, cost) -> (limit, '', toUInt64(1), cost, toUInt64(0), toUInt64(0)), l.charges.limit, l.charges.cost),
            if(l.`limit` != '' AND (l.decision_verdict IN ('refuse', 'defer') OR l.observed),
                [(l.`limit`, l.`window`, toUInt64(0), toInt64(0), toUInt64(NOT l.observed), toUInt64(l.observed))],
                []))) AS x
    FROM status_log AS l
    WHERE l.decision_verdict != ''
)
GROUP BY minute, tenant, channel, class, `limit`, `window`;

CREATE VIEW IF NOT EXISTS messages ON CLUSTER '{cluster}' AS
SELECT
    message_id,
    max(s.tenant) AS tenant,
    max(s.channel) AS channel,
    max(s.class) AS class,
    max(s.template) AS template,
    max(s.`to`) AS `to`,
    max(s.recipient_hash) AS recipient_hash,
    max(s.country) AS country,
    argMaxMerge(s.latest) AS last,
    last.1 AS status,
    last.2 AS status_at,
    last.3 AS reason,
    max(s.attempts) AS attempts,
    min(s.accepted_at) AS accepted_at,
    min(s.queued_at) AS queued_at,
    min(s.sent_at) AS sent_at,
    min(s.delivered_at) AS delivered_at,
    min(s.ended_at) AS ended_at,
    (argMaxIfMerge(s.handled) AS h).1 AS provider,
    h.2 AS provider_message_id,
    last.4 AS error_code,
    last.5 AS error,
    last.6 AS `limit`,
    last.7 AS `window`,
    last.8 AS retry_at,
    max(s.segments) AS segments,
    (argMaxIfMerge(s.paid) AS p).1 AS price,
    p.2 AS currency,
    last.9 AS duplicate_of,
    last.10 AS redrive_of
FROM messages_state AS s
GROUP BY message_id;

-- latency is milliseconds from accepted to this status; `latency` itself merges
-- over more than a minute: quantilesTDigestMerge(0.5, 0.95, 0.99)(latency).
CREATE VIEW IF NOT EXISTS status_by_minute ON CLUSTER '{cluster}' AS
SELECT
    minute, tenant, channel, class, provider, status,
    sum(s.events) AS events,
    quantilesTDigestMerge(0.5, 0.95, 0.99)(s.latency) AS q,
    q[1] AS latency_p50,
    q[2] AS latency_p95,
    q[3] AS latency_p99,
    quantilesTDigestMergeState(0.5, 0.95, 0.99)(s.latency) AS latency
FROM status_by_minute_state AS s
GROUP BY minute, tenant, channel, class, provider, status;

CREATE VIEW IF NOT EXISTS limits_by_minute ON CLUSTER '{cluster}' AS
SELECT
    minute, tenant, channel, class, `limit`, `window`,
    sum(s.places) AS places, sum(s.cost) AS cost, sum(s.refusals) AS refusals, sum(s.observed) AS observed
FROM limits_by_minute_state AS s
GROUP BY minute, tenant, channel, class, `limit`, `window`;

-- +goose Down
DROP VIEW IF EXISTS limits_by_minute ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_by_minute ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS messages ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_limits_by_minute_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_status_by_minute_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_messages_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_decisions ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_status_events ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS limits_by_minute_state ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS status_by_minute_state ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS messages_state ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS decisions ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS status_events ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS status_log ON CLUSTER '{cluster}';
