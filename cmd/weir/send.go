package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// apiKeyEnv has the API key of commands that speak HTTP: no flag, since others
// may read a command line.
const apiKeyEnv = "WEIR_API_KEY"

var sendCommand = command{
	name:    "send",
	args:    "--to RECIPIENT [--channel sms] [--class CLASS] [--body TEXT | --template NAME --var k=v] [--wait]",
	summary: "Send one message over HTTP; with --wait, print what became of it.",
	details: "The API key is read from " + apiKeyEnv + "; weir dev needs none.",
	exits: []string{
		"0 accepted; with --wait: sent or delivered",
		"1 the API refused the request, or the weir dev of this directory does not run",
		"2 wrong usage",
		"3 with --wait: limited; try again at the time that it prints; without a time it can never pass",
		"4 with --wait: not sent for another reason: failed, undelivered, expired, rejected, suppressed, cancelled or duplicate",
		"5 not known: the API did not answer; with --wait also: not ended within --timeout, or unknown, so that it may have been received",
	},
	example: `weir send --to +8613800000000 --class verify --body "code 1" --wait`,
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("send", flag.ContinueOnError)
		req := &schemas.Request{}
		vars := map[string]string{}
		fs.StringVar(&req.To, "to", "", "recipient")
		channel := fs.String("channel", "sms", "sms, voice, email, push or webhook")
		fs.StringVar(&req.Class, "class", "", "class (default \"default\")")
		fs.StringVar(&req.Body, "body", "", "content")
		fs.StringVar(&req.Subject, "subject", "", "subject of an e-mail")
		fs.StringVar(&req.Title, "title", "", "title of a push")
		fs.StringVar(&req.Template, "template", "", "template instead of content")
		fs.StringVar(&req.Provider, "provider", "", "pin a provider")
		fs.StringVar(&req.IdempotencyKey, "key", "", "idempotency key")
		priority := fs.String("priority", "", "urgent, normal or bulk")
		cost := fs.Int("cost", 1, "places it takes in limits with count: cost, 1 to 1000000")
		sendAt := fs.String("send-at", "", "not before this time, RFC 3339")
		fs.Func("var", "variable of the template, name=value; may be repeated", func(v string) error {
			name, value, ok := strings.Cut(v, "=")
			if !ok {
				return fmt.Errorf("%q is not name=value", v)
			}
			vars[name] = value
			return nil
		})
		wait := fs.Bool("wait", false, "wait until the message has ended, at most --timeout")
		timeout := fs.Duration("timeout", 30*time.Second, "how long --wait waits")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parseOnly(fs); err != nil {
			return err
		}
		if req.To == "" {
			return usagef("--to is missing")
		}
		if *timeout <= 0 {
			return usagef("--timeout %v: give a time to wait, such as 30s", *timeout)
		}
		if *cost < 1 || *cost > schemas.MaxCost {
			return usagef("--cost %d: give a whole number from 1 to %d", *cost, schemas.MaxCost)
		}
		if *cost > 1 { // a server of an earlier version refuses a field that it does not know
			req.Cost = *cost
		}
		s, err := load()
		if err != nil {
			return err
		}
		if req.SendAt, err = schemas.ParseMillis(*sendAt); err != nil {
			return usagef("--send-at: %v", err)
		}
		req.Channel, req.Priority = schemas.Channel(*channel), schemas.Priority(*priority)
		if len(vars) > 0 {
			req.Vars = vars
		}
		return c.send(ctx, client.New("http://"+s.HTTP, c.getenv(apiKeyEnv)), req, *wait, *timeout, *asJSON)
	},
}

