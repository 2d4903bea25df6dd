package grafana

// overview is the first page of whoever is paged: is it us, is it a provider, is
// it a limit, and since when.
func overview() Dashboard {
	return Dashboard{
		UID: "weir-overview", Title: "Weir / Overview", From: "now-6h",
		About: "What goes in, what comes out, how fast, and what is in the way.",
		Vars:  []Var{tenantVar, classVar, jobVar},
		Rows: []Row{
			{Title: "Is it as it always is?", Height: 8, Panels: []Panel{
				{
					Title: "Success now, and at this time of the last 7 days", Kind: Series, Unit: "percentunit", Max: at(1),
					About: "Sent of all that ended by a provider's doing: sent, failed, unknown, expired. `usual` is the mean of the same minutes of the seven days before.",
					Queries: []Ask{sql(cols("time", "now", "usual"), `SELECT
    $__timeInterval(minute + toIntervalDay(days)) AS time,
    sumIf(good, days = 0) / nullIf(sumIf(ends, days = 0), 0) AS now,
    sumIf(good, days > 0) / nullIf(sumIf(ends, days > 0), 0) AS usual
FROM (
    SELECT minute, sumIf(events, status = 'sent') AS good, sum(events) AS ends
    FROM status_by_minute_state
    WHERE minute >= $__fromTime - INTERVAL 7 DAY AND minute <= $__toTime AND `+triedEnds+`
        AND `+byTenantClass+`
    GROUP BY minute
)
ARRAY JOIN range(8) AS days
WHERE $__timeFilter(minute + toIntervalDay(days))
GROUP BY time
ORDER BY time`)},
				},
				{
					Title: "Sent a minute, now and at this time of the last 7 days", Kind: Series, Unit: "short", Min: at(0),
					About: "`usual` is the mean of those of the seven days before that sent anything at that time.",
					Queries: []Ask{sql(cols("time", "now", "usual"), `SELECT
    $__timeInterval(minute + toIntervalDay(days)) AS time,
    sumIf(good, days = 0) * 60 / $__interval_s AS now,
    sumIf(good, days > 0) * 60 / $__interval_s / nullIf(uniqExactIf(days, days > 0), 0) AS usual
FROM (
    SELECT minute, sum(events) AS good
    FROM status_by_minute_state
    WHERE minute >= $__fromTime - INTERVAL 7 DAY AND minute <= $__toTime AND status = 'sent'
        AND `+byTenantClass+`
    GROUP BY minute
)
ARRAY JOIN range(8) AS days
WHERE $__timeFilter(minute + toIntervalDay(days))
GROUP BY time
ORDER BY time`)},
				},
			}},
			{Title: "Traffic", Height: 9, Panels: []Panel{
				{
					Title: "Events a minute, by status", Kind: Series, Unit: "short", Stacked: true,
					About: "Every step of every message. A message has several: queued, sending, sent.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "status", "events"), Legend: "status", Text: `SELECT $__timeInterval(minute) AS time, toString(status) AS status, sum(events) * 60 / $__interval_s AS events
FROM status_by_minute_state
WHERE $__timeFilter(minute) AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, status`}},
				},
				{
					Title: "Accepted to sent, by class", Kind: Series, Unit: "ms", Min: at(0),
					About: "From the request's append to Kafka to the provider's acceptance, waits of every kind included.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "class", "p50", "p95", "p99"), Legend: "class", Text: `SELECT time, class, q[1] AS p50, q[2] AS p95, q[3] AS p99
FROM (
    SELECT $__timeInterval(minute) AS time, class, quantilesTDigestMerge(0.5, 0.95, 0.99)(latency) AS q
    FROM status_by_minute_state
    WHERE $__timeFilter(minute) AND status = 'sent' AND ` + byTenantClass + `
    GROUP BY time, class
)
ORDER BY time, class`}},
				},
			}},
			{Title: "What is in the way", Height: 8, Panels: []Panel{
				{
					Title: "Refused a minute, by limit", Kind: Series, Unit: "short", Stacked: true,
					About: "Messages that a limit refused or made wait.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "limit", "refused"), Legend: "limit", Text: "SELECT $__timeInterval(minute) AS time, concat(`limit`, ' ', `window`) AS limit, sum(refusals) * 60 / $__interval_s AS refused" + `
FROM limits_by_minute
WHERE $__timeFilter(minute) AND refusals > 0 AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, limit`}},
				},
				{
					Title: "Lag by stage", Kind: Series, Unit: "s", Min: at(0), Runbook: []string{"WeirAdmissionLag", "WeirSinkLag"},
					About: "How old the record at the head is when the stage takes it. Lanes may well wait for a provider's pace.",
					Queries: []Ask{
						promql("{{stage}}", `max by (stage) (weir_topic_lag_seconds{job=~"$job"})`),
						promql("ClickHouse", `max(weir_status_lag_seconds{job=~"$job"})`),
					},
				},
				{
					Title: "Into the DLQ, an hour", Kind: Series, Unit: "short", Min: at(0), Runbook: []string{"WeirDLQGrows"},
					About:   "docs/dlq.md says what each reason means and how to send them again.",
					Queries: []Ask{promql("{{reason}}", `sum by (reason) (rate(weir_dlq_records_total{job=~"$job"}[$__rate_interval])) * 3600`)},
				},
			}},
			{Title: "Who", Height: 9, Panels: []Panel{
				{
					Title: "By tenant and class", Kind: Table, Unit: "short",
					Units: map[string]string{"success": "percentunit", "p95": "ms"},
					About: "Of the chosen time. `success` as above.",
					Queries: []Ask{sql(cols("tenant", "class", "sent", "delivered", "failed", "limited", "success", "p95"), `SELECT
    tenant, class,
    sumIf(s.events, status = 'sent') AS sent,
    sumIf(s.events, status = 'delivered') AS delivered,
    sumIf(s.events, status IN ('failed', 'unknown', 'expired')) AS failed,
    sumIf(s.events, status = 'limited') AS limited,
    sent / nullIf(sent + failed, 0) AS success,
    if(sent = 0, NULL, quantilesTDigestMergeIf(0.5, 0.95, 0.99)(latency, status = 'sent')[2]) AS p95
FROM status_by_minute_state AS s
WHERE $__timeFilter(minute) AND `+byTenantClass+`
GROUP BY tenant, class
ORDER BY sent + failed + limited DESC, tenant, class
LIMIT 100`)},
				},
				{
					Title: "HTTP answers a second", Kind: Series, Unit: "reqps", Stacked: true, Runbook: []string{"WeirHTTPErrors"},
					About:   "429 is a recipient's limit (Prefer: wait) or a caller's own rate; 503 is Kafka that does not answer.",
					Queries: []Ask{promql("{{code}}", `sum by (code) (rate(weir_http_request_seconds_count{job=~"$job"}[$__rate_interval]))`)},
				},
			}},
		},
	}
}
