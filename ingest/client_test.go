package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

// jsonFields are a type's fields as JSON has them, with how they are left out.
func jsonFields(t reflect.Type) map[string]string {
	out := make(map[string]string)
	for f := range t.Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = option + " " + f.Type.Kind().String()
	}
	return out
}

// The client reads what the dead letter queue writes. Its types are its own, so
// that to import it is not to import Kafka's client.
func TestClientHasTheTypesOfTheDLQ(t *testing.T) {
	for _, tt := range []struct{ server, client reflect.Type }{
		{reflect.TypeFor[dlq.Page](), reflect.TypeFor[client.DeadLetters]()},
		{reflect.TypeFor[dlq.Entry](), reflect.TypeFor[client.DeadLetter]()},
		{reflect.TypeFor[dlq.Summary](), reflect.TypeFor[client.Redriven]()},
	} {
		want, got := jsonFields(tt.server), jsonFields(tt.client)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v has %v, %v has %v", tt.client, got, tt.server, want)
		}
	}
}

// The client's batches are in the log, each message under the id that it was
// answered with, and a bad one among them does not sink the others.
func TestClientSendsBatches(t *testing.T) {
	const n = 12_000
	w := newWorld(t, settings{})
	c := client.New("http://"+w.addr, "")
	defer c.Close()
	to := func(i int) string { return fmt.Sprintf("+86138%08d", i) }
	var requests iter.Seq[*schemas.Request] = func(yield func(*schemas.Request) bool) {
		for i := range n {
			q := &schemas.Request{Channel: "sms", To: to(i), Body: "b"}
			if i%1000 == 7 {
				q.To = "nobody"
			}
			if !yield(q) {
				return
			}
		}
	}
	ids := make(map[string]string) // recipients
	i := 0
	for r, err := range c.Batch(t.Context(), requests) {
		switch {
		case err != nil || r.Index != i:
			t.Fatalf("%d: %+v %v", i, r, err)
		case (r.Error != nil) != (i%1000 == 7):
			t.Fatalf("%d: %+v", i, r)
		case r.Error == nil:
			ids[r.ID] = to(i)
		}
		i++
	}
	if i != n || len(ids) != n-n/1000 {
		t.Fatalf("%d results, %d ids", i, len(ids))
	}
	for _, rec := range w.requests(len(ids)) {
		q, err := schemas.DecodeRequest(rec.Value, nil)
		if err != nil || ids[q.ID] != q.To {
			t.Fatalf("%s is to %s: %v", q.ID, q.To, err)
		}
		delete(ids, q.ID)
	}
	if len(ids) != 0 {
		t.Errorf("%d messages are not in the log", len(ids))
	}
}

