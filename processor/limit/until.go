package limit

import "github.com/weirhq/weir/schemas"

// Until returns the moment from which no window of r sees the place of a charge
// any more. A longer window of a later revision may see it for longer. It is 0 for what cannot be given back, and
// for a limit that r lacks. A window lasts 31 days at most, and so does a place.
func (r *Rules) Until(c schemas.Charge) schemas.Millis {
	l := r.byName[c.Limit]
	if l == nil || !r.Returnable(c) {
		return 0
	}
	until := schemas.Millis(0)
	if len(l.rolling) > 0 {
		until = c.T + l.longest
	}
	for u := range unitCount {
		if l.units&(1<<u) != 0 {
			_, end := period(uint8(u), l.zone, c.T)
			until = max(until, end)
		}
	}
	return until
}
