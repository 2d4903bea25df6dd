package revise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Tries are how often an edit is made that may be repeated: each loser of a
// race has lost to a winner. Two servers and a command line that each change the
// policy as fast as they can lost one edit in twelve at 5.
const Tries = 10

// ErrRefused is in every error that says that an edit must not come into force
// where it stands, though the policy that it makes is valid in itself. To try
// again does not help.
var ErrRefused = errors.New("nothing was changed")

// Edit makes a policy of the revision in force, which it does not write to. It
// may be called again, on another revision. An error of its own is returned as
// it is.
type Edit func(have *schemas.Revision) (*schemas.Policy, error)

// Editor brings edits into force. Its methods may be called from many
// goroutines.
type Editor struct {
	// Client produces with acks from all replicas and partitions by hand; its
	// batches are as large as topics.Names.BatchBytes says.
	Client *kgo.Client
	// Topics says how those are made that a policy needs. Replication 0 is 3,
	// or the number of brokers if fewer.
	Topics topics.Config
	// Policy is a watcher that somebody runs. Without one each edit opens its
	// own, with Options, which reach the brokers and name no group.
	Policy  *policy.Watcher
	Options []kgo.Opt

	// Past keeps what the revisions so far say from one edit to the next, for an editor
	// with a Policy. Without one each edit reads all of them again.
	Past *Past

	acceptLoss bool
	tenant     string // whose keys' edits these are; empty where they are no tenant's
}

// AcceptingLoss returns an editor that brings an edit into force, if accept is
// true, though limits lose history by it. Any other refuses it with a *LossError.
func (e *Editor) AcceptingLoss(accept bool) *Editor {
	some := *e
	some.acceptLoss = accept
	return &some
}

// LossError refuses an edit by which limits would lose history.
type LossError struct{ Lost []limit.Loss }

func (e *LossError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: limits would lose history, so recipients could get more than the limits allow:", ErrRefused)
	for i := range e.Lost {
		b.WriteString("\n  " + LossText(&e.Lost[i]))
	}
	return b.String()
}

func (e *LossError) Unwrap() error { return ErrRefused }

// LossText says what a window would not count.
func LossText(l *limit.Loss) string {
	form := "2006-01-02 15:04:05"
	if l.From/1000 == l.Until/1000 { // as of a limit that was changed twice within a second: a short loss is one, too
		form += ".000"
	}
	return fmt.Sprintf("limit %s: %s would not count what was sent from %s to %s UTC", l.Limit, l.Window, l.From.Time().UTC().Format(form), l.Until.Time().UTC().Format(form))
}

// Result is what came of an edit.
type Result struct {
	From   *schemas.Revision // that it was made from
	Next   *schemas.Policy   // what it made
	Now    *schemas.Revision // in force at the end: From when Next says nothing new, and in a draft
	Topics topics.Diff       // what it needs of them, before they were made

	made   int             // revisions by keys of Editor.tenant within shareTime
	course limit.Course    // up to From
	ended  map[string]bool // hashes of secrets that a revision had and From has no longer
}

// Draft is Revise without the writing: it does everything that can refuse.
func (e *Editor) Draft(ctx context.Context, edit Edit) (*Result, error) {
	w, done, err := e.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.draft(ctx, w, edit)
}

// Revise brings what edit makes into force: topics first, so that a revision
// never comes into force before its providers can be served, and then the
// revision, unless it says the same as the one in force. When another edit came
// first, edit is asked again, at most tries times in all; then the error is a
// policy.ErrConflict. by says who did it. progress may be nil; it is told each
// step on topics.
//
// A context that ends while the brokers are asked to write leaves open whether
// they did; to make the same edit again is harmless.
func (e *Editor) Revise(ctx context.Context, by string, tries int, edit Edit, progress func(string)) (*Result, error) {
	w, done, err := e.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { done() }()
	for ; ; tries-- {
		r, err := e.draft(ctx, w, edit)
		if err != nil {
			return nil, err
		}
		if lost := r.course.Lost(r.Next, schemas.MillisOf(time.Now())); len(lost) > 0 && !e.acceptLoss {
			return nil, &LossError{lost}
		}
		if err := topics.Apply(ctx, e.Client, r.Topics, progress); err != nil {
			return nil, fmt.Errorf("create the topics that the policy needs: %w", err)
		}
		if len(schemas.DiffPolicy(&r.From.Policy, r.Next)) == 0 {
			return r, nil
		}
		if w == nil { // weir.config itself was made just now
			if w, done, err = e.watch(ctx); err != nil {
				return nil, err
			}
		}
		now, err := w.Publish(ctx, e.Client, r.From.Revision, by, *r.Next)
		switch {
		case err == nil:
			r.Now = now
			return r, nil
		case !errors.Is(err, policy.ErrConflict):
			return nil, err
		case tries <= 1:
			now := w.Latest()
			changed := ""
			for _, c := range schemas.DiffPolicy(&r.From.Policy, &now.Policy) {
				changed += "\n  " + c.String()
			}
			return nil, fmt.Errorf("revision %d was read and revision %d by %s is in force: %w. It changed:%s", r.From.Revision, now.Revision, now.By, err, changed)
		}
	}
}

// maxMarkerBytes bounds the marker of a revision: each partition of admission writes it
// to weir.status and into its checkpoint, as one record of at most 1 MiB.
const maxMarkerBytes = 900_000

