package retryafter

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// vectors are those of the console's page too.
type vectors struct {
	Now   time.Time
	Cases []struct {
		Name, Value, Error string
		Form               Form
		Seconds            int64
		At                 time.Time
		Comment, Note      string
	}
}

func TestExplain(t *testing.T) {
	text, err := os.ReadFile("../console/testdata/retry-after.json")
	if err != nil {
		t.Fatal(err)
	}
	var all vectors
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Cases) < 40 {
		t.Fatalf("only %d cases", len(all.Cases))
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := Explain(c.Value, all.Now)
			if c.Error != "" {
				if err == nil || err.Error() != c.Error {
					t.Errorf("%q: %+v, %v\nwant %s", c.Value, got, err, c.Error)
				}
				return
			}
			if want := (Explained{c.Form, c.Seconds, c.At, c.Comment, c.Note}); err != nil || got != want {
				t.Errorf("%q: %v\n%+v\nwant\n%+v", c.Value, err, got, want)
			}
			if std, err := http.ParseTime(c.Value); c.Form == Date && !strings.Contains(c.Value, "-") && err == nil && !std.Equal(got.At) {
				t.Errorf("%q: net/http reads %v", c.Value, std)
			}
		})
	}
}

func TestExplainRoundsUp(t *testing.T) {
	now := time.Date(2026, 11, 22, 1, 0, 0, 1, time.FixedZone("", 3600)) // 00:00 UTC
	for value, want := range map[string]int64{"Sun, 22 Nov 2026 00:00:01 GMT": 1, "Sun, 22 Nov 2026 00:00:00 GMT": 0, "Sun, 22 Nov 2026 00:00:02 GMT": 2} {
		if got, err := Explain(value, now); err != nil || got.Seconds != want || got.At.Location() != time.UTC {
			t.Errorf("%s: %+v, %v, want %d", value, got, err, want)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, v := range []string{"120", "Sun, 22 Nov 2026 01:02:00 GMT", "Sunday, 22-Nov-26 01:02:00 GMT", "Sun Nov  2 01:02:00 2026", "-1", ""} {
		f.Add(v)
	}
	now := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		e, err := Explain(value, now)
		if err != nil {
			return
		}
		if e.Seconds < 0 || e.Seconds > Most || e.Comment == "" || e.Form == Seconds && !e.At.Equal(now.Add(time.Duration(e.Seconds)*time.Second)) {
			t.Errorf("%q: %+v", value, e)
		}
	})
}
