package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
)

// matchFields are Match's fields by their names in a file, metadata apart.
func (m *Match) matchFields() []struct {
	name   string
	values *[]string
} {
	return []struct {
		name   string
		values *[]string
	}{
		{"tenant", &m.Tenant}, {"channel", &m.Channel}, {"class", &m.Class}, {"template", &m.Template},
		{"provider", &m.Provider}, {"country", &m.Country}, {"prefix", &m.Prefix},
	}
}

// field returns where the values of a match's field go; a metadata.X field is
// given as its key.
func (m *Match) field(name string) (values *[]string, metadata string, ok bool) {
	for _, f := range m.matchFields() {
		if f.name == name {
			return f.values, "", true
		}
	}
	key, ok := strings.CutPrefix(name, metadataPrefix)
	return nil, key, ok && key != ""
}

const metadataPrefix = "metadata."

// MarshalJSON writes the fields that are set, each as a list, metadata flat.
func (m Match) MarshalJSON() ([]byte, error) {
	flat := map[string][]string{}
	for _, f := range m.matchFields() {
		if *f.values != nil {
			flat[f.name] = *f.values
		}
	}
	for k, v := range m.Metadata {
		flat[metadataPrefix+k] = v
	}
	return json.Marshal(flat)
}

// UnmarshalJSON reads fields that are a value or a list. It refuses a field it
// does not know, because to ignore one is to match more than was asked for.
func (m *Match) UnmarshalJSON(b []byte) error {
	var flat map[string]json.RawMessage
	if err := json.Unmarshal(b, &flat); err != nil {
		return fmt.Errorf("read match: %w", err)
	}
	*m = Match{}
	for name, raw := range flat {
		values, key, ok := m.field(name)
		if !ok {
			return fmt.Errorf("read match: unknown field %q", name)
		}
		var list []string
		if len(raw) > 0 && raw[0] == '"' {
			list = make([]string, 1)
			if err := json.Unmarshal(raw, &list[0]); err != nil {
				return fmt.Errorf("read match %s: %w", name, err)
			}
		} else if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("read match %s: %w", name, err)
		}
		if values != nil {
			*values = list
			continue
		}
		if m.Metadata == nil {
			m.Metadata = map[string][]string{}
		}
		m.Metadata[key] = list
	}
	return nil
}

// UnmarshalJSON gives a target without a weight DefaultWeight.
func (t *Target) UnmarshalJSON(b []byte) error {
	type plain Target // without this method
	v := plain{Weight: DefaultWeight}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*t = Target(v)
	return nil
}
