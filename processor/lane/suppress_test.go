package lane_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// suppressions are the committed requests of weir.requests, each of which must be a
// suppress request at its recipient's partition.
func (r *rig) suppressions() (out []schemas.Request) {
	r.t.Helper()
	for _, rec := range r.read(r.names.Requests()) {
		q, err := schemas.DecodeRequest(rec.Value, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := q.Validate(schemas.MillisOf(rec.Timestamp)); err != nil || q.Action != schemas.ActionSuppress {
			r.t.Errorf("%s: %v", rec.Value, err)
		}
		if string(rec.Key) != q.To || rec.Partition != schemas.PartitionOf(q.To, parts) {
			r.t.Errorf("under key %s in partition %d", rec.Key, rec.Partition)
		}
		out = append(out, *q)
	}
	return out
}

// TestSuppress: whom a provider says not to send to again is suppressed on this
// channel for this tenant, and no retry is made.
func TestSuppress(t *testing.T) {
	bounce := func(k provider.Kind) provider.Outcome {
		return provider.Outcome{Kind: k, Code: "no_such_mailbox", OfRecipient: true, Suppress: schemas.SuppressHardBounce}
	}
	for _, tt := range []struct {
		name   string
		o      provider.Outcome
		change func(*schemas.Envelope)
		end    schemas.Status
		tenant string // empty: nothing is asked
	}{
		{"permanent", bounce(provider.Permanent), nil, schemas.StatusFailed, "default"},
		{"another tenant's", bounce(provider.Permanent), func(e *schemas.Envelope) { e.Tenant = "acme" }, schemas.StatusFailed, "acme"},
		{"no tenant is the default one", bounce(provider.Permanent), func(e *schemas.Envelope) { e.Tenant = "" }, schemas.StatusFailed, "default"},
		{"transient", bounce(provider.Transient), nil, schemas.StatusFailed, "default"},
		{"throttled", bounce(provider.Throttled), nil, schemas.StatusFailed, "default"},
		{"unknown", bounce(provider.Unknown), nil, schemas.StatusUnknown, "default"},
		{"taken all the same", bounce(provider.Accepted), nil, schemas.StatusSent, "default"},
		{"permanent, and nobody's fault", provider.Outcome{Kind: provider.Permanent}, nil, schemas.StatusFailed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, oneProvider(nil, schemas.Class{Name: "hold", OnUnknown: schemas.UnknownHold}))
			r.fake.respond = always(tt.o)
			r.run(r.config("a"))
			r.dispatch(message{id: "m", class: "hold", change: tt.change})
			r.statuses("m", schemas.StatusSending, tt.end)
			var want []schemas.Request
			if tt.tenant != "" {
				want = append(want, schemas.Request{
					Action: schemas.ActionSuppress, To: "+8613800000000", Tenant: tt.tenant, Channel: schemas.ChannelSMS,
					Metadata: map[string]string{"reason": "hard_bounce", "provider": "p"},
				})
			}
			if d := cmp.Diff(want, r.suppressions()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSuppressOnce: transactions with an outcome in them fail, some twice, and the
// process ends between messages; each outcome that is committed has asked for its
// suppression once, and none has without.
func TestSuppressOnce(t *testing.T) {
	t.Parallel()
	r := newFakeRig(t, oneProvider(nil))
	refuse, refused := streamtest.RefuseOffsets(r.cluster)
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		refuse.Store(2)
		return provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressInvalid}
	}
	var want []string
	for i := range 4 {
		stop := r.run(r.config(fmt.Sprint("run", i)))
		id, to := fmt.Sprint("m", i), fmt.Sprintf("+861380000000%d", i)
		r.dispatch(message{id: id, key: to})
		r.statuses(id, schemas.StatusSending, schemas.StatusFailed)
		want = append(want, to)
		stop()
	}
	var got []string
	for _, q := range r.suppressions() {
		got = append(got, q.To)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("suppressed %v, want %v", got, want)
	}
	if refused.Load() < 8 {
		t.Fatalf("%d transactions were refused: the test shows nothing", refused.Load())
	}
}
