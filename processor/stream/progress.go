package stream

import (
	"cmp"
	"time"
)

// stuckAborts is how many transactions must fail before their stage can be stuck: one
// that was aborted by a rebalance is none.
const stuckAborts = 3

// progress follows whether a stage commits what it has to do. It belongs to Run's
// goroutine.
type progress struct {
	watch *Watch
	stage string

	since  time.Time // the first failure since the last commit; zero when there was none
	aborts int
	again  time.Time // the last failure, if the stage began again after it
	told   bool
}

func newProgress(cfg Config) *progress {
	p := &progress{watch: cfg.Watch, stage: cmp.Or(cfg.Stage, cfg.Group)}
	p.watch.Failing(p.stage, time.Time{}, "")
	return p
}

// settled is how long a stage that began again must have nothing to do before it is well
// without a commit.
const settled = 15 * time.Second

// restarted notes a failure after which the stage begins again.
func (p *progress) restarted(why error) {
	p.failed(why)
	p.again = time.Now()
}

// failed notes a transaction that did not commit.
func (p *progress) failed(why error) {
	p.again = time.Time{}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	switch p.aborts++; {
	case p.aborts >= stuckAborts:
		p.told = true
		text := "aborted"
		if why != nil {
			text = why.Error()
		}
		p.watch.Failing(p.stage, p.since, text)
	case p.told: // by begins; it did return
		p.told = false
		p.watch.Failing(p.stage, time.Time{}, "")
	}
}

// begins notes that Step begins: one that does not return is stuck, too.
func (p *progress) begins(work bool) {
	if work && p.since.IsZero() && !p.told {
		p.watch.Failing(p.stage, time.Now(), "a transaction does not end")
		p.told = true
	}
}

// idle notes that Step had nothing to commit.
func (p *progress) idle(work bool) {
	if p.since.IsZero() || work && p.aborts < stuckAborts || !work && !p.again.IsZero() && time.Since(p.again) >= settled {
		p.well()
	}
}

// well notes a commit, or that nothing is to be done.
func (p *progress) well() {
	if p.told {
		p.watch.Failing(p.stage, time.Time{}, "")
	}
	p.since, p.aborts, p.again, p.told = time.Time{}, 0, time.Time{}, false
}

func (p *progress) gone() { p.watch.Gone(p.stage) }
