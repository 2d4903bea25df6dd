package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// Send hands a message over and returns when the brokers hold it. Its status is
// then accepted: no decision has been taken yet, unless the key's own default
// says to wait for it.
//
// Without an idempotency key of the caller's it makes one for this call: the
// message is sent once however often the call is tried, and sent again if the
// caller calls again. q is not changed. A refusal is a *Problem; anything else
// means that no answer came, and that the message may have been accepted.
func (c *Client) Send(ctx context.Context, q *schemas.Request) (*Sent, error) {
	return c.send(ctx, q, "/v1/messages", nil, 0)
}

// SendAndWait is Send that waits for the decision, for at most the given time,
// in whole seconds rounded up. It returns what was decided first, and accepted
// where the time was too short; a *Problem with TypeQuotaExceeded where a limit
// refused it, and with status 422 where it was rejected.
func (c *Client) SendAndWait(ctx context.Context, q *schemas.Request, wait time.Duration) (*Sent, error) {
	seconds := max((wait+time.Second-1)/time.Second, 1)
	prefer := http.Header{"Prefer": {"wait=" + strconv.Itoa(int(seconds))}}
	return c.send(ctx, q, "/v1/messages", prefer, seconds*time.Second)
}

// Decide asks whether a message may be sent, and takes its place, for who sends
// it without Weir. The status is sent when it may; deferred and the like when
// it may later; accepted where that was not decided within seconds. A limit's
// refusal is a *Problem with TypeQuotaExceeded. Release gives the place back. It
// is Send otherwise.
func (c *Client) Decide(ctx context.Context, q *schemas.Request) (*Sent, error) {
	return c.send(ctx, q, "/v1/decisions", nil, decideTime)
}

// What the server waits for at most in addition to what any call takes.
const (
	decideTime  = 10 * time.Second // a decision
	redriveTime = 20 * time.Second // a walk of a topic
)

func (c *Client) send(ctx context.Context, q *schemas.Request, path string, header http.Header, wait time.Duration) (*Sent, error) {
	var a Sent
	body, err := keyed(q)
	if err == nil {
		_, err = c.do(ctx, &call{method: http.MethodPost, path: path, header: header, body: body, more: wait}, &a)
	}
	if err != nil {
		return nil, fmt.Errorf("send message: %w", err)
	}
	return &a, nil
}

// keyed is a request with an idempotency key. The key stands in the body, as it
// does in a batch: so one place decides how it is written.
func keyed(q *schemas.Request) ([]byte, error) {
	if q.IdempotencyKey == "" {
		id, err := uuid.NewRandom()
		if err != nil {
			return nil, fmt.Errorf("make an idempotency key: %w", err)
		}
		own := *q
		own.IdempotencyKey = id.String()
		q = &own
	}
	return schemas.RequestJSON(q), nil
}

// Recipient is who is to get a message, where its id alone does not tell: for ids
// that the producer made, and may have used for several. Channel is sms when
// empty. Calls take at most one.
type Recipient struct {
	To      string
	Channel schemas.Channel
	Tenant  string // of Get alone: the caller's own when empty; another's with an operator's key
}

// Release gives back the place of a decision whose message was not sent.
func (c *Client) Release(ctx context.Context, id string, of ...Recipient) (*Done, error) {
	var a Done
	if err := c.act(ctx, "/v1/decisions/", id, "/release", of, &a); err != nil {
		return nil, fmt.Errorf("release decision: %w", err)
	}
	return &a, nil
}

// Cancel asks that a message be not sent; the answer tells whether that was in
// time, if it was decided at once.
func (c *Client) Cancel(ctx context.Context, id string, of ...Recipient) (*Done, error) {
	var a Done
	if err := c.act(ctx, "/v1/messages/", id, "/cancel", of, &a); err != nil {
		return nil, fmt.Errorf("cancel message: %w", err)
	}
	return &a, nil
}

// Retry sends a message that was limited, failed or expired again, as a new
// message whose id it returns; a *Problem with status 410 when its request has
// left Kafka. To ask for it again is to get the same new message.
func (c *Client) Retry(ctx context.Context, id string, of ...Recipient) (*Sent, error) {
	var a Sent
	if err := c.act(ctx, "/v1/messages/", id, "/retry", of, &a); err != nil {
		return nil, fmt.Errorf("retry message: %w", err)
	}
	return &a, nil
}

// Callbacks asks for the callbacks of a message again: of every status that is known of
// it, in their order, under the same webhook-ids.
func (c *Client) Callbacks(ctx context.Context, id string, of ...Recipient) (*Replayed, error) {
	var a Replayed
	if err := c.act(ctx, "/v1/messages/", id, "/callbacks", of, &a); err != nil {
		return nil, fmt.Errorf("replay callbacks: %w", err)
	}
	return &a, nil
}

// act asks for something that is the same however often it is asked for.
func (c *Client) act(ctx context.Context, before, id, after string, of []Recipient, into any) error {
	_, err := c.do(ctx, &call{method: http.MethodPost, path: before + url.PathEscape(id) + after, query: recipient(of)}, into)
	return err
}

func recipient(of []Recipient) url.Values {
	v := make(url.Values)
	for _, r := range of {
		set(v, "to", r.To)
		set(v, "channel", string(r.Channel))
		set(v, "tenant", r.Tenant)
	}
	return v
}

// Get returns what is known of a message; a *Problem with status 404 when
// nothing is.
func (c *Client) Get(ctx context.Context, id string, of ...Recipient) (*Message, error) {
	var m Message
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/messages/" + url.PathEscape(id), query: recipient(of)}, &m); err != nil {
		return nil, fmt.Errorf("get message: %w", err)
	}
	return &m, nil
}

// MessageQuery chooses messages; what is empty chooses all.
type MessageQuery struct {
	To      string
	Channel schemas.Channel
	Status  []schemas.Status // any of them
	Class   string
	Tenant  string         // the caller's own when empty; another's with an operator's key
	From    schemas.Millis // accepted at this time or later
	Until   schemas.Millis // and before this
	Limit   int            // of one page; 0 is the server's default
	Cursor  string         // of the page before, with the same query
}

func (q MessageQuery) values() url.Values {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "channel", string(q.Channel))
	set(v, "status", statuses(q.Status))
	set(v, "class", q.Class)
	set(v, "tenant", q.Tenant)
	set(v, "from", q.From.String())
	set(v, "until", q.Until.String())
	set(v, "cursor", q.Cursor)
	setNumber(v, "limit", q.Limit)
	return v
}

func statuses(list []schemas.Status) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func setNumber(v url.Values, name string, n int) {
	if n != 0 {
		v.Set(name, strconv.Itoa(n))
	}
}

// List returns one page of messages, the newest first.
func (c *Client) List(ctx context.Context, q MessageQuery) (*MessagePage, error) {
	var p MessagePage
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/messages", query: q.values()}, &p); err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	return &p, nil
}

// All walks all pages from q.Cursor on. An error is the last thing it yields.
func (c *Client) All(ctx context.Context, q MessageQuery) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			p, err := c.List(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range p.Messages {
				if !yield(&p.Messages[i], nil) {
					return
				}
			}
			if q.Cursor = p.NextCursor; q.Cursor == "" {
				return
			}
		}
	}
}
