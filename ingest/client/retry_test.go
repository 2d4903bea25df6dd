package client

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		name, value, date string
		want              time.Duration
	}{
		{"none", "", "", 0},
		{"seconds", "120", "", 2 * time.Minute},
		{"no wait", "0", "", 0},
		{"more than fits", "99999999999999999999", "", (1<<31 - 1) * time.Second},
		{"negative", "-5", "", 0},
		{"fraction", "1.5", "", 0},
		{"words", "soon", "", 0},
		{"date", date(90 * time.Second), "", 90 * time.Second},
		{"date of RFC 850", now.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"), "", time.Minute},
		{"date that has passed", date(-time.Hour), "", 0},
		{"date by a server whose clock is an hour ahead", date(time.Hour + 3*time.Second), date(time.Hour), 3 * time.Second},
		{"date by a server whose clock is an hour behind", date(-time.Hour + 3*time.Second), date(-time.Hour), 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.value != "" {
				h.Set("Retry-After", tt.value)
			}
			if tt.date != "" {
				h.Set("Date", tt.date)
			}
			if got := retryAfter(h, now); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestRetryWait(t *testing.T) {
	const almost = 1 - 1e-12 // what random comes to at most
	r := Retry{Tries: 8, Base: 100 * time.Millisecond, Cap: time.Second}.withDefaults()
	tests := []struct {
		name        string
		tries       int
		after, left time.Duration
		random      float64
		want        time.Duration // to the millisecond, rounded up
		ok          bool
	}{
		{name: "the first", tries: 1, left: time.Minute, random: almost, want: 100 * time.Millisecond, ok: true},
		{name: "twice as long", tries: 2, left: time.Minute, random: almost, want: 200 * time.Millisecond, ok: true},
		{name: "and again", tries: 4, left: time.Minute, random: almost, want: 800 * time.Millisecond, ok: true},
		{name: "no longer than the cap", tries: 5, left: time.Minute, random: almost, want: time.Second, ok: true},
		{name: "full jitter begins at 0", tries: 5, left: time.Minute, random: 0, want: 0, ok: true},
		{name: "the last try", tries: 8, left: time.Minute, ok: false},
		{name: "no time left", tries: 1, left: 0, ok: false},
		{name: "the wait leaves time for the try", tries: 5, left: 100 * time.Millisecond, random: almost, want: 50 * time.Millisecond, ok: true},
		{name: "as the server says", tries: 1, after: 10 * time.Second, left: time.Minute, random: 0, want: 10 * time.Second, ok: true},
		{name: "never sooner, and up to the base later", tries: 1, after: 10 * time.Second, left: time.Minute, random: almost, want: 10*time.Second + 100*time.Millisecond, ok: true},
		{name: "and after each refusal up to twice as much later", tries: 3, after: 10 * time.Second, left: time.Minute, random: almost, want: 10*time.Second + 400*time.Millisecond, ok: true},
		{name: "up to the cap", tries: 7, after: 10 * time.Second, left: time.Minute, random: almost, want: 11 * time.Second, ok: true},
		{name: "beyond the cap", tries: 1, after: 20 * time.Second, left: time.Minute, random: 0, want: 20 * time.Second, ok: true},
		{name: "later than there is time", tries: 1, after: time.Minute, left: time.Minute, ok: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := r.wait(tt.tries, tt.after, tt.left, tt.random)
			if got = (got + time.Millisecond - 1).Truncate(time.Millisecond); got != tt.want || ok != tt.ok {
				t.Errorf("%v %v, want %v %v", got, ok, tt.want, tt.ok)
			}
		})
	}
	if d := (Retry{Tries: -1}).withDefaults(); d.Tries != 1 || d.Total != 30*time.Second || d.Base != 100*time.Millisecond || d.Cap != 5*time.Second {
		t.Errorf("%+v", d)
	}
	// Tries beyond any width of a number do not overflow.
	if got, ok := (Retry{Tries: 1 << 30, Base: time.Second, Cap: 1 << 62}).wait(1<<20, 0, 1<<62, almost); !ok || got < time.Second {
		t.Errorf("%v %v", got, ok)
	}
}

// The docs have the formula once, with this client's figures; the programs of
// docs/clients.md have the same.
func TestFormulaOfTheDocs(t *testing.T) {
	d := Retry{}.withDefaults()
	for name, texts := range map[string][]string{
		"retry-after.md": {
			fmt.Sprintf("Retry-After + random(0, min(CAP, BASE · 2ⁿ⁻¹))        BASE = %v s, CAP = %v s", d.Base.Seconds(), d.Cap.Seconds()),
		},
		"clients.md": {
			fmt.Sprintf("TRIES, TOTAL, BASE, CAP = %d, %.1f, %.1f, %.1f  # seconds", d.Tries, d.Total.Seconds(), d.Base.Seconds(), d.Cap.Seconds()),
			"wait += random.uniform(0, min(CAP, BASE * 2 ** (attempt - 1)))",
			fmt.Sprintf("TOTAL = Duration.ofSeconds(%v), BASE = Duration.ofMillis(%d), CAP = Duration.ofSeconds(%v);", d.Total.Seconds(), d.Base.Milliseconds(), d.Cap.Seconds()),
			"long bound = Math.min(CAP.toMillis(), BASE.toMillis() << (attempt - 1));",
			fmt.Sprintf("TRIES = %d, TOTAL = %d_000, BASE = %d, CAP = %d_000; // ms", d.Tries, int(d.Total.Seconds()), d.Base.Milliseconds(), int(d.Cap.Seconds())),
			"wait += Math.random() * Math.min(CAP, BASE * 2 ** (attempt - 1));",
		},
	} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s has not %q", name, text)
			}
		}
	}
}

func TestChance(t *testing.T) {
	tests := []struct {
		name string
		p    Problem
		want chance
	}{
		{"bad request", Problem{Status: 400}, final},
		{"slow body", Problem{Status: 408}, unseen},
		{"conflict", Problem{Status: 409}, final},
		{"our pace", Problem{Status: 429, Type: TypeClientRate, Code: CodeClientRate}, unseen},
		{"a proxy's pace", Problem{Status: 429, Type: "about:blank"}, unseen},
		{"a recipient's limit", Problem{Status: 429, Type: TypeQuotaExceeded}, final},
		{"a recipient's limit, by its code", Problem{Status: 429, Code: CodeQuotaExceeded}, final},
		{"a mistake of the server", Problem{Status: 500}, final},
		{"not implemented", Problem{Status: 501}, final},
		{"bad gateway", Problem{Status: 502}, unsure},
		{"unavailable", Problem{Status: 503}, unsure},
		{"gateway timeout", Problem{Status: 504}, unsure},
		{"redirect", Problem{Status: 307}, final},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.chance(); got != tt.want || tt.p.Temporary() != (tt.want != final) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
