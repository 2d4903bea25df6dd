package schemas

import "testing"

// The contract's ends, and the order of what is known about a message.
func TestStatuses(t *testing.T) {
	want := map[Status]struct {
		end  bool
		rank int
	}{
		StatusAccepted:    {false, 0},
		StatusScheduled:   {false, 1},
		StatusDeferred:    {false, 1},
		StatusQueued:      {false, 1},
		StatusSending:     {false, 1},
		StatusRetrying:    {false, 1},
		StatusSent:        {true, 2},
		StatusFailed:      {true, 2},
		StatusUnknown:     {true, 2},
		StatusLimited:     {true, 2},
		StatusSuppressed:  {true, 2},
		StatusExpired:     {true, 2},
		StatusCancelled:   {true, 2},
		StatusRejected:    {true, 2},
		StatusDuplicate:   {true, 2},
		StatusUndelivered: {false, 3},
		StatusDelivered:   {false, 4},
	}
	if len(Statuses) != len(want) {
		t.Errorf("%d statuses, want %d", len(Statuses), len(want))
	}
	for _, s := range Statuses {
		w, ok := want[s]
		if !ok {
			t.Errorf("%s: not in this test", s)
		}
		if s.End() != w.end || s.Rank() != w.rank {
			t.Errorf("%s: end %v, rank %d; want %v, %d", s, s.End(), s.Rank(), w.end, w.rank)
		}
		if s.End() && s.Rank() <= StatusRetrying.Rank() {
			t.Errorf("%s ends a message but does not outrank what precedes an end", s)
		}
	}
	if s := Status("lost"); s.End() || s.Rank() != 0 {
		t.Error("a status that is none ends a message")
	}
}