// The client's calls of the policy do what they say on the real server.
func TestClientChangesThePolicy(t *testing.T) {
	w := newWorld(t, settings{})
	c := client.New("http://"+w.addr, "", client.WithRetry(client.Retry{Tries: 1}))
	defer c.Close()
	ctx := t.Context()
	limits := c.Limits()

	was, err := limits.Get(ctx, "verify")
	if err != nil || was.ETag == "" || was.Value.Name != "verify" {
		t.Fatalf("%+v %v", was, err)
	}
	next := was.Value
	next.Allow = []schemas.Window{{Kind: schemas.WindowRolling, N: 2, Length: time.Minute}}
	tried, err := limits.Put(ctx, "verify", next, client.Change{DryRun: true})
	if err != nil || !tried.DryRun || len(tried.Changes) != 1 {
		t.Errorf("dry run: %+v %v", tried, err)
	}
	now, err := limits.Put(ctx, "verify", next, client.Change{IfMatch: was.ETag})
	if err != nil || now.ETag == was.ETag || now.Revision != was.Revision+1 || !reflect.DeepEqual(now.Value.Allow, next.Allow) {
		t.Fatalf("%+v %v", now, err)
	}
	_, err = limits.Put(ctx, "verify", was.Value, client.Change{IfMatch: was.ETag})
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != 412 || p.Current == nil || p.Current.ETag != now.ETag {
		t.Errorf("%+v %v", p, err)
	}
	_, err = limits.Put(ctx, "verify", next, client.Change{IfNone: true})
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != 412 {
		t.Errorf("%+v %v", p, err)
	}

	// What a program reads it can write, and changes nothing by it.
	for what, same := range map[string]func() ([]schemas.Change, error){
		"limits":    rewritten(ctx, c.Limits(), func(v schemas.Limit) string { return v.Name }),
		"providers": rewritten(ctx, c.Providers(), func(v schemas.Provider) string { return v.Name }),
		"classes":   rewritten(ctx, c.Classes(), func(v schemas.Class) string { return v.Name }),
		"templates": rewritten(ctx, c.Templates(), func(v schemas.Template) string { return v.Name }),
		"tenants":   rewritten(ctx, c.Tenants(), func(v schemas.Tenant) string { return v.Name }),
	} {
		if changes, err := same(); err != nil || len(changes) > 0 {
			t.Errorf("%s written as read: %+v %v", what, changes, err)
		}
	}

	if err := c.Templates().Delete(ctx, "login-code", client.Change{}); err != nil {
		t.Error(err)
	}
	err = c.Templates().Delete(ctx, "login-code", client.Change{})
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != 404 {
		t.Errorf("deleted twice: %v", err)
	}
	key, err := c.Keys().Put(ctx, "shop", schemas.Key{Tenant: "default", Scopes: []string{"send"}}, client.Change{})
	if err != nil || !strings.HasPrefix(key.Secret, "weir_live_") {
		t.Fatalf("%+v %v", key, err)
	}
	again, err := c.RotateKey(ctx, "shop", time.Hour)
	if err != nil || again.Secret == "" || again.Secret == key.Secret {
		t.Errorf("%+v %v", again, err)
	}
	for _, secret := range []string{key.Secret, again.Secret} {
		if _, err := client.New("http://"+w.addr, secret).Send(ctx, &schemas.Request{Channel: "sms", To: "+8613800000000", Body: "b"}); err != nil {
			t.Error(err)
		}
	}
	page, err := c.Revisions(ctx, "", 2)
	if err != nil || len(page.Revisions) != 2 || page.NextCursor == "" || page.Revisions[0].Changes[0].Name != "shop" {
		t.Errorf("%+v %v", page, err)
	}
	whole, err := c.Revision(ctx, was.Revision)
	if err != nil || len(whole.Policy.Templates) != 1 {
		t.Errorf("%+v %v", whole, err)
	}
}

// rewritten writes each resource of a kind as it was read, as a dry run.
func rewritten[T any](ctx context.Context, r client.Resources[T], name func(T) string) func() ([]schemas.Change, error) {
	return func() (all []schemas.Change, err error) {
		list, err := r.List(ctx)
		if err != nil || len(list.Items) == 0 {
			return nil, fmt.Errorf("%d items: %w", len(list.Items), err)
		}
		for _, v := range list.Items {
			out, err := r.Put(ctx, name(v.Value), v.Value, client.Change{DryRun: true, IfMatch: v.ETag})
			if err != nil {
				return nil, err
			}
			all = append(all, out.Changes...)
		}
		return all, nil
	}
}

// The client's events are those of the server, from where it says, over a server
// that it may reach only now and then.
func TestClientFollowsEvents(t *testing.T) {
	w := newWorld(t, settings{})
	c := client.New("http://"+w.addr, "")
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	follow := func(after string, n int) (ids []string, last string) {
		for e, err := range c.Events(ctx, client.EventQuery{Status: []schemas.Status{schemas.StatusQueued, schemas.StatusSent}, After: after}) {
			if err != nil || e.Gap {
				t.Errorf("%+v %v", e, err)
				return ids, e.ID
			}
			if ids, last = append(ids, e.Event.MessageID), e.ID; len(ids) == n {
				return ids, last
			}
		}
		return ids, last
	}
	write := func(id string) {
		w.status(&schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: "default", To: "+8613800000000", Channel: "sms", Status: schemas.StatusQueued, At: schemas.MillisOf(time.Now())})
	}
	first := make(chan bool)
	var ids []string
	var last string
	go func() { defer close(first); ids, last = follow("", 1) }()
	w.until("followed", func() bool {
		select {
		case <-first:
			return true
		default:
			write("a")
			return false
		}
	})
	if len(ids) != 1 || ids[0] != "a" {
		t.Fatalf("%v", ids)
	}
	write("b") // while nobody is there
	write("c")
	for {
		next, at := follow(last, 1)
		if last = at; len(next) == 0 || next[0] != "a" { // there may be more of the first
			ids = next
			break
		}
	}
	if more, _ := follow(last, 1); len(ids) != 1 || ids[0] != "b" || len(more) != 1 || more[0] != "c" {
		t.Errorf("%v and then %v", ids, more)
	}
}
