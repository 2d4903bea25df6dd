package main

import (
	"context"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// overHTTP are the questions that HTTP and the receipts stage ask of the store, as
// the API and the console send them. Looking for a beginning of an id is none: the
// console takes a whole id, or else a recipient, and asks by that.
func (b *bench) overHTTP(h warehouse.History, scattered, late []person) []question {
	const most = 10_000 // counts, as the API has it
	ago := func(d time.Duration) schemas.Millis { return schemas.MillisOf(b.end.Add(-d)) }
	search := func(name string, bound time.Duration, of func(p person) history.Search) question {
		return question{"HTTP: " + name, bound, func(ctx context.Context, p person) (int, error) {
			q := of(p)
			q.Tenant, q.Limit = p.tenant, q.Limit+1 // one more says whether there is a next page
			found, err := h.Search(ctx, q)
			if err != nil {
				return 0, err
			}
			return len(found.Events), nil
		}}
	}
	tally := func(name string, q history.Tally) question {
		return question{"HTTP: " + name, time.Second, func(ctx context.Context, p person) (int, error) {
			q := q
			q.Tenant, q.Most = p.tenant, most
			c, err := h.Tally(ctx, q)
			if err != nil {
				return 0, err
			}
			return len(c.Counts) + len(c.Limits) + len(c.Before), nil
		}}
	}
	refused := func(name string, of time.Duration, most int) question {
		return question{"HTTP: " + name, time.Second, func(ctx context.Context, p person) (int, error) {
			c, err := h.Refused(ctx, history.Refused{Tenant: p.tenant, From: ago(of), Until: ago(0), Most: most})
			return len(c), err
		}}
	}
	failed := func(name string, of time.Duration) question {
		return question{"HTTP: " + name, time.Second, func(ctx context.Context, p person) (int, error) {
			c, err := h.Errors(ctx, history.Errors{Tenant: p.tenant, From: ago(of), Until: ago(0), Most: 200})
			return len(c), err
		}}
	}
	// A receipt comes seconds after its message, as a rule: so those of one
	// transaction are neighbours. Those of a whole day are the worst that may be.
	handed := func(name string, bound time.Duration, others []person, of func(p person) history.Handed) question {
		return question{"receipts: " + name, bound, func(ctx context.Context, p person) (int, error) {
			asked := []history.Handed{of(p)}
			for _, o := range others {
				asked = append(asked, of(o))
			}
			found, err := h.Handed(ctx, asked)
			return len(found), err
		}}
	}
	suppressed := func(name string, of func(p person) history.Suppressions) question {
		return question{"HTTP: " + name, time.Second, func(ctx context.Context, p person) (int, error) {
			q := of(p)
			q.Tenant, q.At, q.Limit = p.tenant, ago(0), 51
			found, err := h.Suppressions(ctx, q)
			return len(found), err
		}}
	}
	const hour, day = time.Hour, 24 * time.Hour
	under := []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying}
	return []question{
		{"HTTP: a message by id", 30 * time.Millisecond, func(ctx context.Context, p person) (int, error) {
			events, err := h.Message(ctx, p.id)
			return len(events), err
		}},
		search("a recipient's messages, a page of 50", 100*time.Millisecond, func(p person) history.Search { return history.Search{To: []string{p.to}, Limit: 50} }),
		search("a recipient's messages, the console's page of 100", 100*time.Millisecond, func(p person) history.Search { return history.Search{To: []string{p.to}, Limit: 100} }),
		search("the newest messages, the console's page of 500", time.Second, func(person) history.Search { return history.Search{Limit: 500} }),
		search("the newest that failed, 500", time.Second, func(person) history.Search {
			return history.Search{Statuses: []schemas.Status{schemas.StatusFailed}, Limit: 500}
		}),
		search("the newest of a class, 500", time.Second, func(person) history.Search { return history.Search{Class: "marketing", Limit: 500} }),
		search("the newest of a class that nobody has", time.Second, func(person) history.Search { return history.Search{Class: "nobody-has-it", Limit: 500} }),
		search("overview, what is under way, 500", time.Second, func(person) history.Search { return history.Search{Statuses: under, From: ago(day), Limit: 500} }),
		// Latencies as the API has them where nobody says.
		tally("overview, this hour with those of 7 days before", history.Tally{From: ago(hour), Until: ago(0), Days: 7, Latency: true, LatencyBefore: true}),
		tally("overview, this hour by minute", history.Tally{From: ago(hour), Until: ago(0), By: []history.Dimension{history.ByMinute}, Latency: true}),
		tally("overview, yesterday's hour by minute", history.Tally{From: ago(day + hour), Until: ago(day), By: []history.Dimension{history.ByMinute}, Latency: true}),
		refused("overview, who was refused most this hour", hour, 8),
		failed("overview and providers, error codes of this hour", hour),
		tally("providers, this hour", history.Tally{From: ago(hour), Until: ago(0), By: []history.Dimension{history.ByProvider}, Latency: true}),
		tally("limits, a day", history.Tally{From: ago(day), Until: ago(0), Latency: true}),
		tally("counts of a day by hour, with 7 days before", history.Tally{From: ago(day), Until: ago(0), By: []history.Dimension{history.ByHour}, Days: 7, Latency: true}),
		tally("counts of 8 days by hour", history.Tally{From: ago(8 * day), Until: ago(0), By: []history.Dimension{history.ByHour}}),
		failed("error codes of a day", day),
		refused("who was refused most in a day", day, 20),
		suppressed("suppressions, the first page", func(person) history.Suppressions { return history.Suppressions{} }),
		suppressed("suppressions, a page somewhere", func(p person) history.Suppressions {
			return history.Suppressions{After: history.Suppressed{To: p.to}}
		}),
		suppressed("suppressions of one reason", func(person) history.Suppressions { return history.Suppressions{Reason: "complaint"} }),
		handed("a provider's id, back to the message", time.Second, nil, byTheirs),
		handed("1,000 providers' ids of the last seconds", time.Second, late[:999], byTheirs),
		handed("1,000 of Weir's ids of the last seconds", time.Second, late[:999], byOurs),
		handed("1,000 providers' ids of all day", 2*time.Second, scattered[:999], byTheirs), // within which the stage is to have an answer
	}
}

func byOurs(p person) history.Handed { return history.Handed{MessageID: p.id} }

func byTheirs(p person) history.Handed {
	return history.Handed{Provider: p.handler, ProviderMessageID: p.provider}
}
