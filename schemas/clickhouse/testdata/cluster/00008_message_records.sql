-- MessageRecords is the table of the legacy system, for the queries that its users
-- have: a row a message, with its names, states and times (docs/legacy.md). It is read
-- from the events, as messages is, and takes no rows.

-- +goose NO TRANSACTION
-- +goose Up
CREATE VIEW IF NOT EXISTS MessageRecords ON CLUSTER '{cluster}' AS
SELECT
    e.message_id AS TaskId,
    transform(max(toString(e.channel)), ['sms', 'email', 'push'], ['SMS', 'Email', 'AppPush'], max(toString(e.channel))) AS MessageType,
    max(toString(e.template)) AS TemplateCode,
    max(e.`to`) AS Recipient,
    argMaxIf(toString(e.provider), (e.at, e.status_offset), e.provider != '') AS Manufacturer,
    argMax(e.state, e.ver) AS SendStatus,
    -- an attempt that is to come has not failed yet
    toInt32(if(SendStatus IN ('队列中', '等待重试'), max(e.attempt), greatest(max(e.attempt), 1) - 1)) AS RetryCount,
    -- what the provider said, or else why; nothing where all is well
    if(SendStatus = '成功' OR countIf(e.state IN ('失败', '等待重试')) = 0, NULL,
        argMaxIf(multiIf(e.error != '', e.error, e.status = 'limited' AND e.`limit` != '', concat(e.`limit`, ' ', e.`window`), e.reason != '', toString(e.reason), toString(e.status)),
            (e.at, e.status_offset), e.state IN ('失败', '等待重试'))) AS FailureReason,
    coalesce(min(e.accepted_at), min(e.at)) AS CreatedAt,
    -- of the latest attempt; of what was handed over without a call of Weir's, when it was
    coalesce(max(if(e.status = 'sending', e.at, NULL)), min(if(e.status = 'sent', e.at, NULL))) AS SendTime,
    min(if(e.status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), e.at, NULL)) AS CompleteTime,
    max(toString(e.tenant)) AS Tenant,
    max(toString(e.class)) AS Class
FROM (
    -- ver: the highest rank, and among equals the latest
    SELECT *,
        multiIf(status IN ('accepted', 'scheduled', 'deferred', 'queued'), '队列中', status = 'sending', '发送中', status = 'retrying', '等待重试',
            status IN ('sent', 'delivered'), '成功', '失败') AS state,
        (toUInt8(multiIf(status = 'delivered', 4, status = 'undelivered', 3,
            status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2,
            status = 'accepted', 0, 1)), at, status_offset) AS ver
    FROM status_events
    WHERE kind = 'status' AND message_id != ''
) AS e
GROUP BY e.message_id;

-- +goose Down
DROP VIEW IF EXISTS MessageRecords ON CLUSTER '{cluster}';