func (e *Editor) draft(ctx context.Context, w *policy.Watcher, edit Edit) (*Result, error) {
	have := &schemas.Revision{}
	if w != nil {
		// As of now, not as of the last record that came: an edit that was
		// answered elsewhere must be seen by the next one here.
		var err error
		if have, err = w.CatchUp(ctx); err != nil {
			return nil, err
		}
	}
	next, err := edit(have)
	if err != nil {
		return nil, err
	}
	r := &Result{From: have, Next: next, Now: have}
	if r.course, r.ended, err = e.Past.upTo(ctx, w, have.Revision); err != nil {
		return nil, err
	}
	if e.tenant != "" {
		if r.made, err = madeBy(ctx, w, have.Revision, e.tenant); err != nil {
			return nil, err
		}
	}
	for hash := range secretsOf(&have.Policy, schemas.MillisOf(time.Now())) {
		delete(r.ended, hash)
	}
	if len(schemas.DiffPolicy(&have.Policy, next)) > 0 {
		if err := Judge(next); err != nil {
			return nil, fmt.Errorf("the policy would not be valid, nothing was changed:\n%w", err)
		}
		// What is in force was compared when it came; who only stays needs it no more.
		if !sameReaders(&have.Policy, next) {
			if err := keepsQueues(ctx, w, have.Revision, next); err != nil {
				return nil, err
			}
		}
		text, err := json.Marshal(next)
		if err != nil {
			return nil, fmt.Errorf("encode the policy: %w", err)
		}
		if len(text) > schemas.MaxPolicyBytes {
			return nil, fmt.Errorf("%w: the policy would have %d bytes, and a policy has at most 4 MiB", ErrRefused, len(text))
		}
		if n := r.course.MarkerBytes(next, schemas.MillisOf(time.Now())); n > maxMarkerBytes {
			return nil, fmt.Errorf("%w: the policy would have too many limits: since when each window counts takes %d bytes of a record, and at most %d are possible: have fewer limits or windows, or shorter names", ErrRefused, n, maxMarkerBytes)
		}
		if e.tenant != "" {
			if err := r.share(e.tenant, schemas.MillisOf(time.Now())); err != nil {
				return nil, err
			}
		}
	}
	cfg := e.Topics
	if cfg.Replication == 0 {
		if cfg.Replication, err = topics.ClusterReplication(ctx, e.admin()); err != nil {
			return nil, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if r.Topics, err = e.plan(ctx, cfg, &have.Policy, next); err != nil {
		_, bound := errors.AsType[*topics.BoundError](err)
		_, shrunk := errors.AsType[*topics.LanesShrunkError](err)
		_, changed := errors.AsType[*topics.PartitionsChangedError](err)
		if bound || shrunk || changed {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, err
	}
	return r, nil
}

// plan compares the cluster's topics with what next needs. An input that have has
// already, and whose topic has become unfit since, stands in no edit's way: its
// stage says so, and reads nothing.
func (e *Editor) plan(ctx context.Context, cfg topics.Config, have, next *schemas.Policy) (topics.Diff, error) {
	for {
		diff, err := topics.Plan(ctx, e.admin(), topics.Catalogue(cfg, next))
		bound, is := errors.AsType[*topics.BoundError](err)
		if !is || !slices.Contains(have.Names(schemas.ResourceInput), bound.Topic) {
			return diff, err
		}
		next, _ = next.Without(schemas.ResourceInput, bound.Topic)
	}
}

// sameReaders reports whether next has no provider but such as have has, each of
// the type that it has there.
func sameReaders(have, next *schemas.Policy) bool {
	types := make(map[string]string, len(have.Providers))
	for i := range have.Providers {
		types[have.Providers[i].Name] = have.Providers[i].Type
	}
	for i := range next.Providers {
		if t, ok := types[next.Providers[i].Name]; !ok || t != next.Providers[i].Type {
			return false
		}
	}
	return true
}

// keepsQueues compares with every revision so far: a provider's topics keep
// what was written while it was of another type, also when it was gone since.
func keepsQueues(ctx context.Context, w *policy.Watcher, newest int64, next *schemas.Policy) error {
	for n := int64(1); n <= newest; n++ {
		r, err := w.Get(ctx, n) // read already: it does not wait
		if err != nil {
			return err
		}
		if err := next.KeepsQueues(&r.Policy); err != nil {
			return fmt.Errorf("%w: revision %d: %w", ErrRefused, n, err)
		}
	}
	return nil
}

func (e *Editor) admin() *kadm.Client { return kadm.NewClient(e.Client) }

// watch returns the revisions so far and what to call when they are not needed
// any more; no watcher where there is no topic for them yet.
func (e *Editor) watch(ctx context.Context) (*policy.Watcher, func(), error) {
	if e.Policy != nil {
		return e.Policy, func() {}, nil
	}
	topic := e.Topics.Names().Config()
	// Past the client's cache of metadata, as topics.Plan asks.
	details, err := e.admin().ListTopics(kadm.WithAuthorizedOps(ctx), topic)
	if err != nil {
		return nil, nil, fmt.Errorf("list topics: %w", err)
	}
	if !details.Has(topic) {
		return nil, func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := policy.Watch(ctx, topic, slog.New(slog.DiscardHandler), e.Options...)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) }) //nolint:errcheck // CatchUp and Publish report what it meets
	return w, func() { cancel(); wg.Wait() }, nil
}
