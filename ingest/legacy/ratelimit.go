package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// RateLimit is one limit as /api/rate-limits shows it: how many messages in any
// second, minute and hour, rolling, 0 being as many as there are. More are
// refused, and do not wait.
type RateLimit struct {
	ID                int64  `json:"id"`
	ManufacturerID    *int64 `json:"manufacturerId"` // a provider's legacy_id; nil is all messages together
	RequestsPerSecond int64  `json:"requestsPerSecond"`
	RequestsPerMinute int64  `json:"requestsPerMinute"`
	RequestsPerHour   int64  `json:"requestsPerHour"`
	IsEnabled         bool   `json:"isEnabled"`
}

// ErrNotFound says that no limit has the id.
var ErrNotFound = errors.New("there is no rate limit with this id")

// Invalid is a body that cannot be taken, in words for who wrote it.
type Invalid struct{ Problems []string }

func (e *Invalid) Error() string { return strings.Join(e.Problems, "; ") }

// RateLimits returns all limits of a policy that the API shows, by id.
func RateLimits(p *schemas.Policy) []RateLimit {
	out := []RateLimit{} // an empty list is [] in JSON
	for i := range p.Limits {
		if p.Limits[i].LegacyID != 0 {
			out = append(out, shown(p, &p.Limits[i]))
		}
	}
	slices.SortFunc(out, func(a, b RateLimit) int { return int(a.ID - b.ID) })
	return out
}

// Find returns one of them, or ErrNotFound.
func Find(p *schemas.Policy, id int64) (RateLimit, error) {
	i := indexOf(p, id)
	if i < 0 {
		return RateLimit{}, ErrNotFound
	}
	return shown(p, &p.Limits[i]), nil
}

// Create adds the limit of a POST's body to a policy: p stays as it is. What the
// body lacks is global, without numbers, and enabled. The error is an *Invalid.
func Create(p *schemas.Policy, body []byte) (*schemas.Policy, RateLimit, error) {
	r := RateLimit{ID: 1, IsEnabled: true}
	for i := range p.Limits {
		r.ID = max(r.ID, p.Limits[i].LegacyID+1)
	}
	if err := r.read(p, body); err != nil {
		return nil, RateLimit{}, err
	}
	next := *p
	next.Limits = append(slices.Clone(p.Limits), r.limit(p, r.name(p)))
	return &next, r, nil
}

// Change changes the fields that a PUT's body has: p stays as it is. The error
// is ErrNotFound or an *Invalid.
func Change(p *schemas.Policy, id int64, body []byte) (*schemas.Policy, RateLimit, error) {
	i := indexOf(p, id)
	if i < 0 {
		return nil, RateLimit{}, ErrNotFound
	}
	r := shown(p, &p.Limits[i])
	if err := r.read(p, body); err != nil {
		return nil, RateLimit{}, err
	}
	next := *p
	next.Limits = slices.Clone(p.Limits)
	next.Limits[i] = r.limit(p, p.Limits[i].Name)
	return &next, r, nil
}

// Remove takes a limit out of a policy: p stays as it is. The error is ErrNotFound.
func Remove(p *schemas.Policy, id int64) (*schemas.Policy, error) {
	i := indexOf(p, id)
	if i < 0 {
		return nil, ErrNotFound
	}
	next := *p
	next.Limits = slices.Delete(slices.Clone(p.Limits), i, i+1)
	return &next, nil
}

// Refusal is the message of a refusal by one of these limits: which window was
// full, as the status event names it (10/1s). False where it is none of theirs.
func Refusal(window string) (string, bool) {
	w, err := schemas.ParseWindow(window)
	if err != nil || w.Kind != schemas.WindowRolling {
		return "", false
	}
	i := slices.Index(schemas.LegacyWindows, w.Length)
	if i < 0 {
		return "", false
	}
	return fmt.Sprintf("超出每%s请求限制 (%d)", [...]string{"秒", "分钟", "小时"}[i], w.N), true
}

func indexOf(p *schemas.Policy, id int64) int {
	return slices.IndexFunc(p.Limits, func(l schemas.Limit) bool { return id != 0 && l.LegacyID == id })
}

// numbers are the limit's, in the order of schemas.LegacyWindows.
func (r *RateLimit) numbers() [3]*int64 {
	return [...]*int64{&r.RequestsPerSecond, &r.RequestsPerMinute, &r.RequestsPerHour}
}

