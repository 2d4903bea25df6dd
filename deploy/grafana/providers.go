package grafana

// providers says which provider is ill, of what, and what Weir does about it.
func providers() Dashboard {
	return Dashboard{
		UID: "weir-providers", Title: "Weir / Providers", From: "now-6h",
		About: "How each provider answers, and what Weir does about it: breaker, weights, pace.",
		Vars:  []Var{tenantVar, classVar, providerVar, jobVar},
		Rows: []Row{
			{Title: "Now", Height: 6, Panels: []Panel{
				{
					Title: "Breaker", Kind: States, Unit: "short", Values: map[string]string{"0": "closed", "1": "half-open", "2": "open"}, Warn: at(2), Runbook: []string{"WeirBreakerOpen", "WeirLaneGone"},
					About:   "The worst lane of each provider. Open: no calls but probes; routes with another provider go there.",
					Queries: []Ask{promql("{{provider}}", `max by (provider) (weir_breaker_state{job=~"$job", provider=~"$provider"})`)},
				},
				{
					Title: "Backlog", Kind: Series, Unit: "short", Min: at(0), Runbook: []string{"WeirLaneStopped", "WeirUrgentWaits", "WeirBacklogLong"},
					About:   "Messages that wait for a call, by priority, as Kafka shows it. again has what came back, of all priorities.",
					Queries: []Ask{promql("{{provider}} {{queue}}", `max by (provider, queue) (weir_backlog_messages{job=~"$job", stage="lanes", provider=~"$provider"})`)},
				},
				{
					Title: "Share of its weight", Kind: Series, Unit: "percentunit", Min: at(0), Max: at(1),
					About:   "What routing gives it of what the policy says: less once it is degraded or open. A provider that nobody has said anything of is not here, and well.",
					Queries: []Ask{promql("{{provider}}", `min by (provider) (weir_routing_share{job=~"$job", provider=~"$provider"})`)},
				},
			}},
			{Title: "Answers", Height: 8, Panels: []Panel{
				{
					Title: "Success, by provider", Kind: Series, Unit: "percentunit", Max: at(1),
					About: "Sent of all that ended by a provider's doing: sent, failed, unknown, expired. A retry that saved a message counts as sent.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "provider", "success"), Legend: "provider", Text: `SELECT $__timeInterval(minute) AS time, provider, sumIf(events, status = 'sent') / sum(events) AS success
FROM status_by_minute_state
WHERE $__timeFilter(minute) AND provider != '' AND ` + triedEnds + ` AND ` + byProvider + `
    AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, provider`}},
				},
				{
					Title: "Calls a second, by outcome", Kind: Series, Unit: "reqps", Stacked: true,
					About:   "Every attempt: accepted, throttled, transient, permanent, unknown.",
					Queries: []Ask{promql("{{provider}} {{outcome}}", `sum by (provider, outcome) (rate(weir_lane_calls_total{job=~"$job", provider=~"$provider"}[$__rate_interval]))`)},
				},
				{
					Title: "Delivered of sent", Kind: Series, Unit: "percentunit", Min: at(0),
					About: "By receipts, when those came: over short times it can be beyond what was sent. Providers without receipts stay at 0.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "provider", "delivered"), Legend: "provider", Text: `SELECT $__timeInterval(minute) AS time, provider, sumIf(events, status = 'delivered') / nullIf(sumIf(events, status = 'sent'), 0) AS delivered
FROM status_by_minute_state
WHERE $__timeFilter(minute) AND provider != '' AND status IN ('sent', 'delivered') AND ` + byProvider + `
    AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, provider`}},
				},
			}},
			{Title: "Time", Height: 8, Panels: []Panel{
				{
					Title: "Call time", Kind: Series, Unit: "s", Min: at(0),
					Queries: []Ask{
						promql("{{provider}} p50", `histogram_quantile(0.5, sum by (provider, le) (rate(weir_lane_call_seconds_bucket{job=~"$job", provider=~"$provider"}[$__rate_interval])))`),
						promql("{{provider}} p99", `histogram_quantile(0.99, sum by (provider, le) (rate(weir_lane_call_seconds_bucket{job=~"$job", provider=~"$provider"}[$__rate_interval])))`),
					},
				},
				{
					Title: "Wait for the pace", Kind: Series, Unit: "s", Min: at(0), Runbook: []string{"WeirLaneStopped"},
					About: "How long the message at the head of a lane waited for its provider's pace. Long means: more is asked for than the provider takes.",
					Queries: []Ask{
						promql("{{provider}} p50", `histogram_quantile(0.5, sum by (provider, le) (rate(weir_pace_wait_seconds_bucket{job=~"$job", provider=~"$provider"}[$__rate_interval])))`),
						promql("{{provider}} p99", `histogram_quantile(0.99, sum by (provider, le) (rate(weir_pace_wait_seconds_bucket{job=~"$job", provider=~"$provider"}[$__rate_interval])))`),
					},
				},
				{
					Title: "Retries a minute", Kind: Series, Unit: "short", Min: at(0),
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "provider", "retries"), Legend: "provider", Text: `SELECT $__timeInterval(minute) AS time, provider, sum(events) * 60 / $__interval_s AS retries
FROM status_by_minute_state
WHERE $__timeFilter(minute) AND status = 'retrying' AND ` + byProvider + `
    AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, provider`}},
				},
			}},
			{Title: "What they say, and cost", Height: 9, Panels: []Panel{
				{
					Title: "Error codes", Kind: Table, Unit: "short", Width: 16,
					Links: map[string]string{"message_id": messageLink},
					About: "What ended messages, left them unknown or had them tried again, in the chosen time; with the latest message that it happened to.",
					Queries: []Ask{sql(cols("provider", "error_code", "example", "status", "events", "last_at", "message_id"), `SELECT provider, error_code, anyIf(error, error != '') AS example, toString(status) AS status, count() AS events, max(at) AS last_at, argMax(message_id, at) AS message_id
FROM status_events
WHERE $__timeFilter(at) AND kind = 'status' AND status IN ('failed', 'retrying', 'undelivered', 'unknown') AND provider != '' AND `+byProvider+`
    AND `+byTenantClass+`
GROUP BY provider, error_code, status
ORDER BY events DESC, provider, error_code, status
LIMIT 50`)},
				},
				{
					Title: "Cost", Kind: Table, Unit: "short",
					About: "Of what was sent in the chosen time, where the provider has a price.",
					Queries: []Ask{sql(cols("provider", "currency", "messages", "segments", "cost"), `SELECT provider, currency, count() AS messages, sum(segments) AS segments, toFloat64(sum(price)) AS cost
FROM status_events
WHERE $__timeFilter(at) AND status = 'sent' AND currency != '' AND `+byProvider+`
    AND `+byTenantClass+`
GROUP BY provider, currency
ORDER BY cost DESC, provider, currency`)},
				},
			}},
		},
	}
}
