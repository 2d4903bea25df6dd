package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901): where something stands in an answer.
type pointer []string

// answerAt is where an answer has the provider's id and its code.
type answerAt struct{ id, code pointer }

// readAnswer reads settings.answer.
func readAnswer(v any) (answerAt, error) {
	at := answerAt{id: pointer{"id"}, code: pointer{"code"}}
	if v == nil {
		return at, nil
	}
	in, ok := v.(map[string]any)
	if !ok {
		return at, errors.New("settings.answer must be a mapping of id and code to JSON pointers, such as {id: /data/id}")
	}
	if err := only("settings.answer", in, "id", "code"); err != nil {
		return at, err
	}
	for name, into := range map[string]*pointer{"id": &at.id, "code": &at.code} {
		if in[name] == nil {
			continue
		}
		text, _ := in[name].(string)
		p, ok := parsePointer(text)
		if !ok {
			return at, fmt.Errorf("settings.answer.%s must be a JSON pointer, such as /data/id", name)
		}
		*into = p
	}
	return at, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func parsePointer(text string) (pointer, bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || strings.HasSuffix(text, "~") {
		return nil, false
	}
	p := pointer(strings.Split(rest, "/"))
	for i := range p {
		for j := range p[i] {
			if p[i][j] == '~' && !strings.HasPrefix(p[i][j:], "~0") && !strings.HasPrefix(p[i][j:], "~1") {
				return nil, false
			}
		}
		p[i] = unescape.Replace(p[i])
	}
	return p, true
}

// in returns the text or number at p, and nothing for the rest.
func (p pointer) in(body []byte) string {
	for _, name := range p {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(body, &object) == nil:
			body = object[name]
		case json.Unmarshal(body, &list) == nil:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(list) || strconv.Itoa(n) != name {
				return ""
			}
			body = list[n]
		default:
			return ""
		}
	}
	return scalar(body)
}
