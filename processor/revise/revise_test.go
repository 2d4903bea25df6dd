package revise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// world is a fake broker without any topic.
type world struct {
	t     *testing.T
	addrs []string
	cl    *kgo.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytesFn(topics.Names{}.BatchBytes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &world{t: t, addrs: c.ListenAddrs(), cl: cl}
}

// editor opens a watcher for each edit, as a command does.
func (w *world) editor() *revise.Editor {
	return &revise.Editor{Client: w.cl, Topics: topics.Config{Partitions: 2}, Options: []kgo.Opt{kgo.SeedBrokers(w.addrs...)}}
}

// standing has a watcher that runs, as a server has. The topics must be there.
func (w *world) standing() *revise.Editor {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	pol, err := policy.Watch(ctx, topics.Names{}.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(w.addrs...))
	if err != nil {
		w.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { pol.Run(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	e := w.editor()
	e.Policy, e.Past, e.Options = pol, &revise.Past{}, nil
	return e
}

func classes(p *schemas.Policy) []string { return p.Names(schemas.ResourceClass) }

func add(have *schemas.Revision, class string) *schemas.Policy {
	return have.Policy.Merge(&schemas.Policy{Classes: []schemas.Class{{Name: class}}})
}

func (w *world) add(e *revise.Editor, class string) *revise.Result {
	w.t.Helper()
	r, err := e.Revise(w.t.Context(), "test", revise.Tries, func(have *schemas.Revision) (*schemas.Policy, error) { return add(have, class), nil }, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestTopicsComeFirst(t *testing.T) {
	w := newWorld(t)
	provider := schemas.Provider{Name: "one", Type: "simulated", Channels: []schemas.Channel{"sms"}}
	var seen []*schemas.Revision
	edit := func(have *schemas.Revision) (*schemas.Policy, error) {
		seen = append(seen, have)
		return &schemas.Policy{Providers: []schemas.Provider{provider}}, nil
	}
	has := func(topic string) bool {
		t.Helper()
		d, err := kadm.NewClient(w.cl).ListTopics(kadm.WithAuthorizedOps(t.Context()), topic)
		if err != nil {
			t.Fatal(err)
		}
		return d.Has(topic)
	}
	names := topics.Names{}
	r, err := w.editor().Draft(t.Context(), edit)
	if err != nil {
		t.Fatal(err)
	}
	if has(names.Config()) || r.Now.Revision != 0 || r.Topics.Empty() {
		t.Errorf("a draft wrote: revision %d, config %v", r.Now.Revision, has(names.Config()))
	}
	if rep := r.Report(true, time.Now()); len(rep.Changes) != 1 || rep.Topics == nil || rep.Revision != 0 {
		t.Errorf("report %+v", rep)
	}
	var progress []string
	r, err = w.editor().Revise(t.Context(), "ada", 1, edit, func(s string) { progress = append(progress, s) })
	if err != nil {
		t.Fatal(err)
	}
	if !has(names.Journal("one")) || len(progress) == 0 || r.Now.Revision != 1 || r.Now.By != "ada" || r.From.Revision != 0 {
		t.Errorf("revision %d by %s, progress %q", r.Now.Revision, r.Now.By, progress)
	}
	// The same again is no revision.
	r, err = w.editor().Revise(t.Context(), "ada", 1, edit, nil)
	if err != nil || r.Now.Revision != 1 || !r.Topics.Empty() {
		t.Errorf("revision %v, %v", r, err)
	}
	if len(seen) != 3 || seen[0].Revision != 0 || seen[2].Revision != 1 {
		t.Errorf("seen %v", seen)
	}
	// What cannot come into force changes nothing, topics neither.
	provider.Lanes, provider.Name = 2, "two"
	if _, err := w.standing().Revise(t.Context(), "ada", 1, func(*schemas.Revision) (*schemas.Policy, error) {
		return &schemas.Policy{Providers: []schemas.Provider{provider}, Routes: []schemas.Route{{Name: "r", To: []schemas.Target{{Provider: "one", Weight: 1}}}}}, nil
	}, nil); err == nil || has(names.Journal("two")) || !strings.Contains(err.Error(), `route r: to[0].provider`) {
		t.Errorf("%v", err)
	}
}

func TestAnEditMeetsAnother(t *testing.T) {
	w := newWorld(t)
	w.add(w.editor(), "first")
	for _, kind := range []struct {
		name   string
		editor *revise.Editor
	}{{"own", w.editor()}, {"standing", w.standing()}} {
		for _, c := range []struct {
			name         string
			tries, races int
			conflict     bool
		}{
			{"alone", 2, 0, false},
			{"once", 2, 1, false},
			{"twice", 2, 2, true},
			{"once-and-no-more", 1, 1, true},
		} {
			t.Run(kind.name+" "+c.name, func(t *testing.T) {
				seen := 0
				class := kind.name + "-" + c.name
				rival := func(n int) string { return fmt.Sprintf("%s-rival-%d", class, n) }
				r, err := kind.editor.Revise(t.Context(), "test", c.tries, func(have *schemas.Revision) (*schemas.Policy, error) {
					if seen++; seen <= c.races {
						w.add(w.editor(), rival(seen))
					}
					return add(have, class), nil
				}, nil)
				if errors.Is(err, policy.ErrConflict) != c.conflict || err != nil && !c.conflict {
					t.Fatal(err)
				}
				if err == nil && (seen != c.races+1 || r.Now.Revision != r.From.Revision+1) {
					t.Errorf("seen %d times, from %d to %d", seen, r.From.Revision, r.Now.Revision)
				}
				if c.conflict && (!strings.Contains(err.Error(), "is in force: the policy was changed meanwhile") || !strings.HasSuffix(err.Error(), "It changed:\n  + class "+rival(c.races))) {
					t.Error(err)
				}
				// Nothing of either is lost.
				want := []string{}
				for n := range c.races {
					want = append(want, rival(n+1))
				}
				if !c.conflict {
					want = append(want, class)
				}
				d, err := w.editor().Draft(t.Context(), func(have *schemas.Revision) (*schemas.Policy, error) { return &have.Policy, nil })
				if err != nil {
					t.Fatal(err)
				}
				for _, class := range want {
					if !slices.Contains(classes(d.Next), class) {
						t.Errorf("no class %s in %v", class, classes(d.Next))
					}
				}
			})
		}
	}
}

// Many editors at once, on one watcher and on many: all edits are there at the
// end, one after another.
func TestManyEditors(t *testing.T) {
	w := newWorld(t)
	w.add(w.editor(), "first")
	one, other := w.standing(), w.standing()
	var wg sync.WaitGroup
	const n = 8
	errs := make([]error, n)
	for i := range n {
		e := one
		if i%2 == 1 {
			e = other
		}
		wg.Go(func() {
			_, errs[i] = e.Revise(t.Context(), "test", n, func(have *schemas.Revision) (*schemas.Policy, error) { return add(have, fmt.Sprint("c", i)), nil }, nil)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	now, err := other.Policy.CatchUp(t.Context())
	if err != nil || now.Revision != n+1 || len(now.Policy.Classes) != n+1 {
		t.Errorf("revision %d with %v, %v", now.Revision, classes(&now.Policy), err)
	}
}

// An edit sees what was answered elsewhere before it began, though its watcher
// has not been told of it yet.
func TestAnEditSeesWhatWasAnsweredBefore(t *testing.T) {
	w := newWorld(t)
	w.add(w.editor(), "first")
	one, other := w.standing(), w.standing()
	for i := range 20 {
		want := w.add(one, fmt.Sprint("c", i)).Now.Revision
		d, err := other.Draft(t.Context(), func(have *schemas.Revision) (*schemas.Policy, error) { return &have.Policy, nil })
		if err != nil || d.From.Revision != want {
			t.Fatalf("revision %v, %v; %d was answered", d, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	policy := func(kind string, lanes int32) *schemas.Policy {
		return &schemas.Policy{Providers: []schemas.Provider{{Name: "one", Type: kind, Channels: []schemas.Channel{"sms"}, Lanes: lanes}}}
	}
	to := func(p *schemas.Policy) revise.Edit {
		return func(*schemas.Revision) (*schemas.Policy, error) { return p, nil }
	}
	e := w.editor()
	for _, p := range []*schemas.Policy{policy("external", 2), policy("none", 0), {}} {
		if _, err := e.Revise(t.Context(), "test", 1, to(p), nil); err != nil {
			t.Fatal(err)
		}
	}
	mine := errors.New("mine")
	exempt := &schemas.Policy{Limits: []schemas.Limit{
		{Name: "l", Per: []string{"recipient"}, Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}}, Exempt: []string{"+8613800000000", "+99912345678"}},
	}}
	large := &schemas.Policy{}
	for i := range 17 {
		large.Templates = append(large.Templates, schemas.Template{Name: fmt.Sprint("t", i), Channel: "email", Subject: "s", Body: strings.Repeat("x", 256<<10)})
	}
	many := &schemas.Policy{}
	for i := range 20_000 {
		many.Limits = append(many.Limits, schemas.Limit{Name: fmt.Sprintf("limit-number-%d", i), Per: []string{"recipient"}, Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}}})
	}
	for _, editor := range []*revise.Editor{w.editor(), w.standing()} {
		for _, c := range []struct {
			name, want string
			edit       revise.Edit
			refused    bool
		}{
			{"other readers", "nothing was changed: revision 1: provider one was of type external and cannot become simulated", to(policy("simulated", 2)), true},
			{"fewer lanes", "nothing was changed: lanes only grow", to(policy("external", 1)), true},
			{"an exempt recipient that nobody is", `limit l: exempt[1]: "+99912345678": `, to(exempt), false},
			{"too large", "nothing was changed: the policy would have 4", to(large), true},
			{"too many limits", "nothing was changed: the policy would have too many limits", to(many), true},
			{"the edit's own", "mine", func(*schemas.Revision) (*schemas.Policy, error) { return nil, mine }, false},
		} {
			for _, dry := range []bool{true, false} {
				var err error
				if dry {
					_, err = editor.Draft(t.Context(), c.edit)
				} else {
					_, err = editor.Revise(t.Context(), "test", 1, c.edit, nil)
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, revise.ErrRefused) != c.refused {
					t.Errorf("%s, dry %v: %v", c.name, dry, err)
				}
			}
		}
	}
}

// TestAnUnfitInput: a topic that cannot be read exactly once is not bound; one that
// became so since it was bound is in nobody's way.
func TestAnUnfitInput(t *testing.T) {
	w := newWorld(t)
	adm := kadm.NewClient(w.cl)
	compact := "compact"
	input := func(topics ...string) revise.Edit {
		return func(have *schemas.Revision) (*schemas.Policy, error) {
			p := new(schemas.Policy)
			for _, topic := range topics {
				p.Inputs = append(p.Inputs, schemas.Input{Topic: topic, Tenant: "default"})
			}
			return have.Policy.Merge(p), nil
		}
	}
	do := func(e revise.Edit) error {
		_, err := w.editor().Revise(t.Context(), "test", revise.Tries, e, nil)
		return err
	}
	if err := do(input("sends", "more")); err != nil {
		t.Fatal(err)
	}
	if d, err := adm.ListTopics(kadm.WithAuthorizedOps(t.Context()), "sends"); err != nil || !d.Has("sends") {
		t.Errorf("the topic was not made: %v", err)
	}
	for _, topic := range []string{"sends", "more"} {
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, topic); err != nil {
			t.Fatal(err)
		}
	}
	w.add(w.editor(), "while-it-is-compacted")
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "another"); err != nil {
		t.Fatal(err)
	}
	err := do(input("another"))
	if _, is := errors.AsType[*topics.BoundError](err); !is || !errors.Is(err, revise.ErrRefused) {
		t.Errorf("a compacted topic was bound: %v", err)
	}
}

// TestAccepting: an edit by which a limit loses history names it and is refused,
// unless it is accepted; a dry run only names it.
func TestAccepting(t *testing.T) {
	w := newWorld(t)
	set := func(allow string, class ...string) revise.Edit {
		return func(have *schemas.Revision) (*schemas.Policy, error) {
			window, err := schemas.ParseWindow(allow)
			l := schemas.Limit{Name: "verify", Per: []string{"recipient"}, Allow: []schemas.Window{window}, Match: schemas.Match{Class: class}}
			return have.Policy.Merge(&schemas.Policy{Limits: []schemas.Limit{l}}), err
		}
	}
	revised := func(e *revise.Editor, edit revise.Edit) (*revise.Result, error) {
		return e.Revise(t.Context(), "test", 1, edit, nil)
	}
	for _, allow := range []string{"2/calendar-day", "1/24h", "2/calendar-day", "2/1h", "2/24h"} { // none loses any
		if _, err := revised(w.editor(), set(allow)); err != nil {
			t.Fatalf("%s: %v", allow, err)
		}
	}
	edit := set("2/24h", "code")
	_, err := revised(w.editor(), edit)
	lost, is := errors.AsType[*revise.LossError](err)
	if !is || !errors.Is(err, revise.ErrRefused) || len(lost.Lost) != 1 || lost.Lost[0].Limit != "verify" || !strings.Contains(err.Error(), "limit verify: 2/24h would not count what was sent from ") {
		t.Fatalf("%v", err)
	}
	draft, err := w.editor().Draft(t.Context(), edit)
	if err != nil {
		t.Fatal(err)
	}
	if r := draft.Report(true, time.Now()); len(r.Lost) != 1 || r.Lost[0].Limit != "verify" || r.Revision != 5 {
		t.Errorf("%+v", r)
	}
	r, err := revised(w.editor().AcceptingLoss(true), edit)
	if err != nil || r.Now.Revision != 6 || len(r.Report(false, time.Now()).Lost) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLossText: what was sent within a second is named as such, and not as nothing.
func TestLossText(t *testing.T) {
	day := schemas.MillisOf(time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		from, until schemas.Millis
		want        string
	}{
		{day, day + 60_000, "from 2026-11-25 10:00:00 to 2026-11-25 10:01:00 UTC"},
		{day + 100, day + 900, "from 2026-11-25 10:00:00.100 to 2026-11-25 10:00:00.900 UTC"},
	} {
		if got := revise.LossText(&limit.Loss{Limit: "verify", From: tt.from, Until: tt.until}); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%q, want %q at its end", got, tt.want)
		}
	}
}
