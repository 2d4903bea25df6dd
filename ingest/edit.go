package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// editTimeout bounds an edit of the policy with all its tries: less than a
// shutdown's grace.
const editTimeout = 8 * time.Second

// newEditor opens a client of its own: a policy is larger than any request, and
// is worth waiting longer for.
func newEditor(cfg Config) (*revise.Editor, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytesFn(cfg.Names.BatchBytes),
		kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(editTimeout),
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RequestTimeoutOverhead(2 * time.Second),
		kgo.DialTimeout(2 * time.Second),
		kgo.AllowIdempotentProduceCancellation(),
	}, clientOptions(cfg)...)...)
	if err != nil {
		return nil, fmt.Errorf("open a client for the policy: %w", err)
	}
	return &revise.Editor{
		Client: cl,
		Topics: topics.Config{Prefix: cfg.Names.Prefix, Partitions: cfg.Partitions, Replication: cfg.Replication},
		Policy: cfg.Policy,
		Past:   &revise.Past{},
	}, nil
}

// edit brings an edit into force, or with a dry run does all but that. An edit
// that lost to another is made again; its own conditions are judged each time.
// The edit's error may be a problem. A caller who leaves does not stop it.
func (s *Server) edit(r *http.Request, c *caller, o options, edit revise.Edit) (*revise.Result, *client.Problem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.editFor)
	defer cancel()
	guarded := func(have *schemas.Revision) (*schemas.Policy, error) {
		next, err := edit(have)
		if err == nil {
			if p := c.mayMake(&have.Policy, next); p != nil {
				return nil, p
			}
			if bad := s.secrets.Judge(&have.Policy, next); bad != nil {
				err = forbiddenReference.problem("The policy may not refer to this. Nothing was changed.", client.FieldError{Code: forbiddenReference.code, Detail: bad.Error()})
			}
		}
		// Who needs no key cannot lock himself out.
		if err == nil && o.kind == schemas.ResourceKey && !o.force && c.key != nil {
			err = revise.KeepsAdmin(&have.Policy, next, schemas.MillisOf(time.Now()))
		}
		return next, err
	}
	editor := s.editor.AcceptingLoss(o.loss)
	if c.bound() {
		editor = editor.For(c.tenant)
	}
	var res *revise.Result
	var err error
	if o.dryRun {
		res, err = editor.Draft(ctx, guarded)
	} else {
		res, err = editor.Revise(ctx, c.by(), revise.Tries, guarded, nil)
	}
	if err == nil {
		return res, nil
	}
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return nil, p
	}
	if lost, ok := errors.AsType[*revise.LossError](err); ok {
		var each []client.FieldError
		for i := range lost.Lost {
			each = append(each, client.FieldError{Code: "history_lost", Detail: revise.LossText(&lost.Lost[i])})
		}
		return nil, policyConflict.problem("The limit would lose history, so recipients could get more than it allows. Nothing was changed. To change it nevertheless, add ?accept_loss=true.", each...)
	}
	switch {
	case errors.Is(err, revise.ErrLastKey):
		return nil, lastAdminKey.problem("Without it nobody could change anything over HTTP. Make another first, or add ?force=true; weir keys create would still do.")
	case errors.Is(err, policy.ErrConflict):
		return nil, after(policyBusy.problem("Every try met another change that came first. Nothing was changed."), time.Second)
	case errors.Is(err, revise.ErrShare):
		return nil, policyShare.problem("Remove or shorten limits, routes or keys of the tenant, or ask the operator for more room.", client.FieldError{Code: policyShare.code, Detail: err.Error()})
	case errors.Is(err, revise.ErrRefused):
		return nil, policyConflict.problem("What was in force before does not allow it.", client.FieldError{Code: schemas.ReasonBadValue, Detail: err.Error()})
	}
	s.logger.Warn("the policy cannot be changed", "error", err)
	return nil, after(kafkaUnavailable.problem("Whether the change is in force is not known. To make it again is harmless; where a key was made or rotated, rotate it, since its secret is lost."), retryKafka)
}
