package ingest

import (
	"net/http"
	"testing"
	"time"
)

func TestPrefer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []string
		key     string
		wait    time.Duration
		applied string
	}{
		{"nothing", nil, "", 0, ""},
		{"wait", []string{"wait=2"}, "", 2 * time.Second, "wait=2"},
		{"spaces and capitals", []string{" Wait = 2 "}, "", 2 * time.Second, "wait=2"},
		{"quoted", []string{`wait="2"`}, "", 2 * time.Second, "wait=2"},
		{"parameters", []string{"wait=2; foo=bar"}, "", 2 * time.Second, "wait=2"},
		{"among others", []string{"return=minimal, wait=2", "handling=lenient"}, "", 2 * time.Second, "wait=2"},
		{"the first counts", []string{"wait=2, wait=3"}, "", 2 * time.Second, "wait=2"},
		{"too long", []string{"wait=3600"}, "", time.Minute, "wait=60"},
		{"none at all", []string{"wait=0"}, "wait=1", 0, "wait=0"},
		{"nonsense", []string{"wait=soon, ,=,;"}, "", 0, ""},
		{"negative", []string{"wait=-1"}, "", 0, ""},
		{"async", []string{"respond-async"}, "", 0, "respond-async"},
		{"async after a wait", []string{"respond-async, wait=2"}, "", 2 * time.Second, "wait=2"},
		{"the key's", nil, "wait=1", time.Second, ""},
		{"the key's, undone", []string{"respond-async"}, "wait=1", 0, "respond-async"},
		{"the key's, other", []string{"wait=5"}, "wait=1", 5 * time.Second, "wait=5"},
		{"the key's, nonsense", []string{"wait=x"}, "wait=1", time.Second, ""},
		{"the key does not wait", nil, "respond-async", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			for _, v := range tt.headers {
				h.Add("Prefer", v)
			}
			if p := preferOf(h, tt.key, 0); p.wait != tt.wait || p.applied != tt.applied {
				t.Errorf("%+v", p)
			}
		})
	}
}

// What a kind of call does by itself holds only where neither the request nor the
// key says anything.
func TestPreferOtherwise(t *testing.T) {
	for _, tt := range []struct {
		header, key string
		wait        time.Duration
	}{
		{"", "", time.Second},
		{"nonsense", "", time.Second},
		{"", "wait=3", 3 * time.Second},
		{"", "respond-async", 0},
		{"respond-async", "", 0},
		{"wait=0", "wait=3", 0},
		{"wait=2", "respond-async", 2 * time.Second},
	} {
		if p := preferOf(http.Header{"Prefer": {tt.header}}, tt.key, time.Second); p.wait != tt.wait {
			t.Errorf("header %q, key %q: %+v", tt.header, tt.key, p)
		}
	}
}
