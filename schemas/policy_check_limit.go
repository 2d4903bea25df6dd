package schemas

import (
	"slices"
	"strconv"
	"strings"
)

func (c *checker) limit(l *Limit, path string) {
	c.match(&l.Match, path+".match")
	if l.Per == nil {
		c.failf(path+".per", "is missing: say whose messages are counted together, such as per: [recipient], or per: [] for one limit for all")
	}
	seen := map[string]bool{}
	for i, v := range l.Per {
		item := itemPath(path+".per", i)
		digits, prefix := strings.CutPrefix(v, "prefix:")
		key, metadata := strings.CutPrefix(v, metadataPrefix)
		n, err := strconv.Atoi(digits)
		switch {
		case prefix && (err != nil || n < 1 || n > 15 || strconv.Itoa(n) != digits):
			c.failf(item, "%s is not a prefix: write how many digits of the number, 1 to 15, such as prefix:5", quote(v))
		case metadata && !metadataForm.MatchString(key):
			c.failf(item, "%s is not a metadata field: write 1 to 64 letters, digits, _, . and -, such as metadata.order", quote(v))
		case !prefix && !metadata && !slices.Contains(perNames, v):
			c.failf(item, "%s is nothing to count by: write %s, prefix:N or metadata.X, such as recipient", quote(v), strings.Join(perNames, ", "))
		case seen[v]:
			c.failf(item, "%s is there twice: keep one, such as per: [recipient]", quote(v))
		}
		seen[v] = true
	}
	c.whole(path+".legacy_id", l.LegacyID, 1, 1<<31-1, "1")
	if l.LegacyID != 0 {
		c.legacy(l, path)
	}
	if l.LegacyID == 0 || l.Allow == nil || len(l.Allow) > 0 {
		c.allow(l.Allow, path+".allow")
	}
	c.zone(path+".timezone", l.Timezone)
	oneOf(c, path+".mode", l.Mode, []Mode{ModeEnforce, ModeObserve, ModeOff})
	oneOf(c, path+".on_refusal", l.OnRefusal, []OnRefusal{RefusalReject, RefusalDefer})
	oneOf(c, path+".count", l.Count, []Count{CountMessage, CountAttempt, CountSegments, CountCost})
	for i, v := range l.Exempt {
		c.recipient(itemPath(path+".exempt", i), v)
	}
	first := map[string]int{}
	for i := range l.Overrides {
		o, at := &l.Overrides[i], itemPath(path+".overrides", i)
		if l.Per != nil && !slices.Contains(l.Per, "recipient") {
			c.failf(at, "an override is for one recipient, and %s does not count by recipient: add it, such as per: [recipient]", path)
		}
		if o.To == "" {
			c.failf(at+".to", `is missing: say whose limit this is, such as to: "+8613800000000"`)
		} else {
			c.recipient(at+".to", o.To)
			if j, ok := first[o.To]; ok {
				c.failf(at+".to", "the recipient is also in %s: keep one, such as {to: \"+8613800000000\", allow: [3/60s]}", itemPath(path+".overrides", j))
			} else {
				first[o.To] = i
			}
		}
		c.allow(o.Allow, at+".allow")
	}
}

// allow checks a limit's windows.
func (c *checker) allow(list []Window, path string) {
	if len(list) == 0 {
		c.failf(path, "is missing or empty: give it windows, such as allow: [1/60s, 10/calendar-day]")
	}
	c.windows(list, path)
	bucket := -1
	for i, w := range list {
		switch {
		case w.Kind == WindowRolling && w.N > MaxRolling && w.N <= MaxPlaces:
			c.failf(itemPath(path, i), "%s would keep the times of %d places for every recipient, and at most %d are kept: use a calendar window, which only counts, such as %d/calendar-day, a bucket, such as \"bucket %d refill 1/s\", or a smaller n in a shorter window", w, w.N, MaxRolling, w.N, MaxRolling)
		case w.Kind != WindowBucket:
		case bucket < 0:
			bucket = i
		case w.UnitKey() != list[bucket].UnitKey(): // else it is reported already
			c.failf(itemPath(path, i), "%s is a second bucket, after %s: write another limit for it, such as {name: slowly, per: [recipient], allow: [%s]}", w, itemPath(path, bucket), w)
		}
	}
}

func (c *checker) windows(list []Window, path string) {
	if len(list) > MaxWindows {
		c.failf(path, "has %d windows: at most %d, such as [1/60s, 10/calendar-day]", len(list), MaxWindows)
	}
	first := map[string]int{}
	for i, w := range list {
		at := itemPath(path, i)
		if err := w.check(); err != nil {
			c.report(at, err.Error())
			continue
		}
		if j, ok := first[w.UnitKey()]; ok {
			c.failf(at, "%s has the window of %s, %s: only the smaller would act, so keep one, such as [1/60s, 5/1h]", w, itemPath(path, j), list[j])
			continue
		}
		first[w.UnitKey()] = i
	}
}

// recipient checks an address that must be written as admission writes it, or
// it would never be met. Its text is somebody's number: the error says only
// what is wrong.
func (c *checker) recipient(path, v string) {
	switch user, domain, mail := strings.Cut(v, "@"); {
	case v == "" || strings.ContainsAny(v, " \t\r\n") && !phoneLike.MatchString(v):
		c.failf(path, "a recipient is a number in E.164, such as \"+8613800000000\", an address or a token, without spaces")
	case phoneLike.MatchString(v):
		if !e164Form.MatchString(v) {
			c.failf(path, "a number is written in E.164: +, country and number, 7 to 15 digits and nothing else, in quotes, such as \"+8613800000000\"")
		}
	case mail && !strings.Contains(v, "://") && (user == "" || domain == "" || domain != strings.ToLower(domain)):
		c.failf(path, "an address has a name, @ and a domain in lower case, such as ada@example.com")
	}
}
