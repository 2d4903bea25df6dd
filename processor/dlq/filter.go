package dlq

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Filter chooses records: all that have each field it gives.
type Filter struct {
	Since    schemas.Millis `json:"since,omitzero"` // by the broker's time of the record; 0 is its beginning
	Until    schemas.Millis `json:"until,omitzero"` // and before this; 0 is the end
	Class    string         `json:"class,omitempty"`
	Provider string         `json:"provider,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Tenant   string         `json:"tenant,omitempty"`
	// IDs are messages, or positions PARTITION/OFFSET; none is all.
	IDs []string `json:"ids,omitempty"`
	// Again, of a redrive, takes what was redriven already, too. It chooses nothing.
	Again bool `json:"again,omitempty"`
}

// Reasons that may be gone by now: the provider was away, or the policy lacked
// something that it may have now. All others are permanent: to send such a message
// again costs, and the same answer or a message that no one meant to send comes of it.
var passing = []string{
	"attempts_exhausted", "internal_error", "no_callback_secret", "no_route", "no_usable_provider", "provider_wrong_channel",
	"template_wrong_channel", "unknown_provider", "unknown_template",
}

// leaves returns why a redrive leaves out a record that matches; "" when it does not.
// A permanent reason is sent again only where the filter names it, or the record.
func (f *Filter) leaves(e *Entry) string {
	switch {
	case e.Skip != "":
		return e.Skip
	case e.RedrivenAt != 0 && !f.Again:
		return SkipRedriven
	case f.Reason == "" && len(f.IDs) == 0 && !slices.Contains(passing, e.Reason):
		return e.Reason
	}
	return ""
}

func (f *Filter) matches(e *Entry) bool {
	return (f.Since == 0 || e.At >= f.Since) && (f.Until == 0 || e.At < f.Until) &&
		(f.Class == "" || e.Class == f.Class) && (f.Provider == "" || e.Provider == f.Provider) &&
		(f.Reason == "" || e.Reason == f.Reason) && (f.Tenant == "" || e.Tenant == f.Tenant) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, e.MessageID) || slices.Contains(f.IDs, e.Position))
}

// Empty reports whether it chooses everything.
func (f *Filter) Empty() bool {
	return f.Since == 0 && f.Until == 0 && f.Class == "" && f.Provider == "" && f.Reason == "" && f.Tenant == "" && len(f.IDs) == 0
}

func position(partition int32, offset int64) string {
	return strconv.FormatInt(int64(partition), 10) + "/" + strconv.FormatInt(offset, 10)
}

// parsePosition reads PARTITION/OFFSET.
func parsePosition(text string) (partition int32, offset int64, err error) {
	a, b, ok := strings.Cut(text, "/")
	p, err1 := strconv.ParseInt(a, 10, 32)
	o, err2 := strconv.ParseInt(b, 10, 64)
	if !ok || err1 != nil || err2 != nil || p < 0 || o < 0 {
		return 0, 0, fmt.Errorf("%q is no PARTITION/OFFSET, such as 3/17", text)
	}
	return int32(p), o, nil
}
