-- Limits beyond one recipient: what a decision says of places in other partitions.
--
-- Rows with the new columns come in by a table of their own, with views of its own.
-- status_log and its views stay as they are: a view that is made anew lets blocks
-- pass by meanwhile, and one that is altered (MODIFY QUERY too, on ClickHouse 26.7)
-- no longer knows the tokens of blocks that it has put into its table, so that one
-- sent again stands twice. A sink of the former version goes on inserting there, and
-- so does this one what the former had planned.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE decisions ON CLUSTER '{cluster}'
    ADD COLUMN IF NOT EXISTS `carried.limit` Array(LowCardinality(String)) AFTER `charges.cost`,
    ADD COLUMN IF NOT EXISTS `carried.scope` Array(String) AFTER `carried.limit`,
    ADD COLUMN IF NOT EXISTS `carried.t` Array(DateTime64(3, 'UTC')) AFTER `carried.scope`,
    ADD COLUMN IF NOT EXISTS `carried.cost` Array(Int64) AFTER `carried.t`,
    ADD COLUMN IF NOT EXISTS passed String CODEC(ZSTD(1)) AFTER missing,
    ADD COLUMN IF NOT EXISTS restored String CODEC(ZSTD(1)) AFTER passed,
    ADD COLUMN IF NOT EXISTS released String CODEC(ZSTD(1)) AFTER restored,
    ADD COLUMN IF NOT EXISTS reinstated String CODEC(ZSTD(1)) AFTER released,
    ADD COLUMN IF NOT EXISTS onward Int32 DEFAULT -1 CODEC(ZSTD(1)) AFTER reinstated;

CREATE TABLE IF NOT EXISTS status_log_2 ON CLUSTER '{cluster}' (
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
    carried Nested(limit String, scope String, t DateTime64(3, 'UTC'), cost Int64),
    returned String,
    missing String,
    passed String,
    restored String,
    released String,
    reinstated String,
    onward Int32 DEFAULT -1,
    evidence String,
    marker String,
    bytes UInt32,
    status_partition Int32,
    status_offset Int64,
    ingested_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_status_events ON CLUSTER '{cluster}' TO status_events AS
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
FROM status_log_2
WHERE kind != 'decision';

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_decisions ON CLUSTER '{cluster}' TO decisions AS
SELECT
    decision_partition AS partition, decision_seq AS seq, decision_t AS t, decision_verdict AS verdict, revision,
    kind, message_id, tenant, channel, class, recipient_hash, status, reason, `limit`, `window`, observed,
    input_topic, input_partition, input_offset,
    charges.limit, charges.scope, charges.t, charges.cost, carried.limit, carried.scope, carried.t, carried.cost,
    returned, missing, passed, restored, released, reinstated, onward, evidence, marker,
    at, status_partition, status_offset, ingested_at
FROM status_log_2
WHERE kind = 'decision' OR decision_verdict != '';

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_messages_state ON CLUSTER '{cluster}' TO messages_state AS
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
FROM status_log_2 AS l
WHERE l.kind = 'status' AND l.message_id != ''
GROUP BY message_id;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_status_by_minute_state ON CLUSTER '{cluster}' TO status_by_minute_state AS
SELECT
    toStartOfMinute(l.at) AS minute, l.tenant AS tenant, l.channel AS channel, l.class AS class, l.provider AS provider, l.status AS status,
    count() AS events,
    quantilesTDigestState(0.5, 0.95, 0.99)(if(toUnixTimestamp64Milli(l.accepted_at) = 0, NULL, toUnixTimestamp64Milli(l.at) - toUnixTimestamp64Milli(l.accepted_at))) AS latency
FROM status_log_2 AS l
WHERE l.kind = 'status'
GROUP BY minute, tenant, channel, class, provider, status;

-- A place counts once, where its message is admitted, with the message's tenant,
-- channel and class: what it was charged on its way is carried there. A refusal
-- counts once, in the message's status: its owner's decision says the same.
CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_limits_by_minute_state ON CLUSTER '{cluster}' TO limits_by_minute_state AS
SELECT
    toStartOfMinute(at) AS minute, tenant, channel, class, x.1 AS `limit`, x.2 AS `window`,
    sum(x.3) AS places, sum(x.4) AS cost, sum(x.5) AS refusals, sum(x.6) AS observed
FROM (
    SELECT l.at AS at, l.tenant AS tenant, l.channel AS channel, l.class AS class,
        arrayJoin(arrayConcat(
            if(l.decision_verdict IN ('admit', 'move', 'record'),
                arrayMap((limit, cost) -> (limit, '', toUInt64(1), cost, toUInt64(0), toUInt64(0)),
                    arrayConcat(l.charges.limit, l.carried.limit), arrayConcat(l.charges.cost, l.carried.cost)),
                []),
            if(l.kind = 'status' AND l.`limit` != '' AND (l.decision_verdict IN ('refuse', 'defer') OR l.observed),
                [(l.`limit`, l.`window`, toUInt64(0), toInt64(0), toUInt64(NOT l.observed), toUInt64(l.observed))],
                []))) AS x
    FROM status_log_2 AS l
    WHERE l.decision_verdict != ''
)
GROUP BY minute, tenant, channel, class, `limit`, `window`;

-- +goose Down
-- The table goes first: without it inserts fail and are tried again, while a block
-- that met a part of the views would be lost to the rest.
DROP TABLE IF EXISTS status_log_2 ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_limits_by_minute_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_status_by_minute_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_messages_state ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_decisions ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_status_events ON CLUSTER '{cluster}';
ALTER TABLE decisions ON CLUSTER '{cluster}'
    DROP COLUMN IF EXISTS `carried.limit`, DROP COLUMN IF EXISTS `carried.scope`, DROP COLUMN IF EXISTS `carried.t`, DROP COLUMN IF EXISTS `carried.cost`,
    DROP COLUMN IF EXISTS passed, DROP COLUMN IF EXISTS restored, DROP COLUMN IF EXISTS released, DROP COLUMN IF EXISTS reinstated,
    DROP COLUMN IF EXISTS onward;
