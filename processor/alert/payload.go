package alert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// maxItems is how many lines of a notice are shown in Slack; a webhook gets all.
const maxItems = 12

// webhook is the body of a webhook, in the shape of Standard Webhooks.
type webhook struct {
	Type      string         `json:"type"`
	Timestamp schemas.Millis `json:"timestamp"`
	Data      webhookData    `json:"data"`
}

type webhookData struct {
	ID    string `json:"id"` // the same over all tries, and that of webhook-id
	Alert string `json:"alert"`
	Event string `json:"event"` // of the first item
	Count int64  `json:"count"` // of all items
	Text  string `json:"text"`
	Items []Item `json:"items"`
	Test  bool   `json:"test,omitempty"`
}

// WebhookBody returns what a webhook is sent for a notice.
func WebhookBody(n *Notice) []byte {
	items := n.Items()
	d := webhookData{ID: n.ID, Alert: n.Alert, Count: n.Count(), Text: n.Title(), Items: items, Test: n.Test}
	if len(items) > 0 {
		d.Event = items[0].Event
	}
	if items == nil {
		d.Items = []Item{}
	}
	return encode(webhook{Type: "alert", Timestamp: n.At, Data: d})
}

type slackText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"`
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

// SlackBody returns what Slack's incoming webhooks take. What others wrote, such as
// the name of a class, stands in objects of type plain_text only, where neither
// markup nor mentions are read. Bold and code are for words of Weir's own, and for
// commands of harmless letters.
func SlackBody(n *Notice) []byte {
	no := false
	plain := func(s string) *slackText {
		return &slackText{Type: "plain_text", Text: bounded(escape(s), 2900), Emoji: &no}
	}
	blocks := []slackBlock{{Type: "header", Text: &slackText{Type: "plain_text", Text: bounded(escape(n.Title()), 140), Emoji: &no}}}
	items := n.Items()
	if n.Test {
		blocks = append(blocks, slackBlock{Type: "section", Text: plain("Whoever reads this will be told by the alert " + n.Alert + ".")})
	}
	for i, item := range items {
		if i == maxItems {
			blocks = append(blocks, slackBlock{Type: "section", Text: plain(fmt.Sprintf("And %d more: see weir status and weir tail.", len(items)-i))})
			break
		}
		blocks = append(blocks, slackBlock{Type: "section", Text: plain(item.Text)})
		if item.Next != "" && item.State != Resolved {
			blocks = append(blocks, slackBlock{Type: "context", Elements: []slackText{nextText(item.Next, plain)}})
		}
	}
	return encode(struct {
		Text   string       `json:"text"` // what notifications show
		Mrkdwn bool         `json:"mrkdwn"`
		Blocks []slackBlock `json:"blocks"`
	}{flat(escape(n.Title())), false, blocks})
}

var harmless = regexp.MustCompile(`^[A-Za-z0-9 ._/:=,;()-]+$`)

func nextText(next string, plain func(string) *slackText) slackText {
	if harmless.MatchString(next) && strings.HasPrefix(next, "weir ") && !strings.ContainsAny(next, ",;") {
		return slackText{Type: "mrkdwn", Text: "Next: `" + next + "`"}
	}
	return *plain("Next: " + next)
}

// escape replaces what Slack reads as control sequences in every kind of text.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// flat takes Slack's markup out of a text that may be read as such.
func flat(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("*_~`", r) {
			return '\''
		}
		return r
	}, s)
}

// bounded keeps a text within Slack's bounds, without cutting an escape in two.
func bounded(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	if i := strings.LastIndexByte(s, '&'); i >= 0 && !strings.Contains(s[i:], ";") {
		s = s[:i]
	}
	return strings.ToValidUTF8(s, "") + "…"
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a notice cannot be encoded: %v", err)) // strings and numbers only
	}
	return b
}
