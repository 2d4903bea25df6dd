package smpp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

func TestReceiptOf(t *testing.T) {
	const form = "id:0123456789 sub:001 dlvrd:001 submit date:2611220101 done date:2611220102 stat:DELIVRD err:000 text:Your code"
	for _, tt := range []struct {
		name string
		body string
		tlvs []tlv
		want receipt
		ok   bool
	}{
		// The form of Appendix B.
		{"the form", form, nil, receipt{id: "0123456789", state: "DELIVRD", done: "2611220102"}, true},
		{"in other letters, and Text", "ID:a-1 Sub:001 Submit Date:2611220101 Done Date:2611220102 Stat:undeliv Err:034 Text:x", nil, receipt{id: "a-1", state: "UNDELIV", fault: "034", done: "2611220102"}, true},
		{"another order, seconds, and blanks", "stat: DELIVRD id: 77 done date: 261122010203 err: 0", nil, receipt{id: "77", state: "DELIVRD", done: "261122010203"}, true},
		{"words in full", "id:1 stat:UNDELIVERABLE", nil, receipt{id: "1", state: "UNDELIV"}, true},
		{"the text may say anything", "id:1 stat:DELIVRD text:id:2 stat:UNDELIV err:5", nil, receipt{id: "1", state: "DELIVRD"}, true},
		{"not every id is one", "msgid:9 id:1 stat:DELIVRD", nil, receipt{id: "1", state: "DELIVRD"}, true},
		{"optional parameters alone", "", []tlv{{tagReceiptedID, []byte("abc\x00")}, {tagMessageState, []byte{5}}}, receipt{id: "abc", state: "UNDELIV"}, true},
		{"and before the text", form, []tlv{{tagReceiptedID, []byte("abc\x00")}, {tagMessageState, []byte{8}}}, receipt{id: "abc", state: "REJECTD", done: "2611220102"}, true},
		{"an id without NUL, the state in the text", "stat:EXPIRED", []tlv{{tagReceiptedID, []byte("abc")}}, receipt{id: "abc", state: "EXPIRED"}, true},
		{"a state that is none", "id:1 stat:DELIVRD", []tlv{{tagMessageState, []byte{99}}}, receipt{id: "1", state: "DELIVRD"}, true},
		{"in the payload", "", []tlv{{tagPayload, []byte(form)}}, receipt{id: "0123456789", state: "DELIVRD", done: "2611220102"}, true},
		{"no id", "stat:DELIVRD", nil, receipt{state: "DELIVRD"}, false},
		{"no state", "id:1", nil, receipt{id: "1"}, false},
		{"garbage", "\x00\xff id", nil, receipt{}, false},
		{"an id without end", "id:" + strings.Repeat("1", 65) + " stat:DELIVRD", nil, receipt{id: strings.Repeat("1", 65), state: "DELIVRD"}, false},
		{"an err that is a sentence", "id:1 stat:UNDELIV err:+8613800000000", nil, receipt{id: "1", state: "UNDELIV"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := receiptOf(short{message: []byte(tt.body), tlvs: tt.tlvs})
			if got != tt.want || ok != tt.ok {
				t.Errorf("%+v %t\nwant %+v %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestIDs: 0012617184 in decimal is c085e0 in hexadecimal.
func TestIDs(t *testing.T) {
	for _, tt := range []struct {
		form                idForm
		answered, receipted string
		same                bool
	}{
		{idsSame, "A1", "A1", true},
		{idsSame, "c085e0", "0012617184", false},
		{idsDecimal, "c085e0", "0012617184", true},
		{idsDecimal, "00C085E0", "12617184", true},
		{idsDecimal, "c085e1", "0012617184", false},
		{idsDecimal, "m-1", "m-1", true},
		{idsHex, "0012617184", "C085E0", true},
		{idsDecimal, "ffffffffffffffffffff", "1208925819614629174706175", true}, // more than 64 bits
		{idsDecimal, "-5", "-5", true},
	} {
		t.Run(fmt.Sprint(tt.form, " ", tt.answered, " ", tt.receipted), func(t *testing.T) {
			if a, r := tt.form.answered(tt.answered), tt.form.receipted(tt.receipted); (a == r) != tt.same {
				t.Errorf("%q and %q", a, r)
			}
		})
	}
}

func TestReceiptTimes(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		done string
		zone *time.Location
		want string
	}{
		{"2611220902", shanghai, "2026-11-22T01:02:00Z"},
		{"261122090203", shanghai, "2026-11-22T01:02:03Z"},
		{"2611220902", nil, "0001-01-01T00:00:00Z"},
		{"yesterday", shanghai, "0001-01-01T00:00:00Z"},
	} {
		if got := (receipt{done: tt.done}).at(tt.zone).UTC().Format(time.RFC3339); got != tt.want {
			t.Errorf("%s in %v: %s, want %s", tt.done, tt.zone, got, tt.want)
		}
	}
}

// TestOneReceiptOfManyParts: receipts of the parts end in one of the message, under
// the first part's id. A letter is an event: a to c a part is accepted, A to C it is
// delivered, X to Z it is not, s all were accepted.
func TestOneReceiptOfManyParts(t *testing.T) {
	for _, tt := range []struct {
		name, events string
		parts        int
		want         string // d or u for each receipt that goes on, with its id
	}{
		{"all delivered", "abcsABC", 3, "d:a"},
		{"in another order", "abcsCAB", 3, "d:a"},
		{"one is missing", "abcsAC", 3, ""},
		{"twice the same", "abcsAAABB", 3, ""},
		{"one is not delivered", "abcsAY", 3, "u:a"},
		{"and nothing after it", "abcsYACXZ", 3, "u:a"},
		{"before all were accepted", "aAbBcCs", 3, "d:a"},
		{"not delivered before all were accepted", "aXbcs", 3, "u:a"},
		{"of a message that failed", "aAbBABXY", 3, ""},
		{"one part", "asA", 1, "d:a"},
		{"one part, which changes its mind", "asXA", 1, "u:a d:a"},
		{"of somebody else", "B", 1, "d:b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			me := newMemory()
			m := &message{reference: provider.Reference{MessageID: "m", To: "+1"}, parts: tt.parts}
			var got []string
			pass := func(r provider.Receipt, ok bool) {
				if ok {
					got = append(got, string(r.Status[0])+":"+r.ProviderMessageID)
					if known := strings.Contains(tt.events, "s"); known != (r.MessageID == "m" && r.To == "+1") {
						t.Errorf("the receipt names %q", r.MessageID)
					}
				}
			}
			for _, e := range tt.events {
				switch {
				case e == 's':
					pass(me.sealed(m))
				case e >= 'a':
					me.accepted(m, string(e))
				case e >= 'X':
					pass(me.receipt(string(e-'X'+'a'), provider.Receipt{Status: schemas.StatusUndelivered}))
				default:
					pass(me.receipt(string(e-'A'+'a'), provider.Receipt{Status: schemas.StatusDelivered}))
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%q, want %q", s, tt.want)
			}
		})
	}
}

// TestMemoryIsBounded and forgets the oldest first.
func TestMemoryIsBounded(t *testing.T) {
	me := newMemory()
	for i := range remembered + 10 {
		me.accepted(&message{parts: 1, reference: provider.Reference{MessageID: "m"}}, fmt.Sprint(i))
	}
	if len(me.parts) != remembered {
		t.Errorf("%d ids are kept", len(me.parts))
	}
	if r, _ := me.receipt("9", provider.Receipt{}); r.MessageID != "" || r.ProviderMessageID != "9" {
		t.Errorf("the oldest are not forgotten: %+v", r)
	}
	if r, _ := me.receipt("10", provider.Receipt{}); r.MessageID != "m" {
		t.Errorf("the others are: %+v", r)
	}
}
