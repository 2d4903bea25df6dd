package admission

import (
	"testing"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// TestClosedPartitionsReturnTheirMemory: what the table does then is tested in
// its package.
func TestClosedPartitionsReturnTheirMemory(t *testing.T) {
	p, err := newPartition(0, environment{partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := limit.Compile(&schemas.Policy{Limits: []schemas.Limit{{Name: "a", Per: []string{"recipient"},
		Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Hour}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.begin()
	p.table.Decide(rules, &limit.Subject{Recipient: "+8613800000000"}, nil, 1)
	p.commit()
	if p.table.Len() != 1 {
		t.Fatal("nothing stands: this test sees nothing")
	}
	p.close()
	if p.table.Len() != 0 {
		t.Error("the table of a closed partition still stands")
	}
}
