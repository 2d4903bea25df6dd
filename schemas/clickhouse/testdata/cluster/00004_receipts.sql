-- Which message a provider's own id is of: what receipts are looked up by that do not
-- name their message.
--
-- A row is short, since there is one for each message that was handed to a provider
-- which gave it an id: a hash of provider and id, the message's id, and when. Two
-- ids of one hash are told apart by the rows of status_events, which a reader finds by the
-- message's id and the day. Marks are close, since a reader asks for a thousand at once,
-- each somewhere else.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS messages_by_provider_id ON CLUSTER '{cluster}' (
    id UInt64 CODEC(Delta, ZSTD(1)),
    message_id String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC') CODEC(ZSTD(1))
) ENGINE = ReplicatedMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY id
TTL toDateTime(at) + INTERVAL 100 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800, ttl_only_drop_parts = 1, index_granularity = 512;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_messages_by_provider_id ON CLUSTER '{cluster}' TO messages_by_provider_id AS
SELECT cityHash64(l.provider, l.provider_message_id) AS id, l.message_id AS message_id, l.at AS at
FROM status_log AS l
WHERE l.provider_message_id != '' AND l.kind = 'status' AND l.message_id != '' AND l.status NOT IN ('delivered', 'undelivered');

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_messages_by_provider_id ON CLUSTER '{cluster}' TO messages_by_provider_id AS
SELECT cityHash64(l.provider, l.provider_message_id) AS id, l.message_id AS message_id, l.at AS at
FROM status_log_2 AS l
WHERE l.provider_message_id != '' AND l.kind = 'status' AND l.message_id != '' AND l.status NOT IN ('delivered', 'undelivered');

-- A block that was on its way meanwhile met the old views only. What comes twice is
-- found twice, and is one message.
SELECT sleepEachRow(0.5) FROM (SELECT 1 FROM status_events LIMIT 4) FORMAT Null;

INSERT INTO messages_by_provider_id (id, message_id, at)
SELECT cityHash64(toString(e.provider), e.provider_message_id) AS id, e.message_id AS message_id, e.at AS at
FROM status_events AS e
WHERE e.provider_message_id != '' AND e.kind = 'status' AND e.message_id != '' AND e.status NOT IN ('delivered', 'undelivered')
    AND e.at > now() - INTERVAL 100 DAY
SETTINGS max_partitions_per_insert_block = 0;

-- +goose Down
DROP VIEW IF EXISTS status_log_2_to_messages_by_provider_id ON CLUSTER '{cluster}';
DROP VIEW IF EXISTS status_log_to_messages_by_provider_id ON CLUSTER '{cluster}';
DROP TABLE IF EXISTS messages_by_provider_id ON CLUSTER '{cluster}';
