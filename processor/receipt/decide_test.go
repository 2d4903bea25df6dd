package receipt

import (
	"testing"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/provider"
)

// TestWaits: the first is short, none is shorter than the one before, and all together
// are three days and a little.
func TestWaits(t *testing.T) {
	sum, before := time.Duration(0), time.Duration(0)
	tries := 0
	for ; wait(tries) > 0; tries++ {
		if wait(tries) < before {
			t.Errorf("wait %d is %v, after %v", tries, wait(tries), before)
		}
		before = wait(tries)
		sum += before
	}
	if wait(0) != 5*time.Second || sum < 72*time.Hour || sum > 73*time.Hour || tries > 25 {
		t.Errorf("%d waits, %v", tries, sum)
	}
	if waitAway(0) != 5*time.Second || waitAway(100*time.Hour) != 5*time.Minute {
		t.Error(waitAway(0), waitAway(100*time.Hour))
	}
}

// TestMemory: what aborts is forgotten, and what is old.
func TestMemory(t *testing.T) {
	m := func(i int) mark { return mark{byte(i), byte(i >> 8)} }
	k := newMemory(10)
	if !k.add(m(1)) || k.add(m(1)) {
		t.Error("within a transaction")
	}
	k.ended(false)
	if !k.add(m(1)) {
		t.Error("it aborted, and is known")
	}
	k.ended(true)
	k.ended(false)
	if k.add(m(1)) {
		t.Error("it was committed, and is not known")
	}
	for i := range 9 {
		k.add(m(100 + i))
	}
	k.ended(true) // turns
	for i := range 9 {
		k.add(m(200 + i))
	}
	k.ended(true)
	if k.add(m(1)) || k.add(m(100)) || k.add(m(200)) {
		t.Error("the latest are not known")
	}
	for i := range 10 {
		k.add(m(300 + i))
	}
	k.ended(true)
	for i := range 10 {
		k.add(m(400 + i))
	}
	k.ended(true)
	if !k.add(m(1)) || len(k.now)+len(k.before) > 30 {
		t.Error("what is old is known for ever")
	}
}

func TestMatch(t *testing.T) {
	at := func(p, theirs, to, tenant string) history.Carried {
		return history.Carried{MessageID: "m", Provider: p, ProviderMessageID: theirs, To: to, Tenant: tenant}
	}
	one := []history.Carried{at("a", "", "+8613800000001", "x"), at("b", "b1", "+8613800000001", "x")}
	many := []history.Carried{at("a", "a1", "+8613800000001", "x"), at("a", "a2", "+8613800000002", "x"), at("a", "a3", "+8613800000002", "y")}
	for _, tt := range []struct {
		name string
		rc   provider.Receipt
		has  []history.Carried
		want int // of has
		miss string
	}{
		{"nothing", provider.Receipt{Provider: "a"}, nil, 0, outcomeUnmatched},
		{"its provider's", provider.Receipt{Provider: "b", To: "+8613800000001"}, one, 1, ""},
		{"before the retry", provider.Receipt{Provider: "a", To: "+8613800000001"}, one, 0, ""},
		{"without a recipient", provider.Receipt{Provider: "b"}, one, 1, ""},
		{"another provider's", provider.Receipt{Provider: "c", To: "+8613800000001"}, one, 0, outcomeOtherProvider},
		{"another recipient's", provider.Receipt{Provider: "b", To: "+8613800000002"}, one, 0, outcomeOtherRecipient},
		{"a number without its country", provider.Receipt{Provider: "b", To: "0138 0000 0001"}, one, 1, ""},
		{"a few digits", provider.Receipt{Provider: "b", To: "00001"}, one, 0, outcomeOtherRecipient},
		{"one of several", provider.Receipt{Provider: "a", To: "+8613800000001"}, many, 0, ""},
		{"which of several", provider.Receipt{Provider: "a"}, many, 0, outcomeAmbiguous},
		{"one recipient of two tenants", provider.Receipt{Provider: "a", To: "+8613800000002"}, many, 0, outcomeAmbiguous},
		{"and the provider's id", provider.Receipt{Provider: "a", To: "+8613800000002", ProviderMessageID: "a2"}, many, 1, ""},
		{"an address in capitals", provider.Receipt{Provider: "a", To: "ANN@X.EXAMPLE"}, []history.Carried{at("a", "", "ann@x.example", "x")}, 0, ""},
		{"a token", provider.Receipt{Provider: "a", To: "23456789"}, []history.Carried{at("a", "", "token-123456789", "x")}, 0, outcomeOtherRecipient},
	} {
		c, miss := match(&tt.rc, tt.has)
		if miss != tt.miss || miss == "" && c != tt.has[tt.want] {
			t.Errorf("%s: %+v, %q", tt.name, c, miss)
		}
	}
}
