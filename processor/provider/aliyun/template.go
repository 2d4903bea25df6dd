package aliyun

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// template is what a template of the policy says of this provider:
//
//	code    Aliyun's own code of it, such as SMS_1234; required
//	sign    the signature; the provider's sign_name when absent
//	params  which variables it takes: a list of their names, where Aliyun's and the
//	        policy's are the same, or a mapping from Aliyun's to the policy's; all
//	        of the message's when absent
type template struct {
	code, sign string
	all        bool              // params are absent
	params     map[string]string // Aliyun's name to the policy's
}

func checkTemplate(own map[string]any) error {
	_, err := readTemplate(own)
	return err
}

func readTemplate(own map[string]any) (template, error) {
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if k != "code" && k != "sign" && k != "params" {
			return template{}, fmt.Errorf("%s is not known: aliyun-sms takes code, sign, params", k)
		}
	}
	var t template
	var ok bool
	if t.code, ok = own["code"].(string); !ok || t.code == "" {
		return template{}, errors.New("code is missing: write Aliyun's code of the template, such as SMS_1234")
	}
	if strings.ContainsAny(t.code, " \t\r\n") {
		return template{}, errors.New("code holds white space, which Aliyun refuses")
	}
	if v, there := own["sign"]; there {
		if t.sign, ok = v.(string); !ok || t.sign == "" {
			return template{}, errors.New("sign must be the text of a signature")
		}
	}
	wrong := errors.New("params must be a list of variables' names, or a mapping from Aliyun's name of each to the policy's")
	switch v := own["params"].(type) {
	case nil:
		if _, there := own["params"]; there {
			return template{}, wrong
		}
		t.all = true
	case []any:
		t.params = make(map[string]string, len(v))
		for _, n := range v {
			name, ok := n.(string)
			if !ok || name == "" {
				return template{}, wrong
			}
			if _, twice := t.params[name]; twice {
				return template{}, fmt.Errorf("params has %s twice", name)
			}
			t.params[name] = name
		}
	case map[string]any:
		t.params = make(map[string]string, len(v))
		for theirs, n := range v {
			name, ok := n.(string)
			if !ok || name == "" || theirs == "" {
				return template{}, wrong
			}
			t.params[theirs] = name
		}
	default:
		return template{}, wrong
	}
	return t, nil
}

// values are the parameters with their values, or the first variable, by Aliyun's
// name of it, that vars lacks.
func (t template) values(vars map[string]string) (values map[string]string, missing string) {
	if t.all {
		return vars, ""
	}
	values = make(map[string]string, len(t.params))
	for _, theirs := range slices.Sorted(maps.Keys(t.params)) {
		v, ok := vars[t.params[theirs]]
		if !ok {
			return nil, t.params[theirs]
		}
		values[theirs] = v
	}
	return values, ""
}
