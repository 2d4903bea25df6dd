-- Lists of messages, the newest first: of a tenant, and of one recipient.
--
-- A row is a status of a message, by the time at which its request was accepted:
-- that never changes, so that a page begins where the one before ended. Merges
-- leave the latest (ver: rank, time, offset), and a reader takes the highest ver by
-- LIMIT 1 BY. Receipts are not here: they do not know when their message was
-- accepted. So what a list shows of a message is read from status_events, by its id.
--
-- What stood before the views is copied once they are there. A block that was on
-- its way meanwhile met the old views only, so the copy begins a little later,
-- where there is anything to copy. What comes twice counts once.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS messages_by_recipient ON CLUSTER '{cluster}' (
    tenant LowCardinality(String),
    `to` String CODEC(ZSTD(1)),
    accepted_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    message_id String CODEC(ZSTD(1)),
    channel LowCardinality(String),
    class LowCardinality(String),
    status LowCardinality(String),
    ver UInt64 CODEC(ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree(ver)
PARTITION BY toYYYYMM(accepted_at)
ORDER BY (tenant, `to`, accepted_at, message_id)
TTL toDateTime(accepted_at) + INTERVAL 400 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS messages_by_time ON CLUSTER '{cluster}' (
    tenant LowCardinality(String),
    accepted_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    message_id String CODEC(ZSTD(1)),
    `to` String CODEC(ZSTD(1)),
    channel LowCardinality(String),
    class LowCardinality(String),
    status LowCardinality(String),
    ver UInt64 CODEC(ZSTD(1)),
    INDEX by_status status TYPE set(20) GRANULARITY 1,
    INDEX by_class class TYPE set(100) GRANULARITY 1
) ENGINE = ReplicatedReplacingMergeTree(ver)
PARTITION BY toYYYYMM(accepted_at)
ORDER BY (tenant, accepted_at, message_id, `to`)
TTL toDateTime(accepted_at) + INTERVAL 400 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_messages_by_recipient ON CLUSTER '{cluster}' TO messages_by_recipient AS
SELECT
    if(l.tenant = '', 'default', l.tenant) AS tenant, l.`to` AS `to`, l.accepted_at AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_log AS l
WHERE kind = 'status' AND message_id != '' AND l.status NOT IN ('delivered', 'undelivered') AND l.accepted_at > toDateTime64(0, 3, 'UTC');

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_messages_by_time ON CLUSTER '{cluster}' TO messages_by_time AS
SELECT
    if(l.tenant = '', 'default', l.tenant) AS tenant, l.`to` AS `to`, l.accepted_at AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_log AS l
WHERE kind = 'status' AND message_id != '' AND l.status NOT IN ('delivered', 'undelivered') AND l.accepted_at > toDateTime64(0, 3, 'UTC');

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_messages_by_recipient ON CLUSTER '{cluster}' TO messages_by_recipient AS
SELECT
    if(l.tenant = '', 'default', l.tenant) AS tenant, l.`to` AS `to`, l.accepted_at AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_log_2 AS l
WHERE kind = 'status' AND message_id != '' AND l.status NOT IN ('delivered', 'undelivered') AND l.accepted_at > toDateTime64(0, 3, 'UTC');

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_messages_by_time ON CLUSTER '{cluster}' TO messages_by_time AS
SELECT
    if(l.tenant = '', 'default', l.tenant) AS tenant, l.`to` AS `to`, l.accepted_at AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_log_2 AS l
WHERE kind = 'status' AND message_id != '' AND l.status NOT IN ('delivered', 'undelivered') AND l.accepted_at > toDateTime64(0, 3, 'UTC');

SELECT sleepEachRow(0.5) FROM (SELECT 1 FROM status_events LIMIT 4) FORMAT Null;

INSERT INTO messages_by_recipient (tenant, `to`, accepted_at, message_id, channel, class, status, ver)
SELECT
    if(e.tenant = '', 'default', e.tenant) AS tenant, e.`to` AS `to`, assumeNotNull(e.accepted_at) AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_events AS e
WHERE kind = 'status' AND message_id != '' AND e.status NOT IN ('delivered', 'undelivered') AND isNotNull(e.accepted_at)
SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO messages_by_time (tenant, `to`, accepted_at, message_id, channel, class, status, ver)
SELECT
    if(e.tenant = '', 'default', e.tenant) AS tenant, e.`to` AS `to`, assumeNotNull(e.accepted_at) AS accepted_at, message_id, channel, class, toString(status) AS status,
    bitShiftLeft(toUInt64(if(e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1)), 60)
        + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(at)), 18) + toUInt64(status_offset % 262144) AS ver
FROM status_events AS e
WHERE kind = 'status' AND message_id != '' AND e.status NOT IN ('delivered', 'undelivered') AND isNotNull(e.accepted_at)
SETTINGS max_partitions_per_insert_block = 0;

-- +goose Down
DROP VIEW IF EXISTS status_log_2_to_messages_by_time ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_2_to_messages_by_recipient ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_messages_by_time ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_messages_by_recipient ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS messages_by_time ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS messages_by_recipient ON CLUSTER '{cluster}';