func (c *call) send(ctx context.Context, cl *client.Client, req *schemas.Request, wait bool, timeout time.Duration, asJSON bool) error {
	began := time.Now()
	m, err := handOver(ctx, cl, req, wait, timeout)
	if err == nil && wait {
		id := m.ID
		if m, err = await(ctx, cl, id, began.Add(timeout)); ctx.Err() != nil {
			return &exitStatus{exitUnknown, fmt.Errorf("%s was accepted; what becomes of it is in weir tail, and in GET /v1/messages/%s", id, id)}
		}
	}
	if p, ok := errors.AsType[*client.Problem](err); err != nil && (!ok || p.Status >= http.StatusInternalServerError) {
		return &exitStatus{exitUnknown, err} // it may have been accepted
	}
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusUnauthorized {
		return fmt.Errorf("%s; the key is read from %s", strings.TrimSuffix(p.Error(), "."), apiKeyEnv)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(c.stdout).Encode(m)
	} else {
		_, err = fmt.Fprintln(c.stdout, outcome(m, time.Now(), time.Since(began)))
	}
	if err == nil && wait {
		err = exitOfStatus(m.Status)
	}
	return err
}

// exitOfStatus is the exit code of what became of a message that was waited for.
func exitOfStatus(s schemas.Status) error {
	switch s {
	case schemas.StatusSent, schemas.StatusDelivered:
		return nil
	case schemas.StatusLimited:
		return &exitStatus{exitLimited, nil}
	case schemas.StatusRejected, schemas.StatusSuppressed, schemas.StatusCancelled, schemas.StatusDuplicate, schemas.StatusExpired,
		schemas.StatusFailed, schemas.StatusUndelivered:
		return &exitStatus{exitUnsent, nil}
	case schemas.StatusAccepted, schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSending,
		schemas.StatusRetrying, schemas.StatusUnknown:
	}
	return &exitStatus{exitUnknown, nil}
}

// handOver sends a message, and if it is to wait, until it is decided. What a
// limit or a rule has ended is no error: it has an id, and its status tells.
func handOver(ctx context.Context, cl *client.Client, req *schemas.Request, wait bool, timeout time.Duration) (*client.Message, error) {
	send := cl.Send
	if wait {
		send = func(ctx context.Context, q *schemas.Request) (*client.Sent, error) {
			return cl.SendAndWait(ctx, q, timeout)
		}
	}
	sent, err := send(ctx, req)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.ID != "" && p.Status != http.StatusConflict { // of a conflict the id is another message's
		return &client.Message{ID: p.ID}, nil
	}
	if err != nil {
		return nil, err
	}
	return &client.Message{ID: sent.ID, Status: sent.Status}, nil
}

// await asks for the message until it has ended or the time is up.
func await(ctx context.Context, cl *client.Client, id string, until time.Time) (*client.Message, error) {
	pause := 5 * time.Millisecond
	for {
		m, err := cl.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if m.Status.End() || m.Status.Rank() > schemas.StatusSent.Rank() || time.Now().After(until) {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 40*time.Millisecond)
	}
}

// outcome is one line for people.
func outcome(m *client.Message, now time.Time, took time.Duration) string {
	head := fmt.Sprintf("%-9s %s", m.Status, m.ID)
	switch m.Status {
	case schemas.StatusLimited, schemas.StatusDeferred:
		text := fmt.Sprintf("%s: %s %s", m.Status, m.Limit, m.Window)
		if m.RetryAt != 0 {
			text += fmt.Sprintf(", try again at %s (%.0f s)", localTime(m.RetryAt, schemas.MillisOf(now)), max(m.RetryAt.Time().Sub(now).Seconds(), 0))
		} else {
			text += ", and this message alone takes more: it can never pass"
		}
		return text + "   " + m.ID
	case schemas.StatusSent, schemas.StatusDelivered:
		return fmt.Sprintf("%s by %s after %d ms", head, m.Provider, took.Milliseconds())
	case schemas.StatusScheduled, schemas.StatusRetrying:
		return fmt.Sprintf("%s until %s", head, localTime(m.RetryAt, schemas.MillisOf(now)))
	case schemas.StatusRejected, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusExpired:
		return strings.TrimRight(fmt.Sprintf("%s %s %s", head, m.Reason, m.Error), " ")
	default:
		return head
	}
}
