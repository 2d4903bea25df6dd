package admission

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestRoundOffAndOn: a limit is switched off and on again at its owner while a
// message waits to retry. Its owner gives the old place up, cannot put it back, and
// later, asked for it once more, finds another's of the same millisecond and puts
// that back: the message's home knows nothing of all that. It refuses nobody and
// lets nobody through: the limit counts from its return on, and who asks next finds
// all of it free.
func TestRoundOffAndOn(t *testing.T) {
	const on, off = ``, `, mode: off`
	shop, all := ownerOf("tenant=shop"), ownerOf("")
	policy := func(shop string, all int) string {
		return fmt.Sprintf(`
limits:
  - {name: shop, per: [tenant], allow: [3/1h]%s}
  - {name: all, per: [], allow: [%d/1h]}
`, shop, all) + roundRest
	}
	r := newRing(t, 4, policy(on, 9))
	home := ownerOf(anewTo)
	if home == shop || home == all || shop == all {
		t.Fatalf("the test needs three partitions: %d %d %d", home, shop, all)
	}
	send := func(n int) (ids []string) {
		for range n {
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", r.offset)
			ids = append(ids, id)
			r.from(home)
			r.put(`{"id":%q,"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, id, anewTo)
		}
		r.settle()
		return ids
	}
	waits := send(2)[0] // two in one millisecond
	retry := func(revision int64, mode string) {
		t.Helper()
		r.apply(shop, revision, policy(mode, 9))
		r.now += 1000
		s := r.sent[waits]
		reason := s.env.Reason
		if reason == "" {
			reason = schemas.ReadmitRetry
		}
		r.events = nil
		r.back(reason, s, func(e *schemas.Envelope) { e.Attempt = 1 })
		r.settle()
	}
	r.apply(all, 2, policy(on, 1)) // and so it refuses
	retry(2, off)
	r.want(`
		%d decision charge to %d
		%d decision charge -1 passed 1 to %d
		%d decision refuse limited to %d
		%d deferred defer limited reinstated 1
		%d decision give_back passed 1`, home, shop, shop, all, all, home, home, shop)
	retry(3, on)
	r.want(`
		%d decision charge to %d
		%d decision charge +1 -1 to %d
		%d decision refuse limited to %d
		%d deferred defer limited released 1 reinstated 1
		%d decision give_back -1 restored 1`, home, shop, shop, all, all, home, home, shop)
	r.apply(all, 3, policy(on, 9))
	for i, id := range send(4) {
		if _, sent := r.sent[id]; sent != (i < 3) {
			t.Errorf("message %d of a limit of 3 went on: %v\n%s", i, sent, r.said())
		}
	}
	i := slices.IndexFunc(r.events, func(e schemas.Event) bool { return e.Status == schemas.StatusLimited })
	if i < 0 || r.events[i].Limit != "shop" || r.events[i].Decision.Evidence[0].Count != 3 {
		t.Errorf("the last was not refused by the three before it\n%s", r.said())
	}
}
