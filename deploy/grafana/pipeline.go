package grafana

// pipeline says whether Weir itself is well, stage by stage.
func pipeline() Dashboard {
	return Dashboard{
		UID: "weir-pipeline", Title: "Weir / Pipeline health", From: "now-3h",
		About: "The stages, the clock, what waits, the sink, the HTTP door. docs/runbook.md says what to do.",
		Vars:  []Var{jobVar},
		Rows: []Row{
			{Title: "At a glance", Height: 4, Panels: []Panel{
				{
					Title: "Workers", Kind: Stat, Unit: "short", Width: 2,
					About: "Processes that Prometheus reaches.", Runbook: []string{"WeirNobodyWorks", "WeirWorkerAway"},
					Queries: []Ask{promql("", `count(weir_policy_void_records_total{job=~"$job"})`)},
				},
				{
					Title: "Difference in ClickHouse", Kind: Stat, Unit: "short", Warn: at(1),
					About: "Rows that are missing or stand twice, among those loaded lately. Must be 0. Nothing is shown before a sink has compared.", Runbook: []string{"WeirSinkDifference"},
					Queries: []Ask{promql("", `sum(weir_sink_difference{job=~"$job"})`)},
				},
				{
					Title: "Violations", Kind: Stat, Unit: "short", Warn: at(1), Width: 2,
					About: "What the last audit found wrong. Must be 0. Nothing is shown before the first weir audit.", Runbook: []string{"WeirAuditViolated", "WeirAuditStopped"},
					Queries: []Ask{promql("", `max(weir_audit_violations{job=~"$job"})`)},
				},
				{
					Title: "Slowest stage", Kind: Stat, Unit: "s", Warn: at(60),
					About:   "Lanes apart, which wait for their providers' pace as they should.",
					Queries: []Ask{promql("", `max(weir_topic_lag_seconds{job=~"$job", stage!="lanes"})`)},
				},
				{
					Title: "Stamped ahead of Kafka's clock", Kind: Stat, Unit: "s", Warn: at(1),
					About: "Beyond 2 s nothing is decided until the clocks meet.", Runbook: []string{"WeirClockAhead"},
					Queries: []Ask{promql("", `max(weir_admission_clock_ahead_seconds{job=~"$job"})`)},
				},
				{
					Title: "Waiting in delays", Kind: Stat, Unit: "short",
					Queries: []Ask{promql("", `sum(weir_delay_waiting{job=~"$job"})`)},
				},
				{
					Title: "Into the DLQ, last hour", Kind: Stat, Unit: "short", Warn: at(1),
					Queries: []Ask{promql("", `sum(increase(weir_dlq_records_total{job=~"$job"}[1h])) or vector(0)`)},
				},
			}},
			{Title: "Stages", Height: 8, Panels: []Panel{
				{
					Title: "Lag by stage", Kind: Series, Unit: "s", Min: at(0),
					About: "How old the record at the head is when the stage takes it; 0 when nothing waits.", Runbook: []string{"WeirAdmissionLag", "WeirTellingLate"},
					Queries: []Ask{promql("{{stage}} {{instance}}", `max by (stage, instance) (weir_topic_lag_seconds{job=~"$job"})`)},
				},
				{
					Title: "Left in Kafka, by stage", Kind: Series, Unit: "s", Min: at(0),
					About: "For how long a record has been left, as Kafka says: of a stage that nobody runs too, of which the panel beside knows nothing. 0 below two minutes; one process must have the role alerts.", Runbook: []string{"WeirNothingDecided", "WeirTellingLate"},
					Queries: []Ask{promql("{{stage}}", `max by (stage) (weir_stage_behind_seconds{job=~"$job"})`)},
				},
				{
					Title: "Commit of admission", Kind: Series, Unit: "s", Min: at(0),
					About: "From a transaction's first record to its commit.",
					Queries: []Ask{
						promql("p50", `histogram_quantile(0.5, sum by (le) (rate(weir_admission_commit_seconds_bucket{job=~"$job"}[$__rate_interval])))`),
						promql("p99", `histogram_quantile(0.99, sum by (le) (rate(weir_admission_commit_seconds_bucket{job=~"$job"}[$__rate_interval])))`),
					},
				},
				{
					Title: "Restores", Kind: Series, Unit: "s", Min: at(0),
					About: "Mean time to restore partitions, in the last hour: after a restart or a rebalance. Nothing of theirs is decided meanwhile.", Runbook: []string{"WeirRestoreLong"},
					Queries: []Ask{promql("{{instance}}", `sum by (instance) (increase(weir_admission_restore_seconds_sum{job=~"$job"}[1h])) / (sum by (instance) (increase(weir_admission_restore_seconds_count{job=~"$job"}[1h])) > 0) or sum by (instance) (weir_admission_restore_seconds_sum{job=~"$job"} / weir_admission_restore_seconds_count{job=~"$job"})`)},
				},
			}},
			{Title: "Clock, delays, DLQ, callbacks", Height: 8, Panels: []Panel{
				{
					Title: "Clocks", Kind: Series, Unit: "s",
					About: "Admission: stamps ahead of the broker's clock. Delay: by how much this machine's clock was put right.",
					Queries: []Ask{
						promql("admission {{instance}}", `weir_admission_clock_ahead_seconds{job=~"$job"}`),
						promql("delay {{instance}}", `weir_delay_clock_moved_seconds{job=~"$job"}`),
					},
				},
				{
					Title: "Waiting, by delay tier", Kind: Series, Unit: "short", Stacked: true,
					About: "Scheduled, deferred and to be retried, each in the tier of its wait.", Runbook: []string{"WeirDelayLate"},
					Queries: []Ask{promql("{{tier}}", `sum by (tier) (weir_delay_waiting{job=~"$job"})`)},
				},
				{
					Title: "Into the DLQ, an hour, by reason", Kind: Series, Unit: "short", Stacked: true, Runbook: []string{"WeirDLQGrows", "WeirForeignRecords"},
					Queries: []Ask{promql("{{reason}}", `sum by (reason) (rate(weir_dlq_records_total{job=~"$job"}[$__rate_interval])) * 3600`)},
				},
				{
					Title: "Callbacks a minute, by outcome", Kind: Series, Unit: "short", Stacked: true,
					About: "Failed and refused ones are tried again, for three days; given up, disabled and withdrawn ones are not.", Runbook: []string{"WeirCallbacksGivenUp"},
					Queries: []Ask{promql("{{outcome}}", `sum by (outcome) (rate(weir_callbacks_total{job=~"$job"}[$__rate_interval])) * 60`)},
				},
			}},
			{Title: "ClickHouse", Height: 8, Panels: []Panel{
				{
					Title: "Sink lag", Kind: Series, Unit: "s", Min: at(0),
					About: "Age of the oldest record that was read and is not yet confirmed to be in ClickHouse.", Runbook: []string{"WeirSinkLag"},
					Queries: []Ask{promql("{{instance}}", `weir_status_lag_seconds{job=~"$job"}`)},
				},
				{
					Title: "Rows a second", Kind: Series, Unit: "rowsps", Min: at(0),
					Queries: []Ask{promql("rows", `sum(rate(weir_status_rows_total{job=~"$job"}[$__rate_interval]))`)},
				},
				{
					Title: "Difference, failed inserts, lost offsets", Kind: Series, Unit: "short", Min: at(0),
					About: "A difference must be 0. A failed insert is tried again. Offsets that Kafka deleted before they were loaded are lost to ClickHouse.", Runbook: []string{"WeirSinkDifference", "WeirSinkLost"},
					Queries: []Ask{
						promql("difference", `sum(weir_sink_difference{job=~"$job"})`),
						promql("failed inserts a minute", `sum(rate(weir_sink_insert_failures_total{job=~"$job"}[$__rate_interval])) * 60`),
						promql("lost offsets", `sum(weir_sink_skipped_offsets_total{job=~"$job"})`),
					},
				},
				{
					Title: "What could not be read", Kind: Table, Unit: "short",
					About: "Records of weir.status that are no events, or have a price that does not fit (poison), and holes in the decision log of each partition in the chosen time: there must be none of either.", Runbook: []string{"WeirSinkPoison"},
					Queries: []Ask{sql(cols("what", "partition", "records"), `SELECT what, partition, records
FROM (
    SELECT 'poison' AS what, status_partition AS partition, toInt64(count()) AS records
    FROM status_events
    WHERE message_id = '' AND kind = 'poison' AND $__timeFilter(at)
    GROUP BY partition
    UNION ALL
    SELECT 'hole in decisions' AS what, partition, toInt64(max(seq) - min(seq) + 1 - uniqExact(seq)) AS records
    FROM decisions
    WHERE $__timeFilter(at)
    GROUP BY partition
    HAVING records > 0
)
ORDER BY what, partition`)},
				},
			}},
			{Title: "HTTP", Height: 8, Panels: []Panel{
				{
					Title: "p99, by route", Kind: Series, Unit: "s", Min: at(0),
					About:   "Waiting for Kafka's acknowledgement, and with Prefer: wait for the decision, is in it.",
					Queries: []Ask{promql("{{route}}", `histogram_quantile(0.99, sum by (route, le) (rate(weir_http_request_seconds_bucket{job=~"$job"}[$__rate_interval])))`)},
				},
				{
					Title: "Answers a second, by code", Kind: Series, Unit: "reqps", Stacked: true, Runbook: []string{"WeirHTTPErrors"},
					Queries: []Ask{promql("{{code}}", `sum by (code) (rate(weir_http_request_seconds_count{job=~"$job"}[$__rate_interval]))`)},
				},
				{
					Title: "429 a second: callers beyond their rate", Kind: Series, Unit: "reqps", Stacked: true,
					Queries: []Ask{promql("{{kind}}", `sum by (kind) (rate(weir_http_rate_limited_total{job=~"$job"}[$__rate_interval]))`)},
				},
				{
					Title: "Connections", Kind: Series, Unit: "short", Min: at(0),
					About: "Shed: closed to make room for others.",
					Queries: []Ask{
						promql("open {{instance}}", `weir_http_connections{job=~"$job"}`),
						promql("shed a minute {{instance}}", `rate(weir_http_connections_shed_total{job=~"$job"}[$__rate_interval]) * 60`),
					},
				},
			}},
			{Title: "Processes", Height: 7, Panels: []Panel{
				{
					Title: "Memory", Kind: Series, Unit: "bytes", Min: at(0),
					Queries: []Ask{
						promql("{{instance}}", `process_resident_memory_bytes{job=~"$job"}`),
						promql("held by the sink {{instance}}", `weir_sink_held_bytes{job=~"$job"}`),
					},
				},
				{
					Title: "CPU", Kind: Series, Unit: "short", Min: at(0),
					About:   "Cores.",
					Queries: []Ask{promql("{{instance}}", `rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval])`)},
				},
				{
					Title: "Stuck and poison", Kind: Series, Unit: "s", Min: at(0),
					About: "For how long a stage has had work and committed nothing, and how many records an hour a stage could not process and ended.", Runbook: []string{"WeirStageStuck", "WeirPoison"},
					Queries: []Ask{
						promql("{{stage}} {{instance}}", `max by (instance, stage) (weir_stage_stuck_seconds{job=~"$job"})`),
						promql("poison {{stage}} {{reason}}", `sum by (stage, reason) (rate(weir_poison_records_total{job=~"$job"}[$__rate_interval])) * 3600`),
					},
				},
				{
					Title: "Bound topics", Kind: Series, Unit: "s", Min: at(0),
					About: "How old the last record of each topic of a producer's own was when it was passed on; docs/inputs.md. `stopped` is 1 for one that cannot be read.", Runbook: []string{"WeirInputStopped", "WeirInputLag"},
					Queries: []Ask{
						promql("{{topic}}", `max by (topic) (weir_input_lag_seconds{job=~"$job"})`),
						promql("{{topic}} stopped", `max by (topic) (weir_input_stopped{job=~"$job"})`),
					},
				},
			}},
		},
	}
}
