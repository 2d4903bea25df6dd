package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/schemas"
)

// TestSum: a sum is bounded, and says nobody's number.
func TestSum(t *testing.T) {
	var s, o Sum
	for i := range 20 {
		h := refusal(schemas.Millis(100-i), "a")
		h.Class, h.Tenant, h.To = fmt.Sprint("c", i), "acme", fmt.Sprintf("+86138%08d", i)
		s.add(&h)
		h.To, h.Class = fmt.Sprintf("+86139%08d", i), "c0"
		o.add(&h)
		o.add(&h)
	}
	if len(s.Classes) != maxNames+1 || s.Classes[othersReason] != 12 || s.Classes["c7"] != 1 || s.Tenants["acme"] != 20 {
		t.Errorf("classes %v, tenants %v", s.Classes, s.Tenants)
	}
	if want := []string{"+86*********00", "+86*********01", "+86*********02"}; !slices.Equal(s.Examples, want) {
		t.Errorf("examples %v, want %v", s.Examples, want)
	}
	s.merge(&o)
	if n, _ := s.Seen.Count(); n != 40 || s.Count != 60 || s.First != 81 || s.Last != 100 || s.Classes["c0"] != 41 || len(s.Examples) != maxExamples {
		t.Errorf("%d recipients in %+v", n, s)
	}
	var first Sum
	if first.merge(&s); first.First != 81 || first.Last != 100 || first.Count != 60 || len(first.Examples) != maxExamples {
		t.Errorf("merged into none: %+v", first)
	}
}

func TestClip(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("a", maxText), strings.Repeat("a", maxText+1), "a" + strings.Repeat("é", maxText), strings.Repeat("谢", maxText)} {
		got := clip(text)
		if len(got) > maxText+len("…") || !utf8.ValidString(got) || len(text) <= maxText && got != text || len(text) > maxText && !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes became %q", len(text), got)
		}
	}
}

// TestHeldIsBounded: beyond so many subjects the rest is one sum of its event.
func TestHeldIsBounded(t *testing.T) {
	var s State
	rule := oncall()
	s.Step([]Rule{rule}, Facts{Happened: []Happening{refusal(1, "first")}}, 1)
	var all []Happening
	for i := range 2 * maxSubjects {
		all = append(all, refusal(2, fmt.Sprint("l", i)), refusal(2, "l0"))
	}
	s.Step([]Rule{rule}, Facts{Happened: all}, 2)
	held, total := s.Alerts[rule.Name].Held, int64(0)
	for _, sum := range held {
		total += sum.Count
	}
	rest := Subject{Event: schemas.AlertLimitRefused, Reason: othersReason}
	if len(held) != maxSubjects+1 || total != int64(len(all)) || held[rest.key()] == nil || held[rest.key()].Count != maxSubjects {
		t.Errorf("%d sums of %d, others %+v", len(held), total, held[rest.key()])
	}
}
