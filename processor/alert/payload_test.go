package alert

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/schemas"
)

// hostile is a notice whose every foreign text tries to be markup.
func hostile() *Notice {
	const evil = "<!channel> *b* `c` <https://evil.example|click> @here &lt; \" \\ \n\u202e"
	h := Happening{Subject: Subject{Event: schemas.AlertDLQRecord, Reason: evil, Provider: evil}, At: minute, Class: evil, Tenant: evil, To: "+8613800000000"}
	s := &Sum{Subject: h.Subject}
	s.add(&h)
	st := &Standing{Subject: Subject{Event: schemas.AlertSinkDifference, Process: "0", Reason: failingReason}, Since: minute, On: true, Begun: 1, Detail: evil}
	return &Notice{ID: "alert_oncall_1", Alert: "oncall", At: 2 * minute, Sums: []*Sum{s}, Standings: []*Standing{st}}
}

// TestSlackBody: what others wrote stands in plain text, escaped.
func TestSlackBody(t *testing.T) {
	var body struct {
		Text   string
		Mrkdwn *bool
		Blocks []struct {
			Type     string
			Text     *slackText
			Elements []slackText
		}
	}
	if err := json.Unmarshal(SlackBody(hostile()), &body); err != nil {
		t.Fatal(err)
	}
	if body.Mrkdwn == nil || *body.Mrkdwn || len(body.Blocks) < 4 || len(body.Blocks) > 50 || body.Blocks[0].Type != "header" {
		t.Errorf("%+v", body)
	}
	texts := []slackText{{Type: "fallback", Text: body.Text}}
	for _, b := range body.Blocks {
		if b.Text != nil {
			texts = append(texts, *b.Text)
		}
		texts = append(texts, b.Elements...)
	}
	for _, x := range texts {
		if strings.ContainsAny(x.Text, "<>") || len(x.Text) > 3000 || x.Text == "" {
			t.Errorf("%s: %s", x.Type, x.Text)
		}
		if x.Type == "mrkdwn" && (strings.Contains(x.Text, "evil") || strings.Contains(x.Text, "channel")) {
			t.Errorf("foreign text as markup: %s", x.Text)
		}
		if strings.Contains(x.Text, "13800000000") {
			t.Errorf("a recipient: %s", x.Text)
		}
	}
	if !strings.Contains(string(SlackBody(hostile())), "+86*********00") {
		t.Error("nobody is named at all")
	}
}

func TestNextIsCodeWhereHarmless(t *testing.T) {
	s := &Sum{Subject: Subject{Event: schemas.AlertDLQRecord, Reason: "permanent"}, Count: 1, First: minute, Last: minute}
	if b := string(SlackBody(&Notice{Alert: "a", At: minute, Sums: []*Sum{s}})); !strings.Contains(b, "Next: `weir dlq list --reason permanent`") {
		t.Errorf("%s", b)
	}
}

// TestSendSigns: a webhook with a secret can be checked, and one whose secret is
// none is not sent at all.
func TestSendSigns(t *testing.T) {
	const key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	got := make(chan error, 9)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		wh, err := webhooks.NewWebhook(key)
		if err == nil {
			err = wh.Verify(b, r.Header)
		}
		got <- err
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	allow, _ := outbound.ParseNetworks([]string{"127.0.0.1"})
	client := outbound.New(outbound.Config{Allow: allow})
	defer client.Close()
	env := map[string]string{"URL": s.URL, "KEY": key, "BAD": "no key"}
	sender := Sender{Client: client, Getenv: func(k string) string { return env[k] }}
	to := func(kind, secret string) *schemas.Alert {
		return &schemas.Alert{Name: "a", To: map[string]any{"type": kind, "url": "${URL}", "secret": secret}}
	}
	if _, v, err := sender.Send(context.Background(), to("webhook", "${KEY}"), hostile()); v != Taken || err != nil {
		t.Fatalf("%s %v", v, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	for _, secret := range []string{"${BAD}", "${NONE}"} {
		if _, v, err := sender.Send(context.Background(), to("webhook", secret), hostile()); v == Taken || err == nil || strings.Contains(err.Error(), env["BAD"]) && env["BAD"] != "" {
			t.Errorf("%s: %s %v", secret, v, err)
		}
	}
	if len(got) != 0 {
		t.Error("sent without a signature")
	}
	if _, v, err := sender.Send(context.Background(), to("email", ""), hostile()); v != Refused || err == nil {
		t.Errorf("%s %v", v, err)
	}
}

func TestVerdictOf(t *testing.T) {
	for code, want := range map[int]Verdict{200: Taken, 204: Taken, 301: Refused, 307: Refused, 400: Refused, 403: Refused, 404: Refused, 408: Again, 410: Refused, 429: Again, 500: Again, 502: Unsure, 503: Again, 504: Unsure} {
		if got := verdictOf(code); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
	}
}

// TestUnsure: where a connection came about and no answer did, the notice may have been
// taken; where none did, it was not.
func TestUnsure(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // it has all of it, and says nothing
	}))
	defer receiver.Close()
	networks, err := outbound.ParseNetworks([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	client := outbound.New(outbound.Config{Allow: networks})
	defer client.Close()
	url := receiver.URL
	sender := &Sender{Client: client, Getenv: func(string) string { return url }}
	a := &schemas.Alert{Name: "a", To: map[string]any{"type": "slack", "url": "${URL}"}}
	if _, v, err := sender.Send(t.Context(), a, hostile()); v != Unsure || err == nil {
		t.Errorf("no answer: %s, %v", v, err)
	}
	url = "http://127.0.0.1:1"
	if _, v, err := sender.Send(t.Context(), a, hostile()); v != Again || err == nil {
		t.Errorf("nobody there: %s, %v", v, err)
	}
}
