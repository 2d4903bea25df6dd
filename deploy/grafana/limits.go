package grafana

// limits says who is refused, by what, and what a limit that only observes would
// do.
func limits() Dashboard {
	return Dashboard{
		UID: "weir-limits", Title: "Weir / Limits", From: "now-24h",
		About: "What the limits let through and refuse, and what those that only observe would.",
		Vars:  []Var{tenantVar, classVar, jobVar},
		Rows: []Row{
			{Title: "Refusals", Height: 8, Panels: []Panel{
				{
					Title: "Refused a minute, by limit and window", Kind: Series, Unit: "short", Stacked: true,
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "limit", "refused"), Legend: "limit", Text: "SELECT $__timeInterval(minute) AS time, concat(`limit`, ' ', `window`) AS limit, sum(refusals) * 60 / $__interval_s AS refused" + `
FROM limits_by_minute
WHERE $__timeFilter(minute) AND refusals > 0 AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, limit`}},
				},
				{
					Title: "Would have refused a minute (mode observe)", Kind: Series, Unit: "short", Stacked: true,
					About: "What changes for users once the limit enforces. docs/sql.md has the recipients.",
					Queries: []Ask{{Source: ClickHouse, Columns: cols("time", "limit", "observed"), Legend: "limit", Text: "SELECT $__timeInterval(minute) AS time, concat(`limit`, ' ', `window`) AS limit, sum(l.observed) * 60 / $__interval_s AS observed" + `
FROM limits_by_minute AS l
WHERE $__timeFilter(minute) AND l.observed > 0 AND ` + byTenantClass + `
GROUP BY ALL
ORDER BY time, limit`}},
				},
				{
					Title: "Refused now (as workers count)", Kind: Series, Unit: "reqps", Stacked: true,
					About:   "Without ClickHouse between: each window that was full, by mode. Compare when the sink is behind.",
					Queries: []Ask{promql("{{limit}} {{window}} {{mode}}", `sum by (limit, window, mode) (rate(weir_limit_refusals_total{job=~"$job"}[$__rate_interval]))`)},
				},
			}},
			{Title: "Shares", Height: 8, Panels: []Panel{
				{
					Title: "Limits", Kind: Table, Unit: "short", Units: map[string]string{"refused_share": "percentunit"},
					About: "`places` are messages that were let through; `refused_share` is of both.",
					Queries: []Ask{sql(cols("limit", "places", "refused", "observed", "refused_share"), "SELECT `limit`, sum(l.places) AS places, sum(l.refusals) AS refused, sum(l.observed) AS observed, refused / nullIf(places + refused, 0) AS refused_share"+`
FROM limits_by_minute AS l
WHERE $__timeFilter(minute) AND `+byTenantClass+`
GROUP BY limit
ORDER BY refused DESC, observed DESC, limit`)},
				},
				{
					Title: "Refused, by tenant and class", Kind: Table, Unit: "short",
					Queries: []Ask{sql(cols("tenant", "class", "limit", "window", "refused", "observed"), "SELECT tenant, class, `limit`, `window`, sum(l.refusals) AS refused, sum(l.observed) AS observed"+`
FROM limits_by_minute AS l
WHERE $__timeFilter(minute) AND l.refusals + l.observed > 0 AND `+byTenantClass+`
GROUP BY tenant, class, limit, window
ORDER BY refused DESC, observed DESC, tenant, class, limit, window
LIMIT 100`)},
				},
				{
					Title: "Decisions a second, by verdict", Kind: Series, Unit: "reqps", Stacked: true, Runbook: []string{"WeirNothingDecided"},
					About:   "As workers count. Of classes that the policy does not declare they know `other` only.",
					Queries: []Ask{promql("{{verdict}}", `sum by (verdict) (rate(weir_admission_decisions_total{job=~"$job", class=~"$class"}[$__rate_interval]))`)},
				},
			}},
			{Title: "Who", Height: 9, Panels: []Panel{
				{
					Title: "Refused most", Kind: Table, Unit: "short", Width: 14,
					Links: map[string]string{"message_id": messageLink},
					About: "Recipients, the middle of each hidden, with their latest refused message: a click leads to why.",
					Queries: []Ask{sql(cols("recipient", "tenant", "class", "limit", "refused", "last_at", "free_again", "message_id"), "SELECT\n    concat(substringUTF8(any(`to`), 1, 4), '…', substringUTF8(any(`to`), -2)) AS recipient,"+`
    tenant, class, argMax(concat(`+"`limit`, ' ', `window`"+`), at) AS limit, count() AS refused, max(at) AS last_at, max(retry_at) AS free_again, argMax(message_id, at) AS message_id
FROM status_events
WHERE `+refusedThen+` AND (recipient_hash, tenant, class) IN (
    SELECT recipient_hash, tenant, class
    FROM status_events
    WHERE `+refusedThen+`
    GROUP BY recipient_hash, tenant, class
    ORDER BY count() DESC, max(at) DESC, recipient_hash
    LIMIT 50
)
GROUP BY recipient_hash, tenant, class
ORDER BY refused DESC, last_at DESC, recipient_hash`)},
				},
				{
					Title: "Refused by the API's own rates (429), a second", Kind: Series, Unit: "reqps", Stacked: true,
					About:   "A caller that asks too often, whatever about: docs/api-limits.md.",
					Queries: []Ask{promql("{{kind}}", `sum by (kind) (rate(weir_http_rate_limited_total{job=~"$job"}[$__rate_interval]))`)},
				},
			}},
		},
	}
}

// refusedThen is of "Refused most", which finds out who that is first and reads texts
// and ids of those alone: half of what it costs to keep those of everybody.
const refusedThen = "$__timeFilter(at) AND status = 'limited' AND " + byTenantClass
