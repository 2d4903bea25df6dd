package main

// mutation is one way to break the code.
type mutation struct {
	name     string
	what     string // the change, in words
	harm     string // what a user would see
	file     string
	old, new string // old occurs once in file
	checks   []check
}

// check is a test run that should fail. The cheapest stands first.
type check struct {
	pkg string
	run string // -run; empty is all tests of the package
	env []string
}

var (
	limitTests     = check{pkg: "processor/limit"}
	admissionTests = check{pkg: "processor/admission"}
	streamTests    = check{pkg: "processor/stream"}
	laneTests      = check{pkg: "processor/lane"}
	// Three hundred schedules of faults; the first that goes wrong ends it.
	faults = check{pkg: "cmd/weir/faultsim", run: "TestFaults", env: []string{"WEIR_SIM_SEEDS=300"}}
)

var mutations = []mutation{
	{
		name:   "ring-off-by-one",
		what:   "a window counts one place fewer than there are",
		harm:   "n + 1 messages pass",
		file:   "processor/limit/decide.go",
		old:    "len(ring) - int(w.n-p.cost+1)",
		new:    "len(ring) - int(w.n-p.cost+2)",
		checks: []check{limitTests},
	},
	{
		name:   "edge",
		what:   "`>` for `>=` at a window's edge: a place counts when it is exactly a window old",
		harm:   "a message is refused one millisecond too long",
		file:   "processor/limit/rules.go",
		old:    "return max(now-w.length, w.since)",
		new:    "return max(now-w.length-1, w.since)",
		checks: []check{limitTests},
	},
	{
		name:   "retry-at-late",
		what:   "the retry time is one millisecond late",
		harm:   "clients wait longer than they must, and the answer is not exact",
		file:   "processor/limit/decide.go",
		old:    "retry = t.nth(s, first, p.cost+count-w.n) + w.length",
		new:    "retry = t.nth(s, first, p.cost+count-w.n) + w.length + 1",
		checks: []check{limitTests},
	},
	{
		name:   "since-ignored",
		what:   "a window looks back beyond its `since`",
		harm:   "after a policy change messages are refused for places that the window's history does not hold whole",
		file:   "processor/limit/rules.go",
		old:    "return max(now-w.length, w.since)",
		new:    "return now - w.length",
		checks: []check{limitTests},
	},
	{
		name:   "since-kept",
		what:   "a new or longer window begins with the policy, not at its marker",
		harm:   "it counts a history that was not kept whole, and more than n pass",
		file:   "processor/limit/since.go",
		old:    "moments[w.UnitKey()] = t\n",
		new:    "moments[w.UnitKey()] = 0\n",
		checks: []check{limitTests},
	},
	{
		name:   "evicted-by-number",
		what:   "places are dropped when there are n, not when they are old",
		harm:   "after a lowered n, an override or an import, more than n pass",
		file:   "processor/limit/decide.go",
		old:    "t.dropOldest(s, t.after(s, unseen))",
		new:    "t.dropOldest(s, max(t.after(s, unseen), s.places()+1-int(p.windows[0].n)))",
		checks: []check{limitTests},
	},
	{
		name:   "calendar-by-date",
		what:   "a day's start comes from `time.Date`",
		harm:   "where midnight is missing, the day begins at 23:00 of the day before",
		file:   "processor/limit/calendar.go",
		old:    "\tmidnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)\n",
		new:    "\tif true {\n\t\treturn ceilMillis(time.Date(y, m, d, 0, 0, 0, 0, zone))\n\t}\n\tmidnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)\n",
		checks: []check{limitTests},
	},
	{
		name:   "given-back-twice",
		what:   "a give-back that finds no place lowers the count all the same",
		harm:   "one message returns two places, and more than n pass",
		file:   "processor/limit/decide.go",
		old:    "if index < 0 && (l == nil || c.T > rolledOut(l, now)) {",
		new:    "if index < 0 && l == nil {",
		checks: []check{limitTests},
	},
	{
		name:   "received-given-back",
		what:   "a message that may have been received gives its place back",
		harm:   "the recipient has it, and gets n more",
		file:   "processor/lane/settle.go",
		old:    "giveBack:   taint == schemas.TaintNone,",
		new:    "giveBack:   taint != schemas.TaintUnknown,",
		checks: []check{laneTests},
	},
	{
		name:   "unknown-forgotten",
		what:   "an attempt whose outcome is unknown leaves nothing behind",
		harm:   "a message that may be on its way ends as failed",
		file:   "processor/lane/settle.go",
		old:    "taint = taint.Join(schemas.TaintUnknown)",
		new:    "taint = taint.Join(schemas.TaintNone)",
		checks: []check{laneTests},
	},
	{
		name:   "overlay-kept",
		what:   "an aborted transaction's places stay in memory",
		harm:   "messages are refused for places that nobody took",
		file:   "processor/admission/stage.go",
		old:    "s.parts[n].rollback()",
		new:    "s.parts[n].commit()",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "table-kept",
		what:   "an abort takes everything back but the places",
		harm:   "messages are refused for places that nobody took",
		file:   "processor/admission/partition.go",
		old:    "p.table.Rollback()",
		new:    "p.table.Commit()",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "seq-skipped",
		what:   "sequence numbers of an aborted transaction are used up",
		harm:   "the decision log has holes, and nobody can tell a hole from a lost decision",
		file:   "processor/admission/partition.go",
		old:    "\tp.open = false\n\tp.cur = p.base\n",
		new:    "\tp.open = false\n\tseq := p.cur.meta.Seq\n\tp.cur = p.base\n\tp.base.meta.Seq, p.cur.meta.Seq = seq, seq\n",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "seq-reused",
		what:   "a commit does not advance the sequence",
		harm:   "two decisions have one number",
		file:   "processor/admission/partition.go",
		old:    "\tp.open = false\n\tp.base = p.cur\n",
		new:    "\tp.open = false\n\tseq := p.base.meta.Seq\n\tp.base = p.cur\n\tp.base.meta.Seq = seq\n",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "marker-outside",
		what:   "the switch to a new policy outlives an abort",
		harm:   "the log lacks the marker, and decisions name a revision that never came into force there",
		file:   "processor/admission/partition.go",
		old:    "\tp.cur.meta.Marker = schemas.Marker{Revision: rev.Revision, T: t, Since: since}\n",
		new:    "\tp.cur.meta.Marker = schemas.Marker{Revision: rev.Revision, T: t, Since: since}\n\tp.base.rules, p.base.pol, p.base.meta.Marker = rules, &rev.Policy, p.cur.meta.Marker\n",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "dedup-skipped",
		what:   "a repeated id or idempotency key is decided again",
		harm:   "a producer's retry is a second message",
		file:   "processor/admission/life.go",
		old:    "old, ok := p.seen.find(k, p.cur.meta.T)",
		new:    "old, ok := seenEntry{}, k == seenKey{}",
		checks: []check{admissionTests},
	},
	{
		name:   "forwarded-without-id",
		what:   "a forwarded message does not carry its id",
		harm:   "nobody finds the message that they sent",
		file:   "processor/admission/life.go",
		old:    "env.Reason = schemas.ReadmitForward",
		new:    "env.Reason, env.ID = schemas.ReadmitForward, \"\"",
		checks: []check{admissionTests},
	},
	{
		name:   "not-forwarded",
		what:   "a request is decided where it was read, not where its recipient is owned",
		harm:   "a producer with another partitioner has limits of its own",
		file:   "processor/admission/decide.go",
		old:    "owner != p.num {\n\t\t\treturn p.forward(m, owner), nil",
		new:    "owner != p.num && owner < 0 {\n\t\t\treturn p.forward(m, owner), nil",
		checks: []check{admissionTests},
	},
	{
		name:   "headers-trusted",
		what:   "a request with headers is trusted like a record of weir.readmit",
		harm:   "a producer names its own place, attempt or expiry",
		file:   "processor/admission/ahead.go",
		old:    "readInput(r, r.Topic == s.env.names.Readmit())",
		new:    "readInput(r, r.Topic == s.env.names.Readmit() || len(r.Headers) > 0)",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "clock-unchecked",
		what:   "the clock is not compared with the broker's",
		harm:   "a machine an hour ahead opens every window an hour early",
		file:   "processor/admission/clock.go",
		old:    "if worst <= clockTolerance {",
		new:    "if worst <= clockTolerance || true {",
		checks: []check{admissionTests},
	},
	{
		name:   "time-goes-back",
		what:   "a partition's time follows the clock backwards",
		harm:   "places seem to lie in the future, and the order of the log is lost",
		file:   "processor/admission/partition.go",
		old:    "p.cur.meta.T = max(p.cur.meta.T, now, p.floor)",
		new:    "p.cur.meta.T = max(now, p.floor)",
		checks: []check{admissionTests},
	},
	{
		name:   "no-floor",
		what:   "a new owner starts from its own clock, not from the log's",
		harm:   "after a move to a machine that lags, a place seems younger than it is",
		file:   "processor/admission/restore.go",
		old:    "m.T = max(m.T, p.floor)",
		new:    "_ = p.floor",
		checks: []check{admissionTests, faults},
	},
	{
		name:   "generation-ignored",
		what:   "the offset commit carries no member and no generation",
		harm:   "a process that was paused past its session commits for a partition that is another's",
		file:   "processor/stream/tx.go",
		old:    "\treq.Topics = req.Topics[:0]\n",
		new:    "\treq.Topics = req.Topics[:0]\n\treq.MemberID, req.Generation = \"\", -1\n",
		checks: []check{streamTests, faults},
	},
	{
		name:   "no-offset-commit",
		what:   "a transaction that polled nothing commits no offset",
		harm:   "it is not fenced: a process that was paused past its session commits it",
		file:   "processor/stream/tx.go",
		old:    "committed, err = s.End(kgo.PreTxnCommitFnContext(ctx, tx.fillCommit), try)",
		new:    "committed, err = s.End(ctx, try)",
		checks: []check{streamTests, faults},
	},
	{
		name:   "restored-to-lso",
		what:   "state is read up to the last stable offset",
		harm:   "under an open transaction committed places are missed, and more than n pass",
		file:   "processor/stream/restore.go",
		old:    "r.adm.ListEndOffsets(ctx, names...)",
		new:    "r.adm.ListCommittedOffsets(ctx, names...)",
		checks: []check{streamTests, faults},
	},
	{
		name:   "aborted-read",
		what:   "a restore reads what was aborted too",
		harm:   "messages are refused for places that nobody took",
		file:   "processor/stream/fetch.go",
		old:    "IsolationLevel: kgo.ReadCommitted(),",
		new:    "IsolationLevel: kgo.ReadUncommitted(),",
		checks: []check{streamTests, faults},
	},
	{
		name:   "unchecked-restore",
		what:   "state is taken although the group stands elsewhere",
		harm:   "records are decided twice, or never",
		file:   "processor/admission/restore.go",
		old:    "return nil, stream.Fatal(err)\n\t\t}\n\t\tif p.base.meta.Seq == 0 {",
		new:    "s.cfg.Logger.Warn(\"state and group disagree\", \"error\", err)\n\t\t}\n\t\tif p.base.meta.Seq == 0 {",
		checks: []check{admissionTests, {pkg: "cmd/weir/e2e", run: "TestEmbedded/bad_state"}},
	},
	{
		name:   "called-before-commit",
		what:   "a lane calls although its permit's transaction was aborted",
		harm:   "a message is sent twice and the journal knows of one",
		file:   "processor/lane/commit.go",
		old:    "\tif !committed {\n\t\ts.undo(tx)\n\t\treturn\n\t}\n",
		new:    "\tif !committed {\n\t\tfor _, p := range tx.permits {\n\t\t\tp.item.state = calling\n\t\t\ts.calls.start(p, time.Duration(s.provider.Timeout), s.now)\n\t\t}\n\t\ttx.permits = nil\n\t\ts.undo(tx)\n\t\treturn\n\t}\n",
		checks: []check{laneTests},
	},
	{
		name:   "permit-never-expires",
		what:   "a permit is used however old it is",
		harm:   "a process that was paused calls on a lane that is another's by now",
		file:   "processor/lane/calls.go",
		old:    "if !began.Before(p.expires) || c.ctx.Err() != nil {",
		new:    "if c.ctx.Err() != nil {",
		checks: []check{laneTests},
	},
	{
		name:   "pace-forgotten",
		what:   "a lane's new owner does not count the permits of the old one",
		harm:   "after every restart and move a provider is called faster than its pace",
		file:   "processor/lane/restore.go",
		old:    "\t\tl.pace.add(e.T)\n",
		new:    "",
		checks: []check{laneTests},
	},
	{
		name:   "stale-without-bound",
		what:   "all that is stale goes back at once, whatever the lane can call",
		harm:   "a backlog goes round and round, and its messages grow stale again before their turn",
		file:   "processor/lane/stale.go",
		old:    "return waiting >= most(staleAfter/2) || waiting+expected >= most(staleAfter/2+3*took/2)",
		new:    "return waiting >= most(0) && took >= 0",
		checks: []check{laneTests},
	},
}
