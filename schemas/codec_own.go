package schemas

import "strconv"

// ownText reads what AppendCharges and AppendRound write, as long as it is
// written just so, in plain ASCII: what one stage of Weir tells another, with each
// message. Whatever deviates is left to the JSON reader, which knows the whole
// grammar. Strings it returns are parts of what it reads.
type ownText struct {
	s  string
	ok bool // all was as expected until now
}

// is takes a literal if it comes next.
func (r *ownText) is(lit string) bool {
	if r.ok && len(r.s) >= len(lit) && r.s[:len(lit)] == lit {
		r.s = r.s[len(lit):]
		return true
	}
	return false
}

func (r *ownText) must(lit string) {
	if !r.is(lit) {
		r.ok = false
	}
}

func (r *ownText) text() string {
	r.must(`"`)
	if !r.ok {
		return ""
	}
	for i := range len(r.s) {
		switch c := r.s[i]; {
		case c == '"':
			v := r.s[:i]
			r.s = r.s[i+1:]
			return v
		case c < ' ' || c >= 0x7f || c == '\\':
			r.ok = false
			return ""
		}
	}
	r.ok = false
	return ""
}

// number reads up to 18 digits, which no int64 is too small for.
func (r *ownText) number() int64 {
	n := 0
	for n < len(r.s) && n <= 18 && r.s[n] >= '0' && r.s[n] <= '9' {
		n++
	}
	if n == 0 || n > 18 || n > 1 && r.s[0] == '0' {
		r.ok = false
	}
	if !r.ok {
		return 0
	}
	v, err := strconv.ParseInt(r.s[:n], 10, 64)
	r.ok, r.s = err == nil, r.s[n:]
	return v
}

// instant reads a moment in the form of appendInstant, of its centuries.
func (r *ownText) instant() Millis {
	const form = `"2006-01-02T15:04:05.000Z"`
	if !r.ok || len(r.s) < len(form) {
		r.ok = false
		return 0
	}
	at := func(i, n int) (v int) {
		for _, c := range []byte(r.s[i : i+n]) {
			if c < '0' || c > '9' {
				r.ok = false
			}
			v = 10*v + int(c-'0')
		}
		return v
	}
	for i := range len(form) {
		if c := form[i]; (c < '0' || c > '9') && r.s[i] != c {
			r.ok = false
			return 0
		}
	}
	year, month, day := at(1, 4), at(6, 2), at(9, 2)
	ms := (at(12, 2)*3600+at(15, 2)*60+at(18, 2))*1000 + at(21, 3)
	if year < 1970 || year > 2099 || month < 1 || month > 12 || at(12, 2) > 23 || at(15, 2) > 59 || at(18, 2) > 59 {
		r.ok = false
		return 0
	}
	// As in appendInstant, the other way round.
	y, m := year-1968, month-3
	if m < 0 {
		y, m = y-1, m+12
	}
	days := y*1461/4 + (153*m+2)/5 + day - 1 - 671
	v := Millis(days)*86_400_000 + Millis(ms)
	// A day that the month has not is written otherwise.
	var again [len(form)]byte
	if !r.ok || string(appendInstant(again[:0], v)) != r.s[1:len(form)-1] {
		r.ok = false
		return 0
	}
	r.s = r.s[len(form):]
	return v
}

// list reads an array, one element a call.
func (r *ownText) list(element func()) {
	r.must("[")
	for first := true; r.ok && !r.is("]"); first = false {
		if !first {
			r.must(",")
		}
		if r.ok {
			element()
		}
	}
}

func (r *ownText) charges() []Charge { return r.chargesInto(nil) }

func (r *ownText) chargesInto(out []Charge) []Charge {
	r.list(func() {
		var c Charge
		r.must(`{"limit":`)
		c.Limit = r.text()
		r.must(`,"scope":`)
		c.Scope = r.text()
		r.must(`,"t":`)
		c.T = r.instant()
		r.must(`,"cost":`)
		c.Cost = r.number()
		r.must("}")
		out = append(out, c)
	})
	return out
}

func (r *ownText) asks() (out []Ask) {
	r.list(func() {
		var a Ask
		r.must(`{"limit":`)
		a.Limit = r.text()
		r.must(`,"scope":`)
		a.Scope = r.text()
		r.must(`,"cost":`)
		a.Cost = r.number()
		if r.is(`,"t":`) {
			a.T = r.instant()
		}
		r.must("}")
		out = append(out, a)
	})
	return out
}

// round reads a Round, but for one that was refused: its evidence is for the
// JSON reader.
func (r *ownText) round() *Round {
	o := &Round{}
	r.must("{")
	if r.is(`"for":`) {
		o.For = r.text()
		r.must(",")
	}
	r.must(`"revision":`)
	o.Revision = r.number()
	o.Home = r.is(`,"home":true`)
	if r.is(`,"home_revision":`) {
		o.HomeRevision = r.number()
	}
	o.Last = r.is(`,"last":true`)
	if r.is(`,"segments":`) {
		o.Segments = int(r.number())
	}
	if r.is(`,"cost":`) {
		o.Cost = int(r.number())
	}
	if r.is(`,"channel":`) {
		o.Channel = Channel(r.text())
	}
	if r.is(`,"class":`) {
		o.Class = r.text()
	}
	if r.is(`,"template":`) {
		o.Template = r.text()
	}
	if r.is(`,"ask":`) {
		o.Ask = r.asks()
	}
	if r.is(`,"taken":`) {
		o.Taken = r.charges()
	}
	if r.is(`,"moved":`) {
		o.Moved = r.charges()
	}
	if r.is(`,"passed":`) {
		o.Passed = r.asks()
	}
	r.must("}")
	return o
}

func ownCharges(s string) ([]Charge, bool) {
	r := ownText{s, true}
	out := r.charges()
	return out, r.ok && r.s == ""
}

func ownRound(s string) (*Round, bool) {
	r := ownText{s, true}
	o := r.round()
	return o, r.ok && r.s == ""
}
