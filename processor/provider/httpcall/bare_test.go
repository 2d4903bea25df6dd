package httpcall_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

func TestBare(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status   int
		header   string
		kind     provider.Kind
		received bool
		code     string
		after    time.Duration
	}{
		{200, "", provider.Unknown, true, "unreadable_answer", 0},
		{204, "", provider.Unknown, true, "unreadable_answer", 0},
		{101, "", provider.Transient, true, "http_101", 0},
		{302, "", provider.Transient, true, "http_302", 0},
		{403, "", provider.Transient, false, "http_403", 0},
		{407, "", provider.Transient, false, "http_407", 0},
		{429, "", provider.Throttled, false, "http_429", 0},
		{429, "9", provider.Throttled, false, "http_429", 9 * time.Second},
		{500, "", provider.Transient, true, "http_500", 0},
		{502, "9", provider.Transient, true, "http_502", 0},
		{503, "", provider.Transient, false, "http_503", 0},
	} {
		a := &httpcall.Answer{Status: tt.status, Header: http.Header{}}
		if tt.header != "" {
			a.Header.Set("Retry-After", tt.header)
		}
		o := a.Bare(now)
		if o.Kind != tt.kind || o.MayBeReceived != tt.received || o.Code != tt.code || o.RetryAfter != tt.after || o.Text == "" || o.OfRecipient {
			t.Errorf("%d: %+v", tt.status, o)
		}
	}
	if o := (&httpcall.Answer{Status: 429}).Bare(now); o.Kind != provider.Throttled {
		t.Errorf("without headers: %+v", o)
	}
}

func TestID(t *testing.T) {
	for in, want := range map[string]string{
		"900619354463530001^0": "900619354463530001^0", "2640:5107341f-7da8": "2640:5107341f-7da8", "": "", "a b": "", "a\n": "", "\xff": "", "é": "é",
		strings.Repeat("1", 128): strings.Repeat("1", 128), strings.Repeat("1", 129): "",
	} {
		if got := httpcall.ID(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestUncoded: a refusal without a code is of the message, but for one of who calls.
func TestUncoded(t *testing.T) {
	for status, want := range map[int]provider.Outcome{
		400: {Kind: provider.Permanent}, 401: {Kind: provider.Transient}, 403: {Kind: provider.Permanent}, 407: {Kind: provider.Transient},
		429: {Kind: provider.Throttled}, 500: {Kind: provider.Transient, MayBeReceived: true}, 503: {Kind: provider.Transient}, 302: {Kind: provider.Unknown, MayBeReceived: true},
	} {
		if o := (&httpcall.Answer{Status: status}).Uncoded("Theirs"); o.Kind != want.Kind || o.MayBeReceived != want.MayBeReceived || o.Code != fmt.Sprintf("http_%d", status) {
			t.Errorf("%d: %+v", status, o)
		}
	}
}
