package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/bench/rig"
)

const (
	recipientLimit = "  - {name: verify, per: [recipient], allow: [5/60s, 10/1h, 20/calendar-day], timezone: Asia/Shanghai}\n"
	tenantLimit    = "  - {name: tenant, per: [tenant], allow: [2000/60s, 20000/1h]}\n"
	rateTenants    = 1000
)

type pair struct{ without, with float64 }

func (p pair) ratio() float64 { return p.with / p.without }

// rates measures one worker with and without a tenant-wide limit, in turns.
func (b *bench) rates(ctx context.Context) (string, error) {
	if b.records/rateTenants > 2000 {
		return "", fmt.Errorf("more than %d records: the tenants' limit would refuse some, and a refusal writes less", 2000*rateTenants)
	}
	one := func(limits, profile string) (float64, error) {
		w, err := b.newWorld(ctx, limits)
		if err != nil {
			return 0, err
		}
		defer w.Drop()
		if err := w.produce(ctx, rateTenants, func(string) bool { return true }); err != nil {
			return 0, err
		}
		stop, err := profiled(profile)
		if err != nil {
			return 0, err
		}
		defer stop()
		k, err := w.start(ctx, "rate")
		if err != nil {
			return 0, err
		}
		defer k.stop()
		return k.until(ctx, b.records, of("admit"))
	}
	if _, err := one(recipientLimit, ""); err != nil { // warms up the broker
		return "", err
	}
	var rows []pair
	for i := range b.runs {
		var p pair
		profile := ""
		if i == b.runs-1 {
			profile = b.profile
		}
		kinds := []func() (err error){
			func() (err error) { p.without, err = one(recipientLimit, ""); return err },
			func() (err error) { p.with, err = one(recipientLimit+tenantLimit, profile); return err },
		}
		if i%2 == 1 {
			slices.Reverse(kinds)
		}
		for _, measure := range kinds {
			if err := measure(); err != nil {
				return "", fmt.Errorf("run %d: %w", i+1, err)
			}
		}
		rows = append(rows, p)
		fmt.Fprintf(b.log, "run %d of %d: without %s, with %s, ratio %.2f\n", i+1, b.runs, thousands(p.without), thousands(p.with), p.ratio())
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# Admission with a tenant-wide limit\n%d requests a run over %d recipients and %d tenants, values of %d B, %d partitions,\n",
		b.records, b.recipients, rateTenants, b.valueBytes, b.partitions)
	t.WriteString("one worker, commits every 100 ms, all admitted. Without: three windows of the recipient. With: the same, and then two windows of the tenant, whose\n")
	fmt.Fprintf(&t, "owner is another partition for %d of %d messages: three decisions each instead of one. Messages admitted a second, from the first commit to the last.\n\n", b.partitions-1, b.partitions)
	t.WriteString("| run | recipient's limits alone | and a tenant-wide limit | ratio |\n|---|---|---|---|\n")
	for i, r := range rows {
		fmt.Fprintf(&t, "| %d | %s | %s | %.2f |\n", i+1, thousands(r.without), thousands(r.with), r.ratio())
	}
	for _, s := range rig.Stats {
		fmt.Fprintf(&t, "| **%s** | **%s** | **%s** | **%.2f** |\n", s.Name,
			thousands(rig.Of(s, rows, func(p pair) float64 { return p.without })), thousands(rig.Of(s, rows, func(p pair) float64 { return p.with })), rig.Of(s, rows, pair.ratio))
	}
	return t.String(), nil
}

func thousands(perSecond float64) string { return fmt.Sprintf("%.1f k/s", perSecond/1000) }
