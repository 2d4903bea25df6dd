package main

// auditRun is the whole of Weir on a broker in the process: its audit must prove it.
var auditRun = check{pkg: "processor/audit", run: "TestRealRunIsProven|TestLostRecords"}

// auditAlone is many runs of the whole of Weir with faults, which its audit must prove.
var auditAlone = check{pkg: "cmd/weir/faultsim", run: "TestAuditAlone", env: []string{"WEIR_SIM_SEEDS=40"}}

// audited are the ways to break Weir beside the limits that the audit of a run finds.
var audited = []mutation{
	{
		name:   "audit-permanent-as-sent",
		what:   "a lane reports what the provider refused for good as sent",
		harm:   "a message that no one has passes for delivered, and its place stands",
		file:   "processor/lane/settle.go",
		old:    "case provider.Permanent:\n\t\treturn end(schemas.StatusFailed, reasonPermanent, taint)",
		new:    "case provider.Permanent:\n\t\treturn settlement{status: schemas.StatusSent, taint: taint}",
		checks: []check{auditRun},
	},
	{
		name:   "audit-sent-lost",
		what:   "a lane does not report some messages that the provider took",
		harm:   "they pass for messages on their way until they are overdue",
		file:   "processor/lane/end.go",
		old:    "\ts.status(tx, it, e, came...)\n\tif",
		new:    "\tif v.status != schemas.StatusSent || it.key.offset%5 != 3 {\n\t\ts.status(tx, it, e, came...)\n\t}\n\tif",
		checks: []check{auditRun},
	},
	{
		name:   "audit-never-refunds",
		what:   "a lane gives no place back",
		harm:   "recipients use up their limits by messages that they never got",
		file:   "processor/lane/settle.go",
		old:    "giveBack:   taint == schemas.TaintNone,",
		new:    "giveBack:   false,",
		checks: []check{auditRun},
	},
	{
		name:   "audit-always-refunds",
		what:   "a lane gives back the place of every message that it did not send, and says that none may have been received",
		harm:   "the recipient has it, and gets n more",
		file:   "processor/lane/settle.go",
		old:    "\treturn settlement{\n\t\tstatus: s, reason: reason, taint: taint,",
		new:    "\tif taint == schemas.TaintReceived {\n\t\ttaint = schemas.TaintNone\n\t}\n\treturn settlement{\n\t\tstatus: s, reason: reason, taint: taint,",
		checks: []check{{pkg: "cmd/weir/faultsim", run: "TestFaults", env: []string{"WEIR_SIM_SEEDS=60"}}},
	},
	{
		name:   "audit-taint-lost",
		what:   "a retry does not carry that an attempt before it may have been received",
		harm:   "the message's place is given back at its end, and the recipient gets n more",
		file:   "processor/lane/write.go",
		old:    "env.Attempt, env.Taint, env.LastError = it.attempt, v.taint, code\n\tenv.Tried",
		new:    "env.Attempt, env.Taint, env.LastError = it.attempt, it.env.Taint, code\n\tenv.Tried",
		checks: []check{auditRun},
	},
	{
		name:   "audit-delay-drops",
		what:   "the delay stage drops a record in ten",
		harm:   "messages that wait never come back",
		file:   "processor/delay/delay.go",
		old:    "\t\t\ttx.Produce(out)\n",
		new:    "\t\t\tif h.rec.Offset%10 != 3 {\n\t\t\t\ttx.Produce(out)\n\t\t\t}\n",
		checks: []check{auditRun},
	},
	{
		name:   "audit-no-letter",
		what:   "what a lane gives up on at its first attempt is not in the DLQ",
		harm:   "its bytes are gone, and no one can send it again",
		file:   "processor/lane/write.go",
		old:    "\tif v.deadLetter {\n",
		new:    "\tif v.deadLetter && attempt > 1 {\n",
		checks: []check{auditRun},
	},
	{
		name:   "audit-no-letter-rejected",
		what:   "a rejected request is not in the DLQ",
		harm:   "its bytes are gone, and its producer cannot see what was wrong with it",
		file:   "processor/admission/life.go",
		old:    "\to.send = append(o.send, p.deadLetter(m, o.event.Reason, o.event.Error))\n",
		new:    "",
		checks: []check{auditRun},
	},
}
