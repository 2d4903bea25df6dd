package legacy

import (
	"errors"
	"fmt"
	"slices"
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

// Invalid is a body that cannot be taken, in Chinese words for who wrote it.
type Invalid struct{ Problems []string }

func (e *Invalid) Error() string { return strings.Join(e.Problems, "；") }

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

// read takes up the fields that a body has. The id is the path's.
func (r *RateLimit) read(p *schemas.Policy, body []byte) error {
	f, ok := readFields(body)
	if !ok {
		return &Invalid{Problems: []string{`请求体不是有效的 JSON 对象，例如 {"manufacturerId": null, "requestsPerSecond": 10, "isEnabled": true}`}}
	}
	var problems []string
	fault := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if v, ok := f.get("manufacturerId"); ok {
		switch id, whole := number(v); {
		case string(v) == "null":
			r.ManufacturerID = nil
		case whole && manufacturer(p, id) != "":
			r.ManufacturerID = &id
		default:
			fault("manufacturerId 必须为 null（全局限制），或已有厂商的编号：%s", known(p))
		}
	}
	for i, name := range [...]string{"requestsPerSecond", "requestsPerMinute", "requestsPerHour"} {
		v, ok := f.get(name)
		if !ok {
			continue
		}
		n, whole := number(v)
		if !whole || n < 0 || n > schemas.MaxRolling {
			fault("%s 必须为 0（不限制）到 %d 的整数", name, schemas.MaxRolling)
			continue
		}
		*r.numbers()[i] = n
	}
	if v, ok := f.get("isEnabled"); ok {
		switch string(v) {
		case "true", "false":
			r.IsEnabled = string(v) == "true"
		default:
			fault("isEnabled 必须为 true 或 false")
		}
	}
	if len(problems) > 0 {
		return &Invalid{Problems: problems}
	}
	return nil
}

// known lists the providers that the API can name.
func known(p *schemas.Policy) string {
	var all []string
	for i := range p.Providers {
		if v := &p.Providers[i]; v.LegacyID != 0 {
			all = append(all, fmt.Sprintf("%d（%s）", v.LegacyID, v.Name))
		}
	}
	if len(all) == 0 {
		return "目前没有厂商有编号"
	}
	return strings.Join(all, "、")
}
