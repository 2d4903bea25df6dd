//go:build mutations

package audit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryCheckIsNeeded takes one check out of the audit at a time, and a test
// must fail for it. It takes some minutes:
//
//	go test -tags mutations -run EveryCheckIsNeeded -v -timeout 30m ./processor/audit
func TestEveryCheckIsNeeded(t *testing.T) {
	const handmade = "Clean|EveryViolation|Lawful|Gone|Suppress|RememberedFor|Bucket|Tanks|Dens|Join|Places|Tall|Budget|Cancel|Since|History|Details|Redrives|Countries|QuietHours|Duplicates"
	whole := make(map[string]string)
	for _, m := range []struct{ name, file, old, new, run string }{
		{"a gap in the sequence", "partition.go", "if d.Partition != p.num || d.Seq != p.seq+1 {", "if d.Partition != p.num {", ""},
		{"another partition's decision", "partition.go", "if d.Partition != p.num || d.Seq != p.seq+1 {", "if d.Seq != p.seq+1 {", ""},
		{"the first decisions lost", "partition.go", "if d.Seq != 1 && !p.cut {", "if false {", ""},
		{"time goes back", "partition.go", "if d.T < p.t {", "if false {", ""},
		{"t ahead of the append time", "partition.go", "ahead > aheadMost {", "ahead > aheadMost && false {", ""},
		{"a decision under another revision", "partition.go", "p.revision >= 0 && d.Revision != p.revision {", "false {", ""},
		{"a marker that says another thing of itself", "partition.go", "if m.Seq != d.Seq || m.T != d.T || m.Revision != d.Revision {", "if false {", ""},
		{"a revision that comes into force again", "partition.go", "if m.Revision <= p.revision {", "if false {", ""},
		{"a revision that is not in weir.config", "partition.go", "	if next == nil {\n		p.fault", "	if false {\n		p.fault", ""},
		{"a since that is wrong", "partition.go", "!ok || got != moment {", "false && (!ok || got != moment) {", ""},
		{"a since of no window", "partition.go", "if _, ok := want[name][unit]; !ok {", "if _, ok := want[name][unit]; !ok && false {", ""},
		{"an event of no kind", "partition.go", "if err == nil && e.Kind != schemas.KindStatus && (", "if false && (", ""},
		{"a status that does not exist", "partition.go", "if err == nil && e.Kind == schemas.KindStatus && !", "if false && !", ""},
		{"a record decided twice", "partition.go", "if f.start && at < f.read {", "if false {", ""},
		{"a record without decision", "partition.go", "if f.start || !p.cut {\n				p.skipped(r)", "if false {\n				p.skipped(r)", ""},
		{"a last record without decision", "partition.go", "if r.Offset < p.done[f.topic] &&", "if false &&", ""},
		{"a decision on no record", "partition.go", "if at >= f.from {", "if false {", ""},
		{"a decision on another's partition", "partition.go", "if f == nil || d.Input.Partition != p.num {", "if f == nil {", ""},
		{"a decision without input", "partition.go", "if d.Verdict != schemas.VerdictMarker {\n			p.fault(KindPhantom", "if false {\n			p.fault(KindPhantom", ""},
		{"a decision on another message's record", "partition.go", "if env.ID == p.e.MessageID && env.Key == p.e.To {", "if true {", ""},
		{"a decision on a foreign record", "partition.go", "if p.e.Decision.Verdict != schemas.VerdictNothing {", "if false {", ""},
		{"forwarded by the owner", "partition.go", "if p.e.To != \"\" && schemas.PartitionOf(p.e.To, p.partitions) == p.num {", "if false {", ""},
		{"expired early", "partition.go", "p.t < max(m.expires, p.expires) {", "p.t < max(m.expires, p.expires) && false {", ""},
		{"never ended", "partition.go", "if m.expires != 0 && p.t > m.expires.Add(p.slack) {", "if false {", ""},
		{"ended late", "partition.go", "if m.expires != 0 && e.At > m.expires.Add(p.slack) {", "if false {", ""},
		{"two ends", "partition.go", "p.fault(KindTwoEnds,", "func(...any) {}(KindTwoEnds,", ""},
		{"an order that may not be", "partition.go", "case !mayFollow(m.state(), e.Status):", "case false:", ""},
		{"a beginning that may not be", "partition.go", "		if !mayFollow(\"\", e.Status) {\n", "		if false {\n", ""},
		{"ended though an outcome is unknown", "partition.go", "if m.flags&flagUnknown != 0 && e.Status != schemas.StatusSent", "if false && e.Status != schemas.StatusSent", ""},
		{"a receipt of a message that failed", "partition.go", "case m.state().End() && m.state() != schemas.StatusSent && m", "case false && m", ""},
		{"a receipt of no message", "partition.go", "case !there && p.t-p.begin < remembered:", "case !there && p.t < 0:", ""},
		{"an id under two tenants", "life.go", "cmp.Or(tenant, schemas.DefaultTenant)", "cmp.Or(schemas.DefaultTenant, tenant)", ""},
		{"a place taken that there is no room for", "verdict.go", "			case r.full():\n", "			case r.full() && false:\n", ""},
		{"refused with room", "verdict.go", "	case len(full) == 0:\n", "	case false:\n", ""},
		{"a place too few", "verdict.go", "			p.fault(KindCharges, \"no place in %s, which matches\", l.Name)\n			continue\n		}\n		c := charges[i]\n		charges = slices.Delete(charges, i, i+1)\n		scope := l.scope(s)\n		if c.Scope != scope || c.T != d.T", "			continue\n		}\n		c := charges[i]\n		charges = slices.Delete(charges, i, i+1)\n		scope := l.scope(s)\n		if c.Scope != scope || c.T != d.T", ""},
		{"a place elsewhere", "verdict.go", "if c.Scope != scope || c.T != d.T || c.Cost != l.cost(s) {", "if c.T != d.T || c.Cost != l.cost(s) {", ""},
		{"a place at another time", "verdict.go", "if c.Scope != scope || c.T != d.T || c.Cost != l.cost(s) {", "if c.Scope != scope || c.Cost != l.cost(s) {", ""},
		{"a place of another cost", "verdict.go", "if c.Scope != scope || c.T != d.T || c.Cost != l.cost(s) {", "if c.Scope != scope || c.T != d.T {", ""},
		{"a place recorded at another time", "verdict.go", "if c.Scope != scope || c.T != at || c.Cost", "if c.Scope != scope || c.Cost", ""},
		{"places of a refusal", "partition.go", "d.Verdict != schemas.VerdictRecord && len(d.Charges) > 0 {", "false {", ""},
		{"observed and not said", "verdict.go", "case e.Observed != (len(passed) > 0) && whole:", "case false:", ""},
		{"wrong evidence of what is observed", "verdict.go", "case whole && (len(passed) > 0 || len(d.Evidence) > 0):", "case false:", ""},
		{"evidence of more or fewer windows", "verdict.go", "if len(said) != len(full) {", "if false {", ""},
		{"evidence of a window that is not full", "verdict.go", "if k < 0 {\n			p.fault(KindEvidence", "if k < 0 {\n			continue\n			p.fault(KindEvidence", ""},
		{"evidence of another count", "verdict.go", "v.Count != r.count ||", "", ""},
		{"evidence of another oldest", "verdict.go", "v.Oldest != oldest ||", "", ""},
		{"evidence of another since", "verdict.go", " || v.Since != r.since {", " {", ""},
		{"evidence of another start", "verdict.go", "v.Start != r.start ||", "", ""},
		{"evidence of another scope", "verdict.go", "v.Scope != r.scope ||", "", ""},
		{"refused by another window than it says", "verdict.go", "if len(said) > 0 && (p.e.Limit", "if false && (p.e.Limit", ""},
		{"retry_at", "verdict.go", "		if got != at {\n", "		if false {\n", ""},
		{"back before the windows open", "verdict.go", "got < at && got != expires {", "false && got != expires {", ""},
		{"ended, though all defer", "verdict.go", "if at != 0 && !slices.ContainsFunc(full", "if false && !slices.ContainsFunc(full", ""},
		{"waits, though one does not defer", "verdict.go", "if p.e.Attempt == 0 && (at == 0", "if false && (at == 0", ""},
		{"a give-back that nothing asked for", "verdict.go", "case env == nil || env.Reason != schemas.ReadmitGiveBack || env.ID != p.e.MessageID:", "case env == nil:", ""},
		{"a give-back of what may have been received", "verdict.go", "	case env.Taint != schemas.TaintNone:\n", "	case false:\n", ""},
		{"a give-back after an unknown outcome", "verdict.go", "	case m.flags&flagUnknown != 0:\n", "	case false:\n", ""},
		{"a give-back of what was sent", "verdict.go", "	case m.state() == schemas.StatusSent || m.state() == schemas.StatusUnknown:\n", "	case false:\n", ""},
		{"a give-back before the end", "verdict.go", "	case !m.state().End():\n", "	case false:\n", ""},
		{"an end that returns what may have been received", "verdict.go", "p.fault(KindCause, \"an attempt may have been received: its place stands\")", "_ = d", ""},
		{"a refusal that returns places", "verdict.go", "	if d := p.e.Decision; len(d.Returned)+len(d.Missing) > 0 {", "	if d := p.e.Decision; d == nil {", ""},
		{"a place returned that does not stand", "verdict.go", "		default:\n			p.fault(KindReturned, \"no place of this", "		case false:\n			p.fault(KindReturned, \"no place of this", ""},
		{"a place missing that stands", "verdict.go", "c.T, c.Cost, p.key[0]) && p.seen(c) {", "c.T, c.Cost, p.key[0]) && false {", ""},
		{"a place kept that the message held", "verdict.go", "if !slices.Equal(want, got) {", "if false {", ""},
		{"parts that are not as said", "partition.go", "if segments != p.e.Segments {", "if false {", ""},
		{"a message that went on while suppressed", "causes.go", "	if p.causes.suppressed(p.e.To, p.scope()) {\n", "	if false {\n", ""},
		{"a message that went on though cancelled", "causes.go", "; yes {\n", "; yes && false {\n", ""},
		{"suppressed by nobody", "causes.go", "p.fault(KindSuppressed, \"suppressed, and no", "func(...any) {}(KindSuppressed, \"suppressed, and no", ""},
		{"a suppression lifted that does not stand", "causes.go", "	case !p.cut:\n			p.fault", "	case false:\n			p.fault", ""},
		{"a suppression that nobody asked for", "causes.go", "if req := p.request(in); req != nil && req.Action != action {", "if req := p.request(in); req != nil && req.Action != action && false {", ""},
		{"cancelled by nobody", "causes.go", "p.fault(KindCancelled, \"cancelled, and nobody", "func(...any) {}(KindCancelled, \"cancelled, and nobody", ""},
		{"cancelled where it does not wait", "causes.go", "p.fault(KindCancelled, \"cancelled, though", "func(...any) {}(KindCancelled, \"cancelled, though", ""},
		{"a cancel put off", "causes.go", "		case waits():\n			p.fault", "		case false:\n			p.fault", ""},
		{"a cancel that was not asked for", "causes.go", "		case req != nil && !asked:\n", "		case false:\n", ""},
		{"a message called foreign", "causes.go", "if req.Action == schemas.ActionSend && p.ours(env) {", "if false {", ""},
		{"a suppression dropped", "causes.go", "case req.Action == schemas.ActionSuppress && !stands, req", "case false, req", ""},
		{"a suppression kept", "causes.go", "!stands, req.Action == schemas.ActionUnsuppress && stands:", "!stands:", ""},
		{"a cancel dropped", "causes.go", "case req.Action == schemas.ActionCancel && !early && !(there && m.state().End()):", "case false && early:", ""},
		{"a message dropped", "causes.go", "case req.Action == schemas.ActionSend && !(there && m.state().End()):", "case false:", ""},
		{"admitted to a country that is excluded", "gates.go", "	case !ended && !goes:\n", "	case false:\n", ""},
		{"ended for a country that is not excluded", "gates.go", "	case ended && goes:\n", "	case false:\n", ""},
		{"quiet hours asked of what its country ended", "gates.go", "		return // never came to its quiet hours\n", "", ""},
		{"admitted in quiet hours", "gates.go", "	case !held && quiet:\n", "	case false:\n", ""},
		{"held for quiet hours by day", "gates.go", "	case !quiet:\n		p.fault(KindQuiet,", "	case !quiet:\n		func(...any) {}(KindQuiet,", ""},
		{"waits in quiet hours where the class rejects", "gates.go", "case g.quiet.rejects != (e.Decision.Verdict == schemas.VerdictReject):", "case false:", ""},
		{"waits until another moment than their end", "gates.go", "		p.fault(KindQuiet, \"it comes back at %s; its", "		func(...any) {}(KindQuiet, \"it comes back at %s; its", ""},
		{"waits for ever", "gates.go", "		if e.RetryAt <= t || expires", "		if false && expires", ""},
		{"the first of several zones", "gates.go", "	p.where[p.e.To] = known\n	return known\n", "	return known[:1]\n", ""},
		{"an end for another time", "gates.go", "s.start <= t && t < s.end {", "s.end > 0 {", ""},
		{"a class that nobody declared", "gates.go", "r.classes[schemas.DefaultClass]; ok {", "r.classes[schemas.DefaultClass]; ok && false {", ""},
		{"a duplicate of no message", "repeats.go", "	default:\n		p.fault(KindDuplicate, \"a repeat of message %s, and", "	default:\n		func(...any) {}(KindDuplicate, \"a repeat of message %s, and", ""},
		{"a duplicate of itself", "repeats.go", "	case own && e.Kind == schemas.KindStatus:\n		p.fault", "	case own && e.Kind == schemas.KindStatus:\n		func(...any) {}", ""},
		{"a duplicate of nothing", "repeats.go", "	case e.DuplicateOf == \"\":\n		p.fault", "	case e.DuplicateOf == \"\":\n		func(...any) {}", ""},
		{"a duplicate of one long ago", "repeats.go", "	case there && p.t-m.first < remembered, noted", "	case there, noted", ""},
		{"a duplicate that waits for long", "repeats.go", "	case own && waits: //", "	case own && waits && p.t < 0: //", ""},
		{"a duplicate of what was sent elsewhere", "repeats.go", ", noted && p.t-at < remembered:", ", noted && p.t < at:", ""},
		{"one id admitted twice", "repeats.go", "	case first, v == schemas.VerdictAdmit && !waits:\n", "	case false && waits && first:\n", ""},
		{"one id admitted twice, of a record that comes back", "repeats.go", "	case first, v == schemas.VerdictAdmit && !waits:\n", "	case first, waits && v == \"\":\n", ""},
		{"one id admitted, while it waits", "repeats.go", "	case first, v == schemas.VerdictAdmit && !waits:\n", "	case v == schemas.VerdictAdmit && !waits:\n", ""},
		{"an id used again after a day", "repeats.go", "	case !waits && p.t-m.first >= unique:", "	case !waits && p.t < 0:", ""},
		{"two under one key", "repeats.go", "		if there && p.t-before.t < unique {\n", "		if false {\n", ""},
		{"a duplicate under another key", "repeats.go", "	case named != none:\n		p.fault", "	case named != none:\n		func(...any) {}", ""},
		{"a duplicate without key", "repeats.go", "	case key == \"\" && named != none:\n		p.fault", "	case key == \"\" && named != none:\n		func(...any) {}", ""},
		{"a key that was not looked at", "repeats.go", "if d.Verdict == schemas.VerdictReject && !p.recognised() {", "if false {", ""},
		{"a key that came before the log", "repeats.go", "} else if !there && p.unseen(unique) {", "} else if false {", ""},
		{"a redrive decided twice", "causes.go", "	if there && p.t-m.first < unique {\n", "	if false {\n", ""},
		{"a redrive dropped as repeated", "causes.go", "		default:\n			p.fault(KindUnanswered, \"a redrive", "		case false:\n			p.fault(KindUnanswered, \"a redrive", ""},
		{"a redrive with another request", "causes.go", "if e.Source == nil || *e.Source != source || e.AcceptedAt", "if e.Source == nil || e.AcceptedAt", ""},
		{"a redrive accepted at another time", "causes.go", "*e.Source != source || e.AcceptedAt != schemas.MillisOf(in.Timestamp) {", "*e.Source != source {", ""},
		{"a redrive of another message", "causes.go", "if e.RedriveOf != env.RedriveOf {", "if false {", ""},
		{"a redrive with an attempt", "causes.go", "if e.Decision.Verdict == schemas.VerdictMove || e.Attempt != 0 {", "if false {", ""},
		{"a redrive that is none", "causes.go", "return env.Redrives(p.num, p.partitions)", "return true", ""},
		{"a redrive's expiry by its bytes", "partition.go", "if env != nil && env.Reason == schemas.ReadmitRedrive { // whatever", "if false { // whatever", ""},
		{"an outcome without permit", "lanes.go", "	default:\n		fault(KindPermit", "	case false:\n		fault(KindPermit", ""},
		{"too many permits", "lanes.go", "if p.bound && s.most[k] > p.most {", "if false {", ""},
		{"a torn dispatch record", "lanes.go", "if err != nil || t == 0 || id == \"\" {", "if false {", ""},
		{"what only the decision log has", "run.go", "for _, i := range only {", "for _, i := range only[:0] {", ""},
		{"what only the further topic has", "run.go", "for _, i := range extra {", "for _, i := range extra[:0] {", ""},
		{"tangled differences", "join.go", "			tangled++\n", "", ""},
		{"a revision that does not count", "history.go", "		h.void++\n		return nil\n", "		h.void++\n		h.policies = append(h.policies, new(schemas.Policy))\n		return nil\n", ""},
		{"nothing to judge", "report.go", "if r.Checked.Decisions == 0 {", "if false {", "NothingToJudge"},
		{"what does not fit", "memory.go", "if total > s.of.most {", "if total < 0 {", ""},
		{"places of a request that is gone", "verdict.go", "		p.believe()\n		return\n	}\n	charges", "		return\n	}\n	charges", "Trimmed"},
	} {
		t.Run(m.name, func(t *testing.T) {
			if whole[m.file] == "" {
				b, err := os.ReadFile(m.file)
				if err != nil {
					t.Fatal(err)
				}
				whole[m.file] = string(b)
			}
			if n := strings.Count(whole[m.file], m.old); n != 1 {
				t.Fatalf("%s has %d times %q: mend this table", m.file, n, m.old)
			}
			dir := t.TempDir()
			broken := filepath.Join(dir, m.file)
			if err := os.WriteFile(broken, []byte(strings.Replace(whole[m.file], m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			here, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: broken}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"test", "-vet=off", "-count=1", "-overlay", file, "-run", handmade}
			if args = append(args, handmadeFiles(t)...); m.run != "" { // it takes a broker
				args = []string{"test", "-vet=off", "-count=1", "-overlay", file, "-run", m.run, "."}
			}
			out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
			switch {
			case strings.Contains(string(out), "[build failed]"):
				t.Fatalf("it does not compile:\n%s", out)
			case err == nil:
				t.Fatal("no test fails without it")
			}
			for line := range strings.Lines(string(out)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok && strings.Contains(name, "/") {
					t.Logf("caught by %s", name)
					return
				}
			}
			t.Log("caught")
		})
	}
}

// handmadeFiles are the package without the tests that need the whole of Weir:
// they are built in a tenth of the time.
func handmadeFiles(t *testing.T) (names []string) {
	t.Helper()
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(b), "package audit\n") || strings.Contains(string(b), "\npackage audit\n") && name != "mutations_test.go" {
			names = append(names, name)
		}
	}
	return names
}
