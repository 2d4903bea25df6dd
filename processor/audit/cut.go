package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirhq/weir/topics"
)

// cut is a consistent cut through the logs: the ends of all topics are in the reader.
//
// First the group's offsets are taken, then the end of weir.status; then, when
// every transaction that has a record below that end is over, the ends of all
// else. What a decision writes beside its status is in the same transaction, so
// it lies below the later ends; and every record below the group's offsets has
// its decision in the log that was cut after.
type cut struct {
	began    time.Time
	at       time.Time // when the end of weir.status was taken
	done     kadm.OffsetResponses
	over     map[string]map[int32]int64
	wrote    map[string]map[int32]int64
	state    bool // the state is compared with the decisions
	hidden   bool // wrote could not be asked for, of a lane
	released map[string]map[int32]int64
	metas    *metas
	clocks   clocks
	config   *history
	skips    skips

	queues, journals map[string]string // by topic: the provider
	gone             map[string]bool
}

func (a *auditing) cut(ctx context.Context) (*cut, error) {
	names := a.Names
	c := &cut{began: time.Now()}
	var err error
	c.done, err = a.adm.FetchOffsets(ctx, names.Requests()+".admission")
	// A group that nobody was in for a week is gone; then only what has a
	// decision is known to have been processed.
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch the group's offsets: %w", err)
	}
	state := []string{names.Requests(), names.Readmit(), names.Status(), names.Config()}
	ledger := new(metas)
	if err := a.reader.stable(ctx, a.adm, names.Ledger()); err != nil {
		return nil, err
	}
	c.state = c.began.Sub(a.compared) >= stateEvery
	if ledger.starts, ledger.ends, err = a.stateCut(ctx); err != nil {
		return nil, err
	}
	if ledger.before, err = a.ledgers(ctx); err != nil {
		return nil, err
	}
	if c.wrote, c.hidden, err = a.lastNumbers(ctx); err != nil {
		return nil, err
	}
	if c.over, err = a.journalsOver(ctx); err != nil {
		return nil, err
	}
	if err := a.reader.ends(ctx, a.adm, names.Status()); err != nil {
		return nil, err
	}
	c.at = time.Now()
	if err := a.reader.settled(ctx, a.adm, names.Status()); err != nil {
		return nil, err
	}
	if c.released, err = a.released(ctx); err != nil {
		return nil, err
	}
	later := []string{names.Requests(), names.Readmit(), names.DLQ(), names.Ledger()}
	for _, t := range topics.Tiers {
		later = append(later, names.Delay(t.Name))
	}
	if err := a.reader.ends(ctx, a.adm, append(later, names.Config())...); err != nil {
		return nil, err
	}
	for _, topic := range state {
		if len(a.reader.until[topic]) == 0 {
			return nil, fmt.Errorf("%s does not exist: Weir has not been set up on this cluster, or under another prefix", topic)
		}
	}
	n := len(a.reader.until[names.Requests()])
	if a.Partitions != 0 && int(a.Partitions) != n || n != len(a.reader.until[names.Readmit()]) || n != len(a.reader.until[names.Status()]) {
		return nil, fmt.Errorf("the partition count N is %d, and requests, readmit and status have %d, %d and %d partitions: they must be equal, and never change", a.Partitions,
			n, len(a.reader.until[names.Readmit()]), len(a.reader.until[names.Status()]))
	}
	if c.skips, err = a.skips(ctx); err != nil {
		return nil, err
	}
	if c.config, err = a.policies(ctx, c); err != nil {
		return nil, err
	}
	if len(a.reader.until[names.Ledger()]) > 0 {
		c.metas = ledger
		if ledger.after, err = a.ledgers(ctx); err != nil {
			return nil, err
		}
	}
	c.clocks, err = a.clocks(ctx, append(state, names.DLQ(), names.Ledger(), names.Health(), names.Reports())...)
	return c, err
}

// policies reads weir.config, and takes the ends of its providers' topics. No permit below
// them is under a later revision.
func (a *auditing) policies(ctx context.Context, c *cut) (*history, error) {
	topic := a.Names.Config()
	for {
		until := a.reader.until[topic][0]
		log, closeLog, err := a.reader.open(ctx, topic, 0)
		if err != nil {
			return nil, err
		}
		config, err := readHistory(log, c.skips)
		closeLog()
		if err != nil {
			return nil, err
		}
		if err := a.providers(ctx, config, c); err != nil {
			return nil, err
		}
		if err := a.reader.ends(ctx, a.adm, topic); err != nil {
			return nil, err
		}
		if a.reader.until[topic][0] == until {
			return config, nil
		}
	}
}

// skips reads what operators skipped.
func (a *auditing) skips(ctx context.Context) (skips, error) {
	topic := a.Names.Skips()
	if err := a.reader.ends(ctx, a.adm, topic); err != nil {
		return nil, err
	}
	log, closeLog, err := a.reader.open(ctx, topic, 0)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	return readSkips(log)
}

// journalsOver finds what of the journals is of transactions that were over before the end
// of weir.status was taken: its statuses are below that end.
func (a *auditing) journalsOver(ctx context.Context) (map[string]map[int32]int64, error) {
	all, err := a.adm.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	over := make(map[string]map[int32]int64)
	for _, topic := range all.Names() {
		if !strings.HasPrefix(topic, a.Names.Journal("")) {
			continue
		}
		if err := a.reader.stable(ctx, a.adm, topic); err != nil {
			return nil, err
		}
		over[topic] = maps.Clone(a.reader.until[topic])
	}
	return over, nil
}

// providers finds the dispatch topics and journals of every provider that there
// ever was, and takes their ends.
func (a *auditing) providers(ctx context.Context, config *history, c *cut) error {
	queues, journals := make(map[string]string), make(map[string]string)
	c.queues, c.journals, c.gone = queues, journals, make(map[string]bool)
	for name, has := range config.providers() {
		for _, q := range topics.Queues {
			if has.queues {
				queues[a.Names.Dispatch(name, q)] = name
			}
		}
		if has.journal {
			journals[a.Names.Journal(name)] = name
		}
	}
	all := slices.Concat(slices.Collect(maps.Keys(queues)), slices.Collect(maps.Keys(journals)))
	if len(all) == 0 {
		return nil
	}
	there, err := a.adm.ListTopics(ctx, all...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var have []string
	for _, topic := range all {
		if there.Has(topic) {
			have = append(have, topic)
			continue
		}
		c.gone[cmp.Or(queues[topic], journals[topic])] = true
		delete(queues, topic)
		delete(journals, topic)
	}
	// One topic of a provider says nothing without the others.
	maps.DeleteFunc(queues, func(_, p string) bool { return c.gone[p] })
	maps.DeleteFunc(journals, func(_, p string) bool { return c.gone[p] })
	if len(have) == 0 {
		return nil
	}
	return a.reader.ends(ctx, a.adm, have...)
}
