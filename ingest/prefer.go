package ingest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestWait bounds what a caller may wait for a decision.
const longestWait = 60 * time.Second

// preference is what a caller prefers (RFC 7240).
type preference struct {
	wait    time.Duration // for the decision; 0 is not at all
	applied string        // for Preference-Applied; "" where the caller said nothing
	acked   time.Duration // how long Kafka has to acknowledge; 0 is answerTimeout
}

// respondAsync is the preference not to wait for the decision.
const respondAsync = "respond-async"

// preferOf reads the Prefer headers: wait=N waits for the decision for N
// seconds, respond-async alone does not. What is not understood is ignored, as
// the RFC has it. own is what the caller's key prefers where the headers say
// nothing of it, and otherwise is how long such a call waits where neither does.
func preferOf(h http.Header, own string, otherwise time.Duration) preference {
	p, said := readPrefer(h["Prefer"])
	if said {
		return p
	}
	if p, said = readPrefer([]string{own}); !said {
		p.wait = otherwise
	}
	p.applied = "" // this request did not ask for it
	return p
}

func readPrefer(headers []string) (p preference, said bool) {
	async := false
	for _, line := range headers {
		for one := range strings.SplitSeq(line, ",") {
			one, _, _ = strings.Cut(one, ";") // parameters mean nothing here
			name, value, _ := strings.Cut(one, "=")
			name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
			switch name {
			case "wait":
				n, err := strconv.ParseUint(value, 10, 31)
				if err != nil || p.applied != "" { // the first one counts
					continue
				}
				p.wait = min(time.Duration(n)*time.Second, longestWait)
				p.applied, said = "wait="+strconv.Itoa(int(p.wait/time.Second)), true
			case respondAsync:
				async = true
			}
		}
	}
	// With both, respond-async says what to do after the wait: what is done anyway.
	if async && !said {
		return preference{applied: respondAsync}, true
	}
	return p, said
}
