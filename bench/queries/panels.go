package main

import (
	"context"
	"time"

	"github.com/weirhq/weir/deploy/grafana"
)

// panels are the queries of the dashboards that ask ClickHouse, over the whole day.
func (b *bench) panels() []question {
	var out []question
	for _, q := range grafana.Queries(b.end.Add(-24*time.Hour), b.end, nil) {
		if q.Source == grafana.ClickHouse {
			out = append(out, question{"Grafana: " + q.Dashboard + ", " + q.Panel + " " + q.Ref, time.Second, func(ctx context.Context, p person) (int, error) {
				one := grafana.Queries(b.end.Add(-24*time.Hour), b.end, map[string]string{"message": p.id})
				for _, o := range one {
					if o.Dashboard == q.Dashboard && o.Panel == q.Panel && o.Ref == q.Ref {
						return b.post(ctx, o.Text)
					}
				}
				return 0, nil
			}})
		}
	}
	return out
}
