package limit

import "testing"

// A transaction that is given up because its time was wrong leaves no trace of
// that time.
func TestRollbackTakesTheTimeBack(t *testing.T) {
	start := at(t, "2026-11-21T09:00:00Z")
	wrong, right := start+3_600_000, start+1000
	r := rulesOf(t, perRecipient(t, "a", "1/60s"))
	for name, try := range map[string]func(*Table){
		"decide":    func(table *Table) { table.Decide(r, one, nil, wrong) },
		"give back": func(table *Table) { table.GiveBack(r, nil, wrong) },
		"record":    func(table *Table) { table.Record(r, one, wrong, wrong) },
		"sweep":     func(table *Table) { table.Sweep(r, wrong, 4096) },
		"begun":     func(table *Table) { table.Begin(); table.Decide(r, one, nil, wrong) },
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable()
			passes(t, table, r, start)
			table.Commit()
			try(table)
			table.Rollback()
			refuses(t, table, r, right, start+60_000, "1/60s")
			if later := table.Decide(r, &Subject{Recipient: "+8613800000001"}, nil, right); !later.OK || later.Charges[0].T != right {
				t.Errorf("another recipient's place: %+v, want it at %s", later.Charges, right)
			}
		})
	}
}
