package ingest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/replies"
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// quotaWithin is how long the owners of the limits have to answer.
const quotaWithin = 3 * time.Second

// getQuota says what the limits leave to a recipient. Each partition that owns
// one of them is asked through its log, so that the answer is exact as of the
// question's place there.
func (s *Server) getQuota(w http.ResponseWriter, r *http.Request, c *caller) {
	rev := s.policy.Latest()
	q, p := readQuota(r, c, &rev.Policy)
	if p != nil {
		refuse(w, r, p)
		return
	}
	rules, err := s.rules.of(rev)
	if err != nil {
		s.logger.Error("the policy in force has limits that do not compile", "revision", rev.Revision, "error", err)
		refuse(w, r, internal.problem("The mistake is in the server's log."))
		return
	}
	plan := rules.Inquire(q, s.partitions)
	// Whoever has the recipient knows what it has opted out of.
	home := schemas.PartitionOf(q.Recipient, s.partitions)
	if plan.Asks[home] == nil {
		plan.Asks[home] = &schemas.QuotaAsk{Scopes: []schemas.QuotaScope{}}
	}
	plan.Asks[home].To, plan.Asks[home].Of = q.Recipient, q.Tenant
	states, suppressed, p := s.inquire(w, r, plan.Asks)
	if p != nil {
		refuse(w, r, p)
		return
	}
	inOrder(states, &rev.Policy)
	out := &client.Quota{
		To: q.Recipient, Channel: q.Channel, Class: q.Class, At: schemas.MillisOf(time.Now()), Limits: states, Unknown: plan.Unknown, Suppressed: suppressed,
	}
	if out.Suppressed == nil {
		out.Suppressed = []schemas.Suppression{}
	}
	if out.Limits == nil {
		out.Limits = []schemas.LimitState{}
	}
	answer(w, http.StatusOK, "application/json", out)
}

// readQuota reads whose quota it is: what a message would say of itself.
func readQuota(r *http.Request, c *caller, rules *schemas.Policy) (*limit.Subject, *client.Problem) {
	q := &limit.Subject{Tenant: c.about(), Class: schemas.DefaultClass, Segments: 1}
	var to string
	var channel schemas.Channel
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "to":
			if to = v; v == "" || len(v) > mostTo {
				err = errors.New("is a recipient")
			}
		case "channel":
			channel, err = readChannel(v)
		case "class":
			q.Class, err = readName(v)
		case "template":
			q.Template, err = readName(v)
		case "provider":
			q.Provider, err = readName(v)
		default:
			field, ok := strings.CutPrefix(name, "metadata.")
			if !ok || field == "" {
				return errUnknownField
			}
			if q.Metadata == nil {
				q.Metadata = make(map[string]string)
			}
			q.Metadata[field] = v
		}
		return err
	})
	if p != nil {
		return nil, p
	}
	if to == "" && len(wrong) == 0 {
		wrong = append(wrong, wrongParameter("to", errors.New("is required")))
	}
	if p := invalidParameters(wrong); p != nil {
		return nil, p
	}
	if channel == "" {
		channel = schemas.ChannelSMS
		if strings.Contains(to, "@") {
			channel = schemas.ChannelEmail
		}
	}
	own, _ := rules.Tenant(c.about())
	keys, err := recipients(channel, to, own.DefaultRegion)
	if err != nil {
		return nil, invalidParameters([]client.FieldError{wrongParameter("to", err)})
	}
	q.Recipient, q.Channel = keys[0], string(channel)
	if whose, err := recipient.Canonical(channel, keys[0], own.DefaultRegion); err == nil {
		q.Country = whose.Country
	}
	return q, nil
}

// inquire asks every owner at once, and waits for all of them.
func (s *Server) inquire(w http.ResponseWriter, r *http.Request, asks map[int32]*schemas.QuotaAsk) (states []schemas.LimitState, suppressed []schemas.Suppression, p *client.Problem) {
	defer waited(w, time.Now())
	silent := func() *client.Problem {
		return after(undecided.problem("Not all who own the limits have answered."), time.Second)
	}
	ctx, cancel := context.WithTimeout(r.Context(), quotaWithin)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	var tickets []*replies.Ticket
	for partition, ask := range asks {
		t, err := s.replies.Expect()
		if err != nil {
			return nil, nil, silent()
		}
		defer t.Done()
		tickets = append(tickets, t)
		s.out.cl.TryProduce(context.WithoutCancel(ctx), replies.Question(s.readmit, partition, ask, t), func(_ *kgo.Record, err error) {
			if err != nil {
				cancel() // nobody will answer
			}
		})
	}
	for _, t := range tickets {
		reply, err := t.Wait(ctx)
		if err != nil {
			return nil, nil, silent()
		}
		states = append(states, reply.Limits...)
		suppressed = append(suppressed, reply.Suppressed...)
	}
	return states, suppressed, nil
}

// inOrder brings states into the policy's order; those of one limit stay as its
// windows stand.
func inOrder(states []schemas.LimitState, p *schemas.Policy) {
	at := make(map[string]int, len(p.Limits))
	for i := range p.Limits {
		at[p.Limits[i].Name] = i
	}
	slices.SortStableFunc(states, func(a, b schemas.LimitState) int { return cmp.Compare(at[a.Limit], at[b.Limit]) })
}

// compiled is the limits of the revision in force. The zero value is ready.
type compiled struct{ made atomic.Pointer[revisionRules] }

type revisionRules struct {
	of    *schemas.Revision
	rules *limit.Rules
}

func (c *compiled) of(rev *schemas.Revision) (*limit.Rules, error) {
	if r := c.made.Load(); r != nil && r.of == rev {
		return r.rules, nil
	}
	rules, err := limit.Compile(&rev.Policy, nil)
	if err != nil {
		return nil, err
	}
	c.made.Store(&revisionRules{rev, rules})
	return rules, nil
}
