package sink

import (
	"encoding/json"
	"hash"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// brokenHash panics on one recipient.
type brokenHash struct{ hash.Hash }

func (h brokenHash) Write(b []byte) (int, error) {
	if strings.HasSuffix(string(b), "666") {
		panic(&b) // its address is another in each process
	}
	return h.Hash.Write(b)
}

// TestPanicIsARow: a record on which the program panics is a row of kind poison, and the
// rows around it are as without it. The row depends on the record alone: a token must not
// carry other rows the next time.
func TestPanicIsARow(t *testing.T) {
	record := func(offset int64, to string) Record {
		raw, err := json.Marshal(schemas.Event{
			Kind: schemas.KindStatus, MessageID: "m", Tenant: "default", Channel: "sms", To: to, Status: schemas.StatusLimited, At: 1000,
			Decision: &schemas.Decision{Verdict: schemas.VerdictRefuse, Charges: []schemas.Charge{{Limit: "l", Scope: "s", T: 1, Cost: 1}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return Record{Partition: 3, Offset: offset, Appended: 1000, Value: raw}
	}
	make := func(records ...Record) *Block {
		b := NewBlock([]byte("key"))
		b.hash = brokenHash{b.hash}
		for _, r := range records {
			b.Append(r)
		}
		return b
	}
	bad := record(8, "+8613800000666")
	b := make(record(7, "+8613800000001"), bad, record(9, "+8613800000002"))
	if b.Rows() != 3 {
		t.Fatalf("%d rows", b.Rows())
	}
	for i, c := range b.Columns() {
		if n := reflect.ValueOf(c).Len(); n != 3 {
			t.Errorf("column %s has %d values", b.log.Columns[i], n)
		}
	}
	if !reflect.DeepEqual(b.kind, []string{"status", "poison", "status"}) || b.to[1] != "" || b.messageID[1] != "" || b.bytes[1] != uint32(len(bad.Value)) ||
		!reflect.DeepEqual(b.statusOffset, []int64{7, 8, 9}) || b.to[2] != "+8613800000002" || len(b.charges.limit[1]) != 0 || len(b.charges.limit[2]) != 1 {
		t.Errorf("%v %v %v %v %v", b.kind, b.to, b.messageID, b.statusOffset, b.charges)
	}
	if len(b.panics) != 1 || b.panics[0].partition != 3 || b.panics[0].offset != 8 {
		t.Errorf("%+v", b.panics)
	}
	again := make(record(7, "+8613800000001"), bad, record(9, "+8613800000002"))
	if !reflect.DeepEqual(b.Columns(), again.Columns()) {
		t.Error("the rows of the same records differ")
	}
}