// shown is a limit of the policy as the API shows it. schemas lets only limits
// have a legacy_id of which this says everything.
func shown(p *schemas.Policy, l *schemas.Limit) RateLimit {
	r := RateLimit{ID: l.LegacyID, IsEnabled: l.Mode != schemas.ModeOff}
	if len(l.Match.Provider) > 0 {
		v, _ := p.Provider(l.Match.Provider[0])
		r.ManufacturerID = &v.LegacyID
	}
	for i, n := range r.numbers() {
		for _, w := range l.Allow {
			if w.Kind == schemas.WindowRolling && w.Length == schemas.LegacyWindows[i] {
				*n = w.N
			}
		}
	}
	return r
}

// limit is the policy's limit of this name that does what r says.
func (r *RateLimit) limit(p *schemas.Policy, name string) schemas.Limit {
	l := schemas.Limit{Name: name, LegacyID: r.ID, Per: []string{}, Allow: []schemas.Window{}}
	if r.ManufacturerID != nil {
		l.Match.Provider, l.Per = []string{manufacturer(p, *r.ManufacturerID)}, []string{"provider"}
	}
	for i, n := range r.numbers() {
		if *n > 0 {
			l.Allow = append(l.Allow, schemas.Window{Kind: schemas.WindowRolling, N: *n, Length: schemas.LegacyWindows[i]})
		}
	}
	if !r.IsEnabled {
		l.Mode = schemas.ModeOff
	}
	return l
}

// name is a free name for a new limit.
func (r *RateLimit) name(p *schemas.Policy) string {
	first := fmt.Sprintf("legacy-%d", r.ID)
	name := first
	for n := 2; slices.ContainsFunc(p.Limits, func(l schemas.Limit) bool { return l.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", first, n)
	}
	return name
}

// manufacturer returns the provider with a legacy_id; "" when there is none.
func manufacturer(p *schemas.Policy, id int64) string {
	for i := range p.Providers {
		if id != 0 && p.Providers[i].LegacyID == id {
			return p.Providers[i].Name
		}
	}
	return ""
}

// read takes up the fields that a body has. Names are read in any case, and
// unknown ones ignored, as that API's servers did; the id is the path's.
func (r *RateLimit) read(p *schemas.Policy, body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return &Invalid{Problems: []string{`the body is not a JSON object, such as {"manufacturerId": null, "requestsPerSecond": 10, "isEnabled": true}`}}
	}
	var problems []string
	fault := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	field := func(name string) (json.RawMessage, bool) {
		if v, ok := fields[name]; ok {
			return v, true
		}
		for k, v := range fields {
			if strings.EqualFold(k, name) {
				return v, true
			}
		}
		return nil, false
	}
	if v, ok := field("manufacturerId"); ok {
		switch id, whole := number(v); {
		case string(v) == "null":
			r.ManufacturerID = nil
		case whole && manufacturer(p, id) != "":
			r.ManufacturerID = &id
		default:
			fault("manufacturerId must be null, for all messages together, or the legacy_id of a provider: %s", known(p))
		}
	}
	for i, name := range [...]string{"requestsPerSecond", "requestsPerMinute", "requestsPerHour"} {
		v, ok := field(name)
		if !ok {
			continue
		}
		n, whole := number(v)
		if !whole || n < 0 || n > schemas.MaxRolling {
			fault("%s must be a whole number from 0, which is no limit, to %d", name, schemas.MaxRolling)
			continue
		}
		*r.numbers()[i] = n
	}
	if v, ok := field("isEnabled"); ok {
		switch string(v) {
		case "true", "false":
			r.IsEnabled = string(v) == "true"
		default:
			fault("isEnabled must be true or false")
		}
	}
	if len(problems) > 0 {
		return &Invalid{Problems: problems}
	}
	return nil
}

// number reads a whole number, also as 10.0 or 1e2.
func number(v json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// known lists the providers that the API can name.
func known(p *schemas.Policy) string {
	var all []string
	for i := range p.Providers {
		if v := &p.Providers[i]; v.LegacyID != 0 {
			all = append(all, fmt.Sprintf("%d is %s", v.LegacyID, v.Name))
		}
	}
	if len(all) == 0 {
		return "no provider has one"
	}
	return strings.Join(all, ", ")
}
