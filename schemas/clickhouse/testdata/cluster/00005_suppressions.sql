-- Who is suppressed until when and why: a row is one decision that made, changed or
-- lifted a suppression, of one tenant (empty: every one), recipient, channel and
-- class. The latest of these four says how it stands; a reader takes it by LIMIT 1 BY,
-- or from the view suppressions. There is no TTL: a suppression without an end stands
-- for ever, and so must what says so.
--
-- decisions has neither the recipient nor the end of what was suppressed before, so
-- nothing is copied: who was is here once that is said again. Admission has them all.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS suppression_events ON CLUSTER '{cluster}' (
    tenant LowCardinality(String),
    `to` String CODEC(ZSTD(1)),
    channel LowCardinality(String),
    class LowCardinality(String),
    recipient_hash UInt64 CODEC(ZSTD(1)),
    action LowCardinality(String), -- suppress or unsuppress
    until Nullable(DateTime64(3, 'UTC')) CODEC(Delta, ZSTD(1)), -- NULL: until it is lifted
    reason String CODEC(ZSTD(1)),
    provider LowCardinality(String), -- whose answer or receipt it came of; api:KEY over HTTP
    at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    decision_partition Int32 CODEC(ZSTD(1)),
    decision_seq Int64 CODEC(Delta, ZSTD(1)),
    status_partition Int32 CODEC(ZSTD(1)),
    status_offset Int64 CODEC(Delta, ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree
ORDER BY (tenant, `to`, channel, class, at, status_partition, status_offset)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_suppression_events ON CLUSTER '{cluster}' TO suppression_events AS
SELECT
    l.tenant AS tenant, l.`to` AS `to`, l.channel AS channel, l.class AS class, l.recipient_hash AS recipient_hash, l.reason AS action,
    nullIf(l.retry_at, toDateTime64(0, 3, 'UTC')) AS until, l.error_code AS reason, l.provider AS provider, l.at AS at,
    l.decision_partition AS decision_partition, l.decision_seq AS decision_seq,
    l.status_partition AS status_partition, l.status_offset AS status_offset, l.ingested_at AS ingested_at
FROM status_log AS l
WHERE l.kind = 'decision' AND l.decision_verdict = 'suppress' AND l.reason IN ('suppress', 'unsuppress');

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_suppression_events ON CLUSTER '{cluster}' TO suppression_events AS
SELECT
    l.tenant AS tenant, l.`to` AS `to`, l.channel AS channel, l.class AS class, l.recipient_hash AS recipient_hash, l.reason AS action,
    nullIf(l.retry_at, toDateTime64(0, 3, 'UTC')) AS until, l.error_code AS reason, l.provider AS provider, l.at AS at,
    l.decision_partition AS decision_partition, l.decision_seq AS decision_seq,
    l.status_partition AS status_partition, l.status_offset AS status_offset, l.ingested_at AS ingested_at
FROM status_log_2 AS l
WHERE l.kind = 'decision' AND l.decision_verdict = 'suppress' AND l.reason IN ('suppress', 'unsuppress');

-- What stands now.
CREATE VIEW IF NOT EXISTS suppressions ON CLUSTER '{cluster}' AS
SELECT
    tenant, `to`, channel, class, last.2 AS until, last.3 AS reason, last.4 AS provider, last.5 AS at
FROM (
    SELECT e.tenant AS tenant, e.`to` AS `to`, e.channel AS channel, e.class AS class,
        argMax((e.action, e.until, e.reason, e.provider, e.at), (e.at, e.status_offset)) AS last
    FROM suppression_events AS e
    GROUP BY tenant, `to`, channel, class
)
WHERE last.1 = 'suppress' AND (isNull(last.2) OR last.2 > now64(3));

-- +goose Down
DROP VIEW IF EXISTS suppressions ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_suppression_events ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_suppression_events ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS suppression_events ON CLUSTER '{cluster}';
