package tencent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// template is what a template of the policy says of this provider:
//
//	id      Tencent's own id of it, such as "449739"; required
//	sign    the signature; the provider's sign_name when absent
//	params  the names of the variables that it takes, in Tencent's order ({1}, {2}…);
//	        none when absent
type template struct {
	id, sign string
	params   []string
}

func checkTemplate(own map[string]any) error {
	_, err := readTemplate(own)
	return err
}

func readTemplate(own map[string]any) (template, error) {
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if k != "id" && k != "sign" && k != "params" {
			return template{}, fmt.Errorf("%s is not known: tencent-sms takes id, sign, params", k)
		}
	}
	var t template
	v, there := own["id"]
	if !there {
		return template{}, errors.New("id is missing: write Tencent's id of the template, such as \"449739\"")
	}
	var ok bool
	if t.id, ok = v.(string); !ok || t.id == "" || strings.ContainsAny(t.id, " \t\r\n") {
		return template{}, errors.New("id must be text without white space, in quotes, such as \"449739\"")
	}
	if v, there := own["sign"]; there {
		if t.sign, ok = v.(string); !ok || t.sign == "" {
			return template{}, errors.New("sign must be the text of a signature")
		}
	}
	if v, there := own["params"]; there {
		list, ok := v.([]any)
		if !ok {
			return template{}, errors.New("params must be a list of variables' names, in the order of Tencent's parameters")
		}
		for _, n := range list {
			name, ok := n.(string)
			if !ok || name == "" {
				return template{}, errors.New("params must be a list of variables' names, in the order of Tencent's parameters")
			}
			t.params = append(t.params, name) // one may stand twice: {1} and {3} may be the same
		}
	}
	return t, nil
}
