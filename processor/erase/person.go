package erase

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Person is who is erased.
type Person struct {
	Keys   []string // canonical recipients, and the text as it was given
	Tenant string   // of this tenant only; "" is of all

	// Mailboxes that the keys reach by the policy's rules. They are erased from scopes
	// alone: the messages to another address of a mailbox are that address's.
	Mailboxes []string

	// How other spellings are read: a message that was refused for its form has its
	// recipient as it came.
	Channel schemas.Channel // "" is on each
	Regions []string        // of a number without +
}

// ErrNobody: the text is no recipient on any channel that was asked for.
var ErrNobody = errors.New("this is nobody on any channel")

var channels = []schemas.Channel{schemas.ChannelSMS, schemas.ChannelVoice, schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook}

// longest is more than any recipient has, in bytes.
const longest = 2048

// Spell returns everyone whom a text may mean, as requests spell recipients: on
// the channel or, where it is empty, on each that can be read so; a number without
// + in each of the regions. A push token or a user's name can be any text, so
// without a channel it is also taken as it is, unless it
// can only be a number whose country nobody knows. A text that was refused stands in
// rejected messages as it came: it is among the keys too.
func Spell(text string, channel schemas.Channel, regions []string) ([]string, error) {
	if text == "" || len(text) > longest || !utf8.ValidString(text) {
		return nil, ErrNobody
	}
	var (
		keys  []string
		phone bool
	)
	for _, ch := range channels {
		if channel != "" && ch != channel {
			continue
		}
		for _, region := range append([]string{""}, regions...) {
			to, err := recipient.Canonical(ch, text, region)
			if err != nil {
				continue
			}
			phone = phone || ch == schemas.ChannelSMS || ch == schemas.ChannelVoice
			if !slices.Contains(keys, to.Key) {
				keys = append(keys, to.Key)
			}
		}
	}
	number := strings.Trim(text, "+0123456789 ().-/") == "" && (channel == "" || channel == schemas.ChannelSMS || channel == schemas.ChannelVoice)
	if number && !phone {
		return nil, fmt.Errorf("%w: a number has its + and country, or a region (--region CN), and all its digits; --channel push takes it as it stands", ErrNobody)
	}
	if len(keys) == 0 {
		return nil, ErrNobody
	}
	if !slices.Contains(keys, text) {
		keys = append(keys, text)
	}
	return keys, nil
}

// is reports whether a text as a request spelled it means the person.
func (p *Person) is(text string) bool {
	keys, err := Spell(text, p.Channel, p.Regions)
	return err == nil && slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(p.Keys, k) })
}

// marks are what every spelling of the person has in common, to look for them by:
// the last digits of a number, and the part of an address before its domain, but for
// letter case.
func (p *Person) marks() (digits, parts []string) {
	for _, k := range p.Keys {
		if number, ok := strings.CutPrefix(k, "+"); ok && len(number) > 6 && strings.Trim(number, "0123456789") == "" {
			digits = append(digits, number[len(number)-6:])
			continue
		}
		if u, err := url.Parse(k); err == nil && u.Host != "" {
			parts = append(parts, u.EscapedPath())
		} else if at := strings.LastIndexByte(k, '@'); at > 0 {
			parts = append(parts, k[:at+1])
		}
	}
	return digits, parts
}

// texts are the ways in which a key stands within other text: as it is, as part of
// a limit's scope, and each as JSON. The longest come first.
func texts(keys []string) []string {
	var out []string
	for _, k := range keys {
		for _, t := range []string{k, escaped(k)} {
			raw, err := json.Marshal(t)
			if err != nil {
				panic(err) // it is a text
			}
			out = append(out, t, string(raw[1:len(raw)-1]))
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}

// escaped writes a value as a scope has it (processor/limit).
func escaped(v string) string {
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if c := v[i]; c < 0x20 || c == 0x7f || c == '%' || c == ',' || c == '=' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// patterns are RE2 for the texts where they stand whole: one that begins another
// person's is not that person's. A mailbox is the person's only where a limit per
// mailbox names it. strict is for scopes, alone or in JSON; loose for
// sentences and columns of any kind.
func patterns(keys, mailboxes []string) (strict, loose string) {
	var all []string
	for _, box := range mailboxes {
		scope := "mailbox=" + escaped(box)
		raw, err := json.Marshal(scope)
		if err != nil {
			panic(err) // it is a text
		}
		all = append(all, regexp.QuoteMeta(scope), regexp.QuoteMeta(string(raw[1:len(raw)-1])))
	}
	for _, t := range texts(keys) {
		all = append(all, regexp.QuoteMeta(t))
	}
	any := "(" + strings.Join(all, "|") + ")"
	return `(^|["=,])` + any + `($|[",])`,
		`(^|[^0-9A-Za-z+@._/-])` + any + `($|[^0-9A-Za-z@._/?&%#=:+-]|[.:]($|[^0-9A-Za-z]))`
}
