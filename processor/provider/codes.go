package provider

import (
	"cmp"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Codes is what a provider's codes mean to Weir: the one place where an adapter
// says so. weir explain provider TYPE prints it.
//
// What a provider would answer to any message, because of the account (a wrong key, one
// that may not send, no money, a quota used up) or of this machine (its clock), is
// Transient and not OfRecipient: it counts against the provider's health, so the lane
// stops calling, routes go elsewhere and messages wait until the operator has mended it.
// Permanent would fail each of them until somebody looks.
type Codes struct {
	Sources []Source
	Send    []Code // of answers to a call
	Else    Code   // of a call that failed with a code that is not in Send
	Receipt []Code // of receipts; a code that is not in it is undelivered, and nothing more
}

// Source is where the meaning of codes was read.
type Source struct {
	Title string // the page's, in the provider's documentation
	URL   string
}

// Code is one row.
type Code struct {
	Code string // as the provider writes it; a * at its end stands for any ending
	Kind Kind   // of a call. Of a receipt: Accepted is delivered, Permanent undelivered, "" neither (still on its way)
	// As in Outcome.
	MayBeReceived bool
	OfRecipient   bool
	OfProvider    bool
	Suppress      schemas.SuppressReason
	Means         string // in a few plain words, as the outcome's text has them
}

// Of returns the row of a code: the exact one, else the longest of those with a *.
func (c *Codes) Of(code string) (Code, bool) { return find(c.Send, code) }

// OfReceipt is Of for the codes of receipts.
func (c *Codes) OfReceipt(code string) (Code, bool) { return find(c.Receipt, code) }

func find(rows []Code, code string) (Code, bool) {
	best, found := Code{}, false
	for _, r := range rows {
		if r.Code == code {
			return r, true
		}
		prefix, any := strings.CutSuffix(r.Code, "*")
		if any && strings.HasPrefix(code, prefix) && (!found || len(r.Code) > len(best.Code)) {
			best, found = r, true
		}
	}
	return best, found
}

// Outcome is what an answer with a code means. The outcome's code is the
// provider's, so that people find it in the provider's documentation; one that is
// empty, longer than 64 bytes or not printable ASCII is left out, since it may be
// anything.
func (c *Codes) Outcome(code string) Outcome {
	row, ok := c.Of(code)
	if !ok {
		row = c.Else
	}
	o := Outcome{Kind: row.Kind, MayBeReceived: row.MayBeReceived || row.Kind == Unknown, OfRecipient: row.OfRecipient || row.Suppress != "", OfProvider: row.OfProvider, Suppress: row.Suppress, Text: row.Means}
	o.Code = cmp.Or(CodeText(code), "no_code")
	return o
}

// CodeText is a provider's code as it may stand in an event; empty where it is longer
// than 64 bytes or not printable ASCII, since it may then be anything.
func CodeText(s string) string {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return s
}
