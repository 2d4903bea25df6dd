-- messages is read from the events themselves: they are ordered by message, so that
-- all of one stand together. messages_state held the same once more, by far the dearest
-- of the tables: a third of an insert's cost and of its merges', a quarter of all
-- bytes. And what is not kept twice cannot differ.
--
-- Nothing is copied: status_events has had every status from the beginning, for as
-- long as messages_state. A block that is on its way meets the views or does not, or
-- fails and is sent again; its events are there either way.

-- +goose NO TRANSACTION
-- +goose Up
CREATE OR REPLACE VIEW messages AS
SELECT
    message_id,
    max(toString(e.tenant)) AS tenant,
    max(toString(e.channel)) AS channel,
    max(toString(e.class)) AS class,
    max(toString(e.template)) AS template,
    max(e.`to`) AS `to`,
    max(e.recipient_hash) AS recipient_hash,
    max(toString(e.country)) AS country,
    toString(argMax(e.status, e.ver)) AS status,
    argMax(e.at, e.ver) AS status_at,
    argMax(toString(e.reason), e.ver) AS reason,
    max(e.attempt) AS attempts,
    min(e.accepted_at) AS accepted_at,
    min(if(e.status = 'queued', e.at, NULL)) AS queued_at,
    min(if(e.status = 'sent', e.at, NULL)) AS sent_at,
    min(if(e.status = 'delivered', e.at, NULL)) AS delivered_at,
    min(if(e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), e.at, NULL)) AS ended_at,
    -- of the latest event that names a provider, and a price
    argMaxIf(toString(e.provider), (e.at, e.status_offset), e.provider != '') AS provider,
    argMaxIf(e.provider_message_id, (e.at, e.status_offset), e.provider != '') AS provider_message_id,
    argMax(toString(e.error_code), e.ver) AS error_code,
    argMax(e.error, e.ver) AS error,
    argMax(toString(e.`limit`), e.ver) AS `limit`,
    argMax(toString(e.`window`), e.ver) AS `window`,
    argMax(tuple(e.retry_at), e.ver).1 AS retry_at, -- in a tuple, or the latest that is not NULL would be taken
    max(e.segments) AS segments,
    argMaxIf(e.price, (e.at, e.status_offset), e.price != 0 OR e.currency != '') AS price,
    argMaxIf(toString(e.currency), (e.at, e.status_offset), e.price != 0 OR e.currency != '') AS currency,
    argMax(e.duplicate_of, e.ver) AS duplicate_of,
    argMax(e.redrive_of, e.ver) AS redrive_of
FROM (
    -- ver: the highest rank, and among equals the latest
    SELECT *, (toUInt8(multiIf(status = 'delivered', 4, status = 'undelivered', 3,
        status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2,
        status = 'accepted', 0, 1)), at, status_offset) AS ver
    FROM status_events
    WHERE kind = 'status' AND message_id != ''
) AS e
GROUP BY message_id;

DROP VIEW IF EXISTS status_log_2_to_messages_state;
DROP VIEW IF EXISTS status_log_to_messages_state;
DROP TABLE IF EXISTS messages_state;

-- +goose Down
-- Everything in here is min, max or argMax: applied twice it is the same.
CREATE TABLE IF NOT EXISTS messages_state (
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
) ENGINE = AggregatingMergeTree
ORDER BY message_id
TTL toDateTime(last_at) + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_to_messages_state TO messages_state AS
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

CREATE MATERIALIZED VIEW IF NOT EXISTS status_log_2_to_messages_state TO messages_state AS
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

-- A block that was on its way meanwhile met neither view. What comes twice is the
-- same.
SELECT sleepEachRow(0.5) FROM (SELECT 1 FROM status_events LIMIT 4) FORMAT Null;

INSERT INTO messages_state (message_id, tenant, channel, class, template, `to`, recipient_hash, country, attempts, segments, accepted_at, queued_at, sent_at, delivered_at, ended_at, last_at, latest, handled, paid)
SELECT
    message_id,
    max(toString(l.tenant)) AS tenant,
    max(toString(l.channel)) AS channel,
    max(toString(l.class)) AS class,
    max(toString(l.template)) AS template,
    max(l.`to`) AS `to`,
    max(l.recipient_hash) AS recipient_hash,
    max(toString(l.country)) AS country,
    max(l.attempt) AS attempts,
    max(l.segments) AS segments,
    min(l.accepted_at) AS accepted_at,
    min(if(l.status = 'queued', l.at, NULL)) AS queued_at,
    min(if(l.status = 'sent', l.at, NULL)) AS sent_at,
    min(if(l.status = 'delivered', l.at, NULL)) AS delivered_at,
    min(if(l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), l.at, NULL)) AS ended_at,
    max(l.at) AS last_at,
    argMaxState(
        (toString(l.status), l.at, toString(l.reason), toString(l.error_code), l.error, toString(l.`limit`), toString(l.`window`),
            l.retry_at, l.duplicate_of, l.redrive_of),
        (toUInt8(multiIf(l.status = 'delivered', 4, l.status = 'undelivered', 3,
            l.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2,
            l.status = 'accepted', 0, 1)), l.at, l.status_offset)) AS latest,
    argMaxIfState((toString(l.provider), l.provider_message_id), (l.at, l.status_offset), l.provider != '') AS handled,
    argMaxIfState((l.price, toString(l.currency)), (l.at, l.status_offset), l.price != 0 OR l.currency != '') AS paid
FROM status_events AS l
WHERE l.kind = 'status' AND l.message_id != ''
GROUP BY message_id
SETTINGS optimize_aggregation_in_order = 1;

CREATE OR REPLACE VIEW messages AS
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
