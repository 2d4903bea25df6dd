package simulated_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nyaruka/phonenumbers"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/simulated"
	"github.com/weirhq/weir/schemas"
)

func open(t *testing.T, receipts func(provider.Receipt)) provider.Provider {
	t.Helper()
	p, err := provider.Types{"simulated": {Open: simulated.Open}}.Open(schemas.Provider{Name: "sim", Type: "simulated"}, provider.Deps{Private: outbound.Loopback, Receipts: receipts})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMagicRecipients(t *testing.T) {
	for _, tt := range []struct {
		name, phone string
		kinds       []provider.Kind // by attempt
		maybe       bool
		receipt     schemas.Status
		after       time.Duration
	}{
		{name: "someone", phone: "+8613800000000", kinds: []provider.Kind{provider.Accepted}},
		{name: "permanent", phone: "+15005550001", kinds: []provider.Kind{provider.Permanent, provider.Permanent}},
		{name: "bounce", phone: "+15005550010", kinds: []provider.Kind{provider.Permanent, provider.Permanent}},
		{name: "throttled", phone: "+15005550002", kinds: []provider.Kind{provider.Throttled, provider.Throttled}},
		{name: "timeout", phone: "+15005550003", kinds: []provider.Kind{provider.Unknown, provider.Unknown}, maybe: true},
		{name: "transient", phone: "+15005550004", kinds: []provider.Kind{provider.Transient, provider.Transient}},
		{name: "delivered", phone: "+15005550005", kinds: []provider.Kind{provider.Accepted}, receipt: schemas.StatusDelivered, after: 100 * time.Millisecond},
		{name: "accepted", phone: "+15005550006", kinds: []provider.Kind{provider.Accepted}},
		{name: "late", phone: "+15005550007", kinds: []provider.Kind{provider.Accepted}, receipt: schemas.StatusDelivered, after: 5 * time.Second},
		{name: "undelivered", phone: "+15005550008", kinds: []provider.Kind{provider.Accepted}, receipt: schemas.StatusUndelivered, after: time.Second},
		{name: "maybe", phone: "+15005550009", kinds: []provider.Kind{provider.Transient}, maybe: true},
		{name: "transient-2", phone: "+15005550012", kinds: []provider.Kind{provider.Transient, provider.Transient, provider.Accepted}},
		{name: "throttled-1", phone: "+15005550021", kinds: []provider.Kind{provider.Throttled, provider.Accepted}},
		{name: "timeout-1", phone: "+15005550031", kinds: []provider.Kind{provider.Unknown, provider.Accepted}, maybe: true},
	} {
		if n, err := phonenumbers.Parse(tt.phone, ""); err != nil || !phonenumbers.IsValidNumber(n) {
			t.Errorf("%s: admission would reject %s", tt.name, tt.phone)
		}
		for _, to := range []string{tt.phone, tt.name + "@example.com", "simulated:" + tt.name, "https://example.com/x/" + tt.name} {
			t.Run(tt.name+" "+to, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					receipts := make(chan provider.Receipt, 4)
					p := open(t, func(r provider.Receipt) { receipts <- r })
					for i, want := range tt.kinds {
						started := time.Now()
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						o := p.Send(ctx, &provider.Call{ID: "m", To: to, Attempt: i + 1})
						cancel()
						took := time.Since(started)
						if o.Kind != want || o.MayBeReceived != (tt.maybe && want != provider.Accepted) {
							t.Errorf("attempt %d: %+v", i+1, o)
						}
						if want == provider.Throttled && o.RetryAfter != simulated.RetryAfter {
							t.Errorf("told to wait %v", o.RetryAfter)
						}
						if want == provider.Accepted && (o.ProviderMessageID == "" || o.Code != "") || want != provider.Accepted && o.Code == "" {
							t.Errorf("%+v", o)
						}
						if want != provider.Unknown && (took < 20*time.Millisecond || took > 80*time.Millisecond) {
							t.Errorf("took %v", took)
						}
					}
					time.Sleep(tt.after - time.Millisecond)
					synctest.Wait()
					if len(receipts) != 0 {
						t.Error("the receipt came early")
					}
					time.Sleep(10 * time.Second)
					synctest.Wait()
					var got []provider.Receipt
					for len(receipts) > 0 {
						got = append(got, <-receipts)
					}
					switch {
					case tt.receipt == "" && len(got) != 0:
						t.Errorf("receipt %+v", got)
					case tt.receipt != "" && (len(got) != 1 || got[0].Status != tt.receipt || got[0].MessageID != "m" || got[0].To != to || got[0].At.IsZero()):
						t.Errorf("receipts %+v", got)
					}
					if err := p.Close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestSameIDAtEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, nil)
		ids := map[string]bool{}
		for i := range 3 {
			ids[p.Send(t.Context(), &provider.Call{ID: "m", To: "x@example.com", Attempt: i + 1}).ProviderMessageID] = true
		}
		other := p.Send(t.Context(), &provider.Call{ID: "n", To: "x@example.com", Attempt: 1}).ProviderMessageID
		if len(ids) != 1 || ids[other] {
			t.Errorf("%v %s", ids, other)
		}
		p.Close()
	})
}

func TestCloseDropsReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := 0
		p := open(t, func(provider.Receipt) { got++ })
		p.Send(t.Context(), &provider.Call{ID: "m", To: "late@example.com", Attempt: 1})
		p.Close()
		time.Sleep(time.Minute)
		if got != 0 {
			t.Error("a receipt came after Close")
		}
	})
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		v  any
		ok bool
	}{{"50ms", true}, {"20ms-80ms", true}, {"0s", true}, {"80ms-20ms", false}, {"x", false}, {"-1s", false}, {5, false}, {"1ms-", false}} {
		t.Run(fmt.Sprint(tt.v), func(t *testing.T) {
			p, err := simulated.Open(schemas.Provider{Settings: map[string]any{"latency": tt.v}}, provider.Deps{Private: outbound.Loopback})
			if (err == nil) != tt.ok {
				t.Fatal(err)
			}
			if p != nil {
				p.Close()
			}
		})
	}
	if _, err := simulated.Open(schemas.Provider{Settings: map[string]any{"secret": "x"}}, provider.Deps{Private: outbound.Loopback}); err == nil {
		t.Error("an unknown setting was taken")
	}
}
