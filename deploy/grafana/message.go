package grafana

// messageLink leads from a table's cell to the page of that message.
const messageLink = "/d/weir-message?var-message=${__value.raw:percentencode}"

// message answers "what became of it, and why".
func message() Dashboard {
	return Dashboard{
		UID: "weir-message", Title: "Weir / One message", From: "now-24h",
		About: "All that is known of one message. The time range does not matter: its id does.",
		Vars:  []Var{messageVar},
		Rows: []Row{
			{Title: "Now", Height: 4, Panels: []Panel{
				{
					Title: "Where it stands", Kind: Table, Units: map[string]string{"seconds": "s"},
					About: "`seconds` from accepted to its end. docs/outcomes.md has every status.",
					Queries: []Ask{sql(cols("status", "reason", "tenant", "channel", "class", "recipient", "attempts", "provider", "accepted_at", "sent_at", "ended_at", "seconds", "error_code", "error", "limit", "window", "retry_at", "duplicate_of", "redrive_of"), "SELECT status, reason, tenant, channel, class, `to` AS recipient, attempts, provider, accepted_at, sent_at, ended_at,"+`
    dateDiff('millisecond', accepted_at, ended_at) / 1000 AS seconds, error_code, error, `+"`limit`, `window`"+`, retry_at, duplicate_of, redrive_of
FROM messages
WHERE `+theMessage)},
				},
			}},
			{Title: "Step by step", Height: 9, Panels: []Panel{
				{
					Title: "Timeline", Kind: Table, Width: 14, Units: map[string]string{"after": "ms"},
					About: "Every step, in order; `after` is the time since the step before.",
					Queries: []Ask{sql(cols("at", "after", "status", "reason", "attempt", "provider", "error_code", "error", "limit", "window", "retry_at"), "SELECT at, at_ms - lagInFrame(at_ms, 1, at_ms) OVER (ORDER BY at, status_partition, status_offset ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS after, toString(status) AS status,"+`
    reason, attempt, provider, error_code, error, `+"`limit`, `window`"+`, retry_at
FROM (SELECT *, toUnixTimestamp64Milli(at) AS at_ms FROM status_events WHERE `+theMessage+`)
ORDER BY at, status_partition, status_offset`)},
				},
				{
					Title: "Attempts", Kind: Table, Units: map[string]string{"took": "ms"},
					About: "Each call of a provider and what came of it.",
					Queries: []Ask{sql(cols("attempt", "provider", "began", "took", "outcome", "error_code", "error", "provider_message_id"), `SELECT attempt, any(provider) AS provider, minIf(at, status = 'sending') AS began,
    if(countIf(status != 'sending') = 0, NULL, toInt64(toUnixTimestamp64Milli(minIf(at, status != 'sending')) - toUnixTimestamp64Milli(began))) AS took,
    toString(argMaxIf(status, at, status NOT IN ('delivered', 'undelivered'))) AS outcome, max(error_code) AS error_code, max(error) AS error, max(provider_message_id) AS provider_message_id
FROM status_events
WHERE `+theMessage+` AND attempt > 0 AND status IN ('sending', 'retrying', 'sent', 'failed', 'unknown', 'delivered', 'undelivered')
GROUP BY attempt
ORDER BY attempt`)},
				},
			}},
			{Title: "Why", Height: 8, Panels: []Panel{
				{
					Title: "Decisions", Kind: Table,
					About: "What admission decided, in which partition, as which step of its log, under which revision of the policy. `onward` is the partition it went to next, -1 none.",
					Queries: []Ask{sql(cols("t", "partition", "seq", "revision", "verdict", "onward", "limit", "window", "observed", "charged"), "SELECT t, partition, seq, revision, verdict, onward, `limit`, `window`, observed, arrayStringConcat(arrayMap((l, s, c) -> concat(l, ' of ', s, ': ', toString(c)), charges.limit, charges.scope, charges.cost), ', ') AS charged"+`
FROM decisions
WHERE `+theDecisions+`
ORDER BY t, partition, seq`)},
				},
				{
					Title: "Evidence", Kind: Table,
					About: "The windows that were full as each decision saw them: `count` of `n` places taken, the oldest since.",
					Queries: []Ask{sql(cols("t", "partition", "seq", "limit", "scope", "window", "n", "count", "cost", "oldest"), `SELECT t, partition, seq,
    JSONExtractString(e, 'limit') AS limit, JSONExtractString(e, 'scope') AS scope, JSONExtractString(e, 'window') AS window,
    JSONExtractInt(e, 'n') AS n, JSONExtractInt(e, 'count') AS count, JSONExtractInt(e, 'cost') AS cost, parseDateTime64BestEffortOrNull(JSONExtractString(e, 'oldest'), 3, 'UTC') AS oldest
FROM decisions
ARRAY JOIN JSONExtractArrayRaw(evidence) AS e
WHERE `+theDecisions+`
ORDER BY t, partition, seq`)},
				},
			}},
			{Title: "Beside it", Height: 9, Panels: []Panel{
				{
					Title: "The recipient's latest messages", Kind: Table, Links: map[string]string{"message_id": messageLink},
					About: "Of the same tenant: what the limits counted, or still do.",
					Queries: []Ask{sql(cols("accepted_at", "message_id", "channel", "class", "status"), "SELECT accepted_at, message_id, channel, class, argMax(status, ver) AS status"+`
FROM messages_by_recipient
WHERE (tenant, `+"`to`"+`) IN (SELECT if(tenant = '', 'default', tenant), `+"`to` FROM status_events WHERE "+theMessage+" AND `to` != ''"+`)
GROUP BY accepted_at, message_id, channel, class
ORDER BY accepted_at DESC, message_id
LIMIT 100`)},
				},
			}},
		},
	}
}
