package limit

import (
	"fmt"
	"runtime"
	"testing"
)

// TestTablesReturnTheirMemory closes tables, and forgets others. It is not
// parallel: it counts what all tables of the process have mapped.
func TestTablesReturnTheirMemory(t *testing.T) {
	r := rulesOf(t, perRecipient(t, "a", "3/60s"))
	fill := func() *Table {
		table := NewTable()
		for i := range 20_000 {
			table.Decide(r, &Subject{Recipient: fmt.Sprint(i)}, nil, 1)
		}
		table.Commit()
		return table
	}
	idle := func(want int64) bool { // those that other tests forgot are gone, and ours
		for range 1000 {
			runtime.GC()
			if mapped.Load() <= want {
				return true
			}
			runtime.Gosched() // to the cleanups
		}
		return false
	}
	if !idle(0) {
		t.Fatalf("%d chunks are mapped though no table is left", mapped.Load())
	}
	var tables []*Table
	for range 5 {
		tables = append(tables, fill())
	}
	if n := mapped.Load(); n < 5 {
		t.Fatalf("%d chunks for 5 tables: this test sees nothing", n)
	}
	for _, table := range tables {
		table.Close()
		table.Close()
	}
	if n := mapped.Load(); n != 0 {
		t.Errorf("%d chunks are mapped after all tables were closed", n)
	}
	for range 5 {
		fill()
	}
	if !idle(0) {
		t.Errorf("%d chunks of forgotten tables stay mapped", mapped.Load())
	}
}
