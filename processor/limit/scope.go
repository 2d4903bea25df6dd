package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Subject is what limits can match and count by: one message on its way to one
// recipient. Recipient is canonical; an absent field is the empty string.
type Subject struct {
	Recipient string // E.164 for phones: prefixes are read from its digits
	Tenant    string
	Channel   string
	Class     string
	Template  string
	Content   string // hash of the content, for limits per content
	Provider  string
	Country   string
	Metadata  map[string]string
	Segments  int64 // SMS parts, for limits that count segments; 0 is 1
	Cost      int64 // as the request says, for limits that count cost; 0 is 1
}

// dimension is one entry of a limit's per.
type dimension struct {
	order  int                  // recipient first, then as the contract lists them
	label  string               // escaped, with "="
	digits int                  // prefix:N
	field  string               // metadata.X
	boxes  *recipient.Mailboxes // mailbox
}

const (
	dimRecipient = iota
	dimMailbox
	dimTenant
	dimChannel
	dimClass
	dimTemplate
	dimContent
	dimProvider
	dimCountry
	dimPrefix
	dimMetadata
)

var dimensionNames = []string{"recipient", "mailbox", "tenant", "channel", "class", "template", "content", "provider", "country"}

// parsePer reads a limit's per. The order and repetition in which a policy
// names its dimensions mean nothing.
func parsePer(per []string, boxes *recipient.Mailboxes) ([]dimension, error) {
	var dims []dimension
	for _, p := range per {
		d := dimension{label: string(appendEscaped(nil, p)) + "="}
		if i := slices.Index(dimensionNames, p); i >= 0 {
			d.order, d.boxes = i, boxes
		} else if n, ok := strings.CutPrefix(p, "prefix:"); ok {
			digits, err := strconv.Atoi(n)
			if err != nil || digits < 1 || digits > 15 || n[0] == '+' || n[0] == '0' {
				return nil, fmt.Errorf("per %q: a prefix has 1 to 15 digits, such as prefix:7", p)
			}
			d.order, d.digits = dimPrefix, digits
		} else if f, ok := strings.CutPrefix(p, "metadata."); ok && f != "" {
			d.order, d.field = dimMetadata, f
		} else {
			return nil, fmt.Errorf("per %q: no such dimension", p)
		}
		dims = append(dims, d)
	}
	slices.SortFunc(dims, func(a, b dimension) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.digits, b.digits), cmp.Compare(a.field, b.field))
	})
	return slices.Compact(dims), nil
}

func (d *dimension) value(s *Subject) string {
	switch d.order {
	case dimRecipient:
		return s.Recipient
	case dimMailbox:
		return d.boxes.Of(schemas.Channel(s.Channel), s.Recipient)
	case dimTenant:
		return s.Tenant
	case dimChannel:
		return s.Channel
	case dimClass:
		return s.Class
	case dimTemplate:
		return s.Template
	case dimContent:
		return s.Content
	case dimProvider:
		return s.Provider
	case dimCountry:
		return s.Country
	case dimPrefix:
		digits := phoneDigits(s.Recipient)
		return digits[:min(d.digits, len(digits))]
	default:
		return s.Metadata[d.field]
	}
}

// phoneDigits returns the digits of an E.164 number, and nothing for any other
// kind of recipient.
func phoneDigits(recipient string) string {
	if len(recipient) < 2 || recipient[0] != '+' {
		return ""
	}
	for _, c := range []byte(recipient[1:]) {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return recipient[1:]
}

// appendScope appends the text of a scope: which of a limit's counts a subject
// belongs to. A limit per recipient alone has the recipient itself,
// "+8613800000000"; any other has its dimensions in the contract's order,
// "recipient=+8613800000000,class=verify"; a limit for all has the empty text.
// In names and values %, comma, =, control bytes and bytes that are no UTF-8
// are written %XX, so that different values never make the same text.
func appendScope(b []byte, dims []dimension, s *Subject) []byte {
	if len(dims) == 1 && dims[0].order == dimRecipient {
		return appendEscaped(b, s.Recipient)
	}
	for i := range dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, dims[i].label...)
		b = appendEscaped(b, dims[i].value(s))
	}
	return b
}

// plain has the bytes that stand for themselves in a scope's text.
var plain = func() (p [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		p[c] = c != '%' && c != ',' && c != '='
	}
	return p
}()

func appendEscaped(b []byte, v string) []byte {
	const hex = "0123456789ABCDEF"
	for len(v) > 0 {
		run := 0
		for run < len(v) && plain[v[run]] {
			run++
		}
		if run == 0 {
			if _, size := utf8.DecodeRuneInString(v); size > 1 { // 1 is a broken byte, or ASCII
				run = size
			}
		}
		if run == 0 {
			b = append(b, '%', hex[v[0]>>4], hex[v[0]&15])
			v = v[1:]
			continue
		}
		b = append(b, v[:run]...)
		v = v[run:]
	}
	return b
}
