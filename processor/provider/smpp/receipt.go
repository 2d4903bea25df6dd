package smpp

import (
	"math/big"
	"strings"
	"time"
)

// Kinds of a deliver_sm (SMPP v3.4, 5.2.12): bits 5 to 2 of esm_class.
const (
	classMask         = 0x3c
	classMessage      = 0x00 // of a person
	classReceipt      = 0x04
	classIntermediate = 0x20
	classUDH          = 0x40 // a bit besides
)

// receipt is what a deliver_sm says of a message that was sent.
type receipt struct {
	id    string
	state string // in the words of Appendix B: DELIVRD
	fault string // the network's code, as the centre writes it; empty where there is none
	done  string // YYMMDDhhmm or YYMMDDhhmmss in the centre's time
}

// receiptOf reads a receipt: its optional parameters, and for what they lack the
// text of Appendix B, which centres vary.
func receiptOf(s short) (r receipt, ok bool) {
	body := s.message
	if p, has := find(s.tlvs, tagPayload); has && len(body) == 0 {
		body = p
	}
	fields := textReceipt(string(body))
	if v, has := find(s.tlvs, tagReceiptedID); has {
		r.id, _, _ = strings.Cut(string(v), "\x00")
	}
	if r.id == "" {
		r.id = fields["id"]
	}
	if v, has := find(s.tlvs, tagMessageState); has && len(v) == 1 {
		r.state = states[v[0]]
	}
	if r.state == "" {
		r.state = stateOf(fields["stat"])
	}
	r.fault, r.done = fields["err"], fields["done date"]
	if !faultLike(r.fault) {
		r.fault = ""
	}
	return r, r.id != "" && len(r.id) <= maxID && r.state != ""
}

// maxID is the longest message id (5.2.23: 65 octets with its NUL).
const maxID = 64

// textReceipt finds the fields of a receipt's text, in any order and case. What
// follows "text:" is of the message, and may hold anything.
func textReceipt(body string) map[string]string {
	lower := []byte(body)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	text := string(lower)
	if i := strings.Index(text, "text:"); i >= 0 {
		text = text[:i]
	}
	fields := make(map[string]string)
	for _, name := range []string{"id", "submit date", "done date", "stat", "err"} {
		for at := 0; ; {
			i := strings.Index(text[at:], name+":")
			if i < 0 {
				break
			}
			i += at
			at = i + len(name) + 1
			if i > 0 && text[i-1] != ' ' { // "msgid:" is not "id:"
				continue
			}
			value, _, _ := strings.Cut(strings.TrimLeft(body[at:len(text)], " "), " ")
			fields[name] = value
			break
		}
	}
	return fields
}

// stateOf returns a state of Appendix B out of what a centre wrote: some write it
// in full, or in small letters.
func stateOf(word string) string {
	word = strings.ToUpper(word)
	switch word {
	case "DELIVERED":
		return "DELIVRD"
	case "UNDELIVERABLE", "UNDELIVERED":
		return "UNDELIV"
	case "REJECTED":
		return "REJECTD"
	case "ACCEPTED":
		return "ACCEPTD"
	}
	for _, s := range states {
		if s == word {
			return s
		}
	}
	return ""
}

// faultLike is a code and not a sentence: it goes into status events.
func faultLike(s string) bool {
	if len(s) > 8 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return strings.Trim(s, "0") != "" // 000 is no fault
}

// at returns the receipt's own time; the zero time where it has none, or zone is
// not known.
func (r receipt) at(zone *time.Location) time.Time {
	if zone == nil {
		return time.Time{}
	}
	for _, layout := range []string{"0601021504", "060102150405"} {
		if t, err := time.ParseInLocation(layout, r.done, zone); err == nil {
			return t
		}
	}
	return time.Time{}
}

// idForm says how ids in receipts differ from those in answers to submit_sm: many
// centres answer with a hexadecimal number and send receipts with the same in
// decimal, as versions before 3.4 had them; some do the reverse.
type idForm string

const (
	idsSame    idForm = "same"
	idsDecimal idForm = "decimal" // in receipts; hexadecimal in answers
	idsHex     idForm = "hex"     // in receipts; decimal in answers
)

// answered and receipted bring both to one form: as they are, or the number in
// decimal. An id that is no number stays as it is.
func (f idForm) answered(id string) string {
	switch f {
	case idsDecimal:
		return numeric(id, 16)
	case idsHex:
		return numeric(id, 10)
	case idsSame:
	}
	return id
}

func (f idForm) receipted(id string) string {
	switch f {
	case idsDecimal:
		return numeric(id, 10)
	case idsHex:
		return numeric(id, 16)
	case idsSame:
	}
	return id
}

func numeric(id string, base int) string {
	for _, c := range id {
		if c == '_' || c == '+' || c == '-' { // which big.Int would take
			return id
		}
	}
	n, ok := new(big.Int).SetString(id, base)
	if !ok {
		return id
	}
	return n.String()
}
