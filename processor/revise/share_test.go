package revise_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// limitOf is a limit of a tenant, with one window for each of the seconds.
func limitOf(tenant, name string, seconds ...int) schemas.Limit {
	l := schemas.Limit{Name: name, Match: schemas.Match{Tenant: []string{tenant}}, Per: []string{"recipient"}}
	for i, s := range seconds {
		l.Allow = append(l.Allow, schemas.Window{Kind: schemas.WindowRolling, N: int64(i + 1), Length: time.Duration(s) * time.Second})
	}
	return l
}

// TestShareOfATenant: edits by a tenant's keys take no more room than its policy_bytes,
// and the operator's do.
func TestShareOfATenant(t *testing.T) {
	w := newWorld(t)
	e := w.editor()
	edit := func(e *revise.Editor, change func(p *schemas.Policy)) error {
		_, err := e.AcceptingLoss(true).Revise(t.Context(), "test", 1, func(have *schemas.Revision) (*schemas.Policy, error) {
			next := have.Policy.Merge(&schemas.Policy{})
			change(next)
			return next, nil
		}, nil)
		return err
	}
	grow := func(tenant, name string) func(*schemas.Policy) {
		return func(p *schemas.Policy) { p.Limits = append(p.Limits, limitOf(tenant, name, 60)) }
	}
	key := func(name, tenant string, n int) schemas.Key {
		return schemas.Key{Name: name, Tenant: tenant, Scopes: []string{"send"}, Hash: fmt.Sprintf("sha256:%064x", n)}
	}
	if err := edit(e, func(p *schemas.Policy) {
		p.Tenants = []schemas.Tenant{{Name: "acme", PolicyBytes: 3000}, {Name: "other"}}
		p.Keys = []schemas.Key{key("acme", "acme", 1), key("other", "other", 2)}
	}); err != nil {
		t.Fatal(err)
	}
	acme, other := e.For("acme"), e.For("other")

	n, err := 0, error(nil)
	for ; err == nil && n < 100; n++ {
		err = edit(acme, grow("acme", fmt.Sprintf("l%d", n)))
	}
	if !errors.Is(err, revise.ErrShare) || !errors.Is(err, revise.ErrRefused) || n < 5 || !strings.Contains(err.Error(), "3000") {
		t.Fatalf("after %d limits: %v", n, err)
	}
	if err := edit(acme, func(p *schemas.Policy) { p.Keys = append(p.Keys, key("more", "acme", 3)) }); !errors.Is(err, revise.ErrShare) {
		t.Errorf("a key: %v", err)
	}
	for name, err := range map[string]error{
		"a rotation": edit(acme, func(p *schemas.Policy) {
			next, _, err := revise.RotateKey(p, "acme", time.Hour, schemas.MillisOf(time.Now()))
			if err != nil {
				t.Fatal(err)
			}
			p.Keys = next.Keys
		}),
		"another tenant's edit": edit(other, grow("other", "theirs")),
		"the operator's":        edit(e, grow("acme", "operators")),
		"a limit less":          edit(acme, func(p *schemas.Policy) { p.Limits = p.Limits[:len(p.Limits)-1] }),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShareOfTheMarker: what a limit had and has no more for less than a day takes room in
// the marker, so windows that are changed again and again take up a tenant's share.
func TestShareOfTheMarker(t *testing.T) {
	w := newWorld(t)
	e := w.editor()
	if _, err := e.Revise(t.Context(), "test", 1, func(*schemas.Revision) (*schemas.Policy, error) {
		return &schemas.Policy{Tenants: []schemas.Tenant{{Name: "acme"}}}, nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	acme := w.standing().For("acme").AcceptingLoss(true)
	var err error
	n := 0
	for ; err == nil && n < 120; n++ {
		_, err = acme.Revise(t.Context(), "test", 1, func(have *schemas.Revision) (*schemas.Policy, error) {
			seconds := make([]int, 16)
			for i := range seconds {
				seconds[i] = 1 + n*16 + i
			}
			next := have.Policy
			next.Limits = []schemas.Limit{limitOf("acme", "mine", seconds...)}
			return &next, nil
		}, nil)
	}
	if !errors.Is(err, revise.ErrShare) || n > 100 {
		t.Errorf("after %d edits: %v", n, err)
	}
}

// TestPast: an editor that keeps what the revisions say finds the same as one that reads
// them again.
func TestPast(t *testing.T) {
	w := newWorld(t)
	once := func(p schemas.Policy) {
		if _, err := w.editor().AcceptingLoss(true).Revise(t.Context(), "test", 1, func(*schemas.Revision) (*schemas.Policy, error) { return &p, nil }, nil); err != nil {
			t.Fatal(err)
		}
	}
	key := schemas.Key{Name: "k", Tenant: "default", Scopes: []string{"send"}, Hash: fmt.Sprintf("sha256:%064x", 1)}
	once(schemas.Policy{Limits: []schemas.Limit{limitOf("default", "l", 3600)}, Keys: []schemas.Key{key}})
	tried := schemas.Policy{Limits: []schemas.Limit{limitOf("default", "l", 86400)}, Keys: []schemas.Key{key}}
	soon := time.Now().Add(time.Minute)
	draft := func(e *revise.Editor) string {
		r, err := e.Draft(t.Context(), func(*schemas.Revision) (*schemas.Policy, error) { return &tried, nil })
		if err != nil {
			t.Fatal(err)
		}
		rep := r.Report(true, soon)
		return fmt.Sprintf("%+v %+v %q", rep.Warming, rep.Lost, rep.Warnings)
	}
	keeps := w.standing()
	draft(keeps) // with the key in force
	for i, p := range []schemas.Policy{
		{Limits: []schemas.Limit{limitOf("default", "l", 60, 600)}},
		{},
		{Limits: []schemas.Limit{limitOf("default", "l", 7200)}},
	} {
		once(p)
		kept, again := draft(keeps), draft(w.editor())
		if kept != again || draft(keeps) != kept || !strings.Contains(kept, "works again") || !strings.Contains(kept, "Window:") {
			t.Errorf("step %d: %s\nbut read again %s", i, kept, again)
		}
	}
}

// TestShareOfAll: however many tenants take all of their shares, the operator can still
// add to the policy.
func TestShareOfAll(t *testing.T) {
	w := newWorld(t)
	e := w.editor()
	edit := func(e *revise.Editor, change func(p *schemas.Policy)) error {
		_, err := e.Revise(t.Context(), "test", 1, func(have *schemas.Revision) (*schemas.Policy, error) {
			next := have.Policy.Merge(&schemas.Policy{})
			change(next)
			return next, nil
		}, nil)
		return err
	}
	if err := edit(e, func(p *schemas.Policy) {
		p.Tenants = []schemas.Tenant{{Name: "acme"}}
		for i := range 12 {
			p.Templates = append(p.Templates, schemas.Template{Name: fmt.Sprint("t", i), Channel: schemas.ChannelEmail, Subject: "s", Body: strings.Repeat("x", 3<<20/12)})
		}
	}); err != nil {
		t.Fatal(err)
	}
	grow := func(name string) func(*schemas.Policy) {
		return func(p *schemas.Policy) { p.Limits = append(p.Limits, limitOf("acme", name, 60)) }
	}
	if err := edit(e.For("acme"), grow("mine")); !errors.Is(err, revise.ErrShare) {
		t.Errorf("a tenant's key: %v", err)
	}
	if err := edit(e, grow("operators")); err != nil {
		t.Errorf("the operator: %v", err)
	}
}

// TestShareOfTheRevisions: a tenant's keys make so many revisions in a day, whichever keys
// and whatever they change. Others go on.
func TestShareOfTheRevisions(t *testing.T) {
	w := newWorld(t)
	if _, err := w.editor().Revise(t.Context(), "test", 1, func(*schemas.Revision) (*schemas.Policy, error) {
		key := func(name, tenant string, n int) schemas.Key {
			return schemas.Key{Name: name, Tenant: tenant, Scopes: []string{"policy"}, Hash: fmt.Sprintf("sha256:%064x", n)}
		}
		return &schemas.Policy{Tenants: []schemas.Tenant{{Name: "acme"}, {Name: "other"}}, Keys: []schemas.Key{key("a", "acme", 1), key("b", "acme", 2), key("o", "other", 3)}}, nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	e := w.standing().AcceptingLoss(true)
	n := 0
	edit := func(e *revise.Editor, by, tenant string) error {
		n++
		_, err := e.Revise(t.Context(), by, 1, func(have *schemas.Revision) (*schemas.Policy, error) {
			next := have.Policy
			next.Limits = []schemas.Limit{limitOf(tenant, "mine", 60)}
			next.Limits[0].Allow[0].N = int64(n)
			return &next, nil
		}, nil)
		return err
	}
	var err error
	for err == nil && n < 600 {
		err = edit(e.For("acme"), []string{revise.ByKey + "a", revise.ByKey + "b"}[n%2], "acme")
	}
	if !errors.Is(err, revise.ErrShare) || n != 501 || !strings.Contains(err.Error(), "500 changes") {
		t.Errorf("after %d edits: %v", n, err)
	}
	if err := edit(e.For("other"), revise.ByKey+"o", "other"); err != nil {
		t.Errorf("another tenant's key: %v", err)
	}
	if err := edit(e, "ann", "acme"); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
