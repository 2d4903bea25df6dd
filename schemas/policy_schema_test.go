package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compilePolicySchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(PolicySchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("policy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON reads YAML as any editor with a schema would.
func asJSON(text []byte) (any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var v any
	if err := dec.Decode(&v); err != nil {
		if len(bytes.TrimSpace(text)) == 0 || bytes.HasPrefix(text, []byte("# nothing")) {
			return map[string]any{}, nil
		}
		return nil, err
	}
	var second any
	if dec.Decode(&second) == nil {
		return nil, fmt.Errorf("a second document")
	}
	b, err := json.Marshal(stringKeys(v))
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

// stringKeys makes what YAML reads into what JSON can say.
func stringKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for k, item := range v {
			out[fmt.Sprint(k)] = stringKeys(item)
		}
		return out
	case map[string]any:
		for k := range v {
			v[k] = stringKeys(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = stringKeys(v[i])
		}
		return v
	case float64:
		if v != v || v > 1e300 || v < -1e300 {
			return "not a JSON number"
		}
	}
	return v
}

// The schema and the parser judge each file alike, but for what the file's
// first line says a schema cannot tell. That line is held to the truth too.
func TestSchemaJudgesFilesAlike(t *testing.T) {
	schema := compilePolicySchema(t)
	for name, text := range policyFiles(t, "good") {
		t.Run("good/"+name, func(t *testing.T) {
			v, err := asJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(v); err != nil {
				t.Errorf("the parser takes it, the schema does not: %#v", err)
			}
		})
	}
	for name, text := range policyFiles(t, "bad") {
		t.Run("bad/"+name, func(t *testing.T) {
			first, _, _ := strings.Cut(string(text), "\n")
			got := "# schema: cannot read"
			if v, err := asJSON(text); err == nil {
				got = "# schema: cannot tell"
				if schema.Validate(v) != nil {
					got = "# schema: refuses"
				}
			}
			if got != first {
				t.Errorf("the file says %q, and it is %q", first, got)
			}
		})
	}
}

// A line of a bad file that the schema can judge is judged alike: each mistake
// stands alone here, so that one cannot hide behind another.
func TestSchemaJudgesValuesAlike(t *testing.T) {
	schema := compilePolicySchema(t)
	limit := func(field string) string {
		return "limits: [{name: a, per: [recipient], allow: [1/60s], " + field + "}]"
	}
	provider := func(field string) string {
		return "providers: [{name: a, type: simulated, channels: [sms], " + field + "}]"
	}
	class := func(field string) string { return "classes: [{name: a, " + field + "}]" }
	window := func(w string) string { return "limits: [{name: a, per: [], allow: [\"" + w + "\"]}]" }
	for _, c := range []struct {
		text string
		good bool
	}{
		{window("1/60s"), true}, {window("0/60s"), false}, {window("-1/60s"), false}, {window("05/60s"), false},
		{window("5/"), false}, {window("5/60"), false}, {window("5/1h30m"), true}, {window("5/30m1h"), false}, {window("5/500ms"), true},
		{window("5/calendar-day"), true}, {window("5/calendar-week"), false}, {window("bucket 10 refill 0.5/s"), true},
		{window("bucket 10 refill 0/s"), false}, {window("bucket 10 refill 0.000/s"), false}, {window("bucket 10 refill 1/7s"), true},
		{window("bucket 0 refill 1/s"), false}, {window("bucket 10"), false}, {window("1/60s "), false}, {window(""), false},
		{limit("mode: off"), true}, {limit("mode: 'no'"), false}, {limit("on_refusal: defer"), true}, {limit("on_refusal: wait"), false},
		{limit("count: segments"), true}, {limit("count: cost"), true}, {limit("count: parts"), false}, {limit("timezone: ''"), false}, {limit("exempt: [5]"), false},
		{limit("match: {channel: sms}"), true}, {limit("match: {channel: fax}"), false}, {limit("match: {class: []}"), false},
		{limit("match: {metadata.a: b}"), true}, {limit("match: {metadata.: b}"), false}, {limit("match: {prefix: 86}"), false},
		{limit("match: {prefix: '86'}"), true}, {limit("match: {country: cn}"), false}, {limit("match: {country: [CN, SG]}"), true},
		{"limits: [{name: a, allow: [1/60s]}]", false}, {"limits: [{name: a, per: []}]", false}, {"limits: [{per: [], allow: [1/60s]}]", false},
		{"limits: [{name: A, per: [], allow: [1/60s]}]", false}, {"limits: [{name: a, per: ['prefix:15'], allow: [1/60s]}]", true},
		{"limits: [{name: a, per: ['prefix:16'], allow: [1/60s]}]", false}, {"limits: [{name: a, per: [class, class], allow: [1/60s]}]", false},
		{class("priority: urgent"), true}, {class("priority: low"), false}, {class("expires_after: 72h"), true}, {class("expires_after: 72"), false},
		{class("retries: []"), true}, {class("retries: [5s, 30s]"), true}, {class("retries: 5s"), false}, {class("on_unknown: hold"), true}, {class("on_unknown: drop"), false},
		{class("quiet_hours: {from: '22:00', to: '08:00'}"), true}, {class("quiet_hours: {from: '24:00', to: '08:00'}"), false}, {class("quiet_hours: {from: '22:00'}"), false},
		{provider("pace: [5/1s]"), true}, {provider("pace: [5/calendar-day]"), false}, {provider("concurrency: 1"), true}, {provider("concurrency: 0"), false},
		{provider("lanes: 128"), true}, {provider("lanes: 129"), false}, {provider("smooth: 1"), false}, {provider("legacy_id: 0"), false},
		{provider("price: {currency: CNY, per_segment: 0.045}"), true}, {provider("price: {currency: CNY}"), false}, {provider("price: {per_segment: 1}"), false},
		{provider("price: {currency: CNY, per_message: '0.050'}"), true}, {provider("price: {currency: CNY, per_message: -1}"), false},
		{provider("price: {currency: cny, per_message: 1}"), false}, {provider("timeout: 5s"), true}, {provider("timeout: 5"), false},
		{"providers: [{name: a, type: http, channels: [sms]}]", false}, {"providers: [{name: a, type: http, channels: [sms], settings: {url: 'https://a.example'}}]", true},
		{"providers: [{name: a, type: simulated, channels: []}]", false}, {"providers: [{name: a, channels: [sms]}]", false}, {"providers: [{name: a, type: fax, channels: [sms]}]", false},
		{provider("settings: {a: {b: [1, true, x]}}"), true}, {provider("settings: []"), false},
		{"templates: [{name: a, channel: sms, body: b}]", true}, {"templates: [{name: a, body: b}]", false}, {"templates: [{name: a, channel: sms, body: 5}]", false},
		{"tenants: [{name: a, default_region: CN}]", true}, {"tenants: [{name: a, default_region: China}]", false}, {"tenants: [{name: a, callback: {events: [sent]}}]", false},
		{"tenants: [{name: a, callback: {url: 'https://a.example', secret: '${S}', events: [sent]}}]", true}, {"tenants: [{name: a, callback: {url: 'https://a.example', secret: '${S}', events: [send]}}]", false},
		{"providers: [{name: mail, type: smtp, channels: [email]}]\nalerts: [{name: a, to: {type: email, address: a@b.example}, when: [dlq.record], at_most: 1/10m}]", true},
		{"providers: [{name: mail, type: smtp, channels: [email]}]\nalerts: [{name: a, to: {type: email, address: a@b.example, provider: mail}, when: [dlq.record]}]", true}, {"alerts: [{name: a, to: {type: email, url: a}, when: [dlq.record]}]", false}, {"alerts: [{name: a, to: {type: email, address: a@b.example}, when: [dlq]}]", false},
		{"alerts: [{name: a, to: {type: email, address: a@b.example}, when: [dlq.record], at_most: 1/calendar-day}]", false},
		{"tenants: [{name: a, rates: {write: 5/1s, query: 'bucket 9 refill 1/s', batch: 1/1h, import: 1/1d}, smooth: true}]", true},
		{"tenants: [{name: a, rates: {login: 5/1s}}]", false}, {"tenants: [{name: a, rates: {write: 5/calendar-day}}]", false}, {"tenants: [{name: a, smooth: 1}]", false},
		{"inputs: [{topic: a.b, tenant: default}]", true}, {"inputs: [{topic: 'a b', tenant: default}]", false}, {"inputs: [{topic: a.b}]", false},
		{"limits: []", true}, {"limits: {}", false}, {"limit: []", false}, {"[]", false},
	} {
		_, err := ParsePolicy("policy.yaml", []byte(c.text))
		if (err == nil) != c.good {
			t.Errorf("the parser on %s: %v", c.text, err)
		}
		v, err := asJSON([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if err := schema.Validate(v); (err == nil) != c.good {
			t.Errorf("the schema on %s: %v", c.text, err)
		}
	}
}

// Every field of the types is described in the schema, and every field of the
// schema is one of the types.
func TestSchemaHasTheTypesFields(t *testing.T) {
	root, err := policySchemaTree()
	if err != nil {
		t.Fatal(err)
	}
	var compare func(typ reflect.Type, s *policyField, path string)
	compare = func(typ reflect.Type, s *policyField, path string) {
		s = s.resolve(root)
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if s.Description == "" && typ.Kind() == reflect.Struct {
			t.Errorf("%s has no description", path)
		}
		switch typ {
		case reflect.TypeFor[Window](), reflect.TypeFor[Millis](), reflect.TypeFor[Duration](), reflect.TypeFor[Decimal]():
			return
		}
		switch typ.Kind() {
		case reflect.Slice:
			if typ.Elem().Kind() == reflect.Struct {
				if s.Items == nil {
					t.Errorf("%s is a list in Go and not in the schema", path)
					return
				}
				compare(typ.Elem(), s.Items, path+"[]")
			}
		case reflect.Struct:
			want := map[string]reflect.Type{}
			for i, name := range fieldNames(typ) {
				if typ == reflect.TypeFor[Match]() {
					if name != metadataPrefix+"X" {
						want[name] = reflect.TypeFor[[]string]()
					}
					continue
				}
				want[name] = typ.Field(i).Type
			}
			if typ == reflect.TypeFor[Match]() && len(s.Patterns) != 1 {
				t.Errorf("%s has no metadata.X in the schema", path)
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				p, ok := s.Properties[name]
				if !ok {
					t.Errorf("%s.%s is not in the schema", path, name)
					continue
				}
				if p.Description == "" {
					t.Errorf("%s.%s has no description", path, name)
				}
				compare(want[name], p, path+"."+name)
			}
			for name := range s.Properties {
				if _, ok := want[name]; !ok {
					t.Errorf("%s.%s is in the schema and not in the types", path, name)
				}
			}
		}
	}
	compare(reflect.TypeFor[Policy](), root, "policy")
}

// The schema's words, defaults and bounds are the code's.
func TestSchemaHasTheCodesValues(t *testing.T) {
	root, err := policySchemaTree()
	if err != nil {
		t.Fatal(err)
	}
	field := func(path string) *policyField {
		t.Helper()
		at := root
		for name := range strings.SplitSeq(path, ".") {
			if at.Items != nil {
				at = at.Items.resolve(root)
			}
			if at = at.child(root, name); at == nil {
				t.Fatalf("the schema has no %s", path)
			}
		}
		return at
	}
	for path, want := range map[string]any{
		"limits.timezone":          DefaultTimezone,
		"limits.mode":              ModeEnforce,
		"limits.on_refusal":        RefusalReject,
		"limits.count":             CountMessage,
		"classes.priority":         DefaultPriority,
		"classes.expires_after":    Duration(DefaultExpiresAfter),
		"classes.retries":          defaultRetries,
		"classes.on_unknown":       DefaultOnUnknown,
		"providers.concurrency":    DefaultConcurrency,
		"providers.timeout":        Duration(DefaultTimeout),
		"providers.lanes":          DefaultLanes,
		"routes.to.weight":         DefaultWeight,
		"classes.quiet_hours.then": "defer",
	} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Compact(&got, field(path).Default); err != nil || got.String() != string(b) {
			t.Errorf("%s has the default %s in the schema and %s in the code (%v)", path, got.String(), b, err)
		}
	}
	for path, want := range map[string][]string{
		"limits.mode":        {string(ModeEnforce), string(ModeObserve), string(ModeOff)},
		"limits.on_refusal":  {string(RefusalReject), string(RefusalDefer)},
		"limits.count":       {string(CountMessage), string(CountAttempt), string(CountSegments), string(CountCost)},
		"classes.priority":   texts(Priorities),
		"classes.on_unknown": {string(UnknownResend), string(UnknownHold)},
		"providers.type":     providerTypes,
		"templates.channel":  texts(Channels),
	} {
		if got := texts(words(field(path))); !slices.Equal(got, want) {
			t.Errorf("%s takes %v in the schema and %v in the code", path, got, want)
		}
	}
	for path, want := range map[string][]string{
		"providers.channels":      texts(Channels),
		"tenants.callback.events": texts(Statuses[1:]),
		"keys.scopes":             KeyScopes,
		"alerts.when":             AlertEvents,
	} {
		if got := texts(words(field(path).Items)); !slices.Equal(got, want) {
			t.Errorf("%s takes %v in the schema and %v in the code", path, got, want)
		}
	}
	if got := slices.Sorted(maps.Keys(ProviderTypes)); !slices.Equal(got, slices.Sorted(slices.Values(providerTypes))) {
		t.Errorf("ProviderTypes has %v, its order %v", got, providerTypes)
	}
	for path, want := range map[string]string{"providers.concurrency": fmt.Sprint(MaxConcurrency), "providers.lanes": fmt.Sprint(MaxLanes), "routes.to.weight": "1000000"} {
		if got := field(path).Maximum; got == nil || got.String() != want {
			t.Errorf("%s is at most %v in the schema and %s in the code", path, got, want)
		}
	}
	if got := field("limits.name").Pattern; got != PolicyName {
		t.Errorf("a name is %s in the schema and %s in the code", got, PolicyName)
	}
}

func words(s *policyField) []string {
	var out []string
	for _, v := range s.Enum {
		out = append(out, v.(string))
	}
	return out
}

func TestExplainField(t *testing.T) {
	for _, c := range []struct {
		path string
		want []string
	}{
		{"", []string{"Fields:", "limits"}},
		{"limits", []string{"How many messages pass", "Fields:", "allow", "on_refusal"}},
		{"limits.allow", []string{"Required:  yes", "n/calendar-minute", `["1/60s","5/1h","10/calendar-day"]`, "one bucket"}},
		{"limits[0].mode", []string{"enforce, observe, off", `Default:   "enforce"`, "without a place"}},
		{"limits.match.metadata.order.x", []string{"metadata field"}},
		{"limits.overrides.to", []string{"E.164"}},
		{"classes.expires_after", []string{`"72h"`}},
		{"providers.lanes", []string{"1 to 128", "Default:   1"}},
		{"providers.price.per_segment", []string{"0.045"}},
		{"alerts.to", []string{"the first that carries email", "${SLACK_WEBHOOK_URL}"}},
		{"alerts.at_most", []string{`Default:   "1/10m"`}},
	} {
		got, err := ExplainField(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", c.path, want, got)
			}
		}
	}
	for _, path := range []string{"limit", "limits.alow", "limits.name.x", ".", "limits..", "providers.settings.x"} {
		if got, err := ExplainField(path); err == nil {
			t.Errorf("%q is explained: %s", path, got)
		}
	}
}

// Whatever country the phone library knows can be written in a policy.
func TestCountriesCoverPhoneNumbers(t *testing.T) {
	if !slices.IsSorted(countries) || len(countries) != 252 {
		t.Errorf("%d countries, sorted %v; want 249 of ISO and AC, TA, XK", len(countries), slices.IsSorted(countries))
	}
	for region := range phonenumbers.GetSupportedRegions() {
		if !isCountry(region) {
			t.Errorf("no country %s", region)
		}
	}
}
