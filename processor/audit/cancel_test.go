package audit

import (
	"fmt"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A cancel ends a deferred message, which is somewhere else, and returns its
// place. The cancel came through readmit itself, under an envelope of its own.
func TestCancelOfDeferred(t *testing.T) {
	for _, c := range []struct {
		name     string
		do       func(end *schemas.Event)
		returned bool // is what is wrong
	}{
		{"that gives its place back", func(*schemas.Event) {}, false},
		{"that gives back what never stood", func(end *schemas.Event) {
			end.Decision.Returned[0].T++
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSheet(t)
			s.admit("g", alice, "verify", start+11_000)
			s.call("g", alice, "verify", schemas.StatusRetrying, 1, start+11_100)
			s.admit("h", alice, "verify", start+20_900) // fills the window with g's and this one
			s.admit("i", alice, "verify", start+21_000) // g's has left
			e, in := s.back("g", alice, "verify", schemas.ReadmitRetry, start+21_500)
			e.Status, e.Attempt, e.Reason, e.Limit, e.Window, e.RetryAt = schemas.StatusDeferred, 1, "limited", "two", "2/10s", start+30_900
			v := evidence(start+21_500, start+20_900)
			s.decide(e, schemas.VerdictDefer, start+21_500, in).Evidence = []schemas.Evidence{v}
			end, in := s.back("cancel of g", alice, "", schemas.ReadmitForward, start+22_000)
			s.readmit[len(s.readmit)-1].value = fmt.Sprintf(`{"action":"cancel","id":%q,"to":%q}`, id("g"), alice)
			end.MessageID, end.Class, end.Status, end.Attempt = id("g"), "verify", schemas.StatusCancelled, 1
			s.decide(end, schemas.VerdictCancel, start+22_000, in).Returned = append([]schemas.Charge(nil), s.place["g"]...)
			c.do(end)
			// The other partition, which forwarded the cancel, is not on this sheet.
			r := s.audit(t)
			delete(r.Faults, KindForward)
			if (r.Faults[KindReturned] > 0) != c.returned || !c.returned && len(r.Faults) > 0 {
				t.Fatal(show(r))
			}
		})
	}
}
