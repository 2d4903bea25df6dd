package http

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/weirhq/weir/processor/provider"
)

// pointer is a JSON pointer (RFC 6901): where something stands in an answer.
type pointer []string

// answerAt is where an answer has the provider's id and its code.
type answerAt struct{ id, code pointer }

// readAnswer reads settings.answer.
func readAnswer(in *provider.Settings) answerAt {
	at := answerAt{id: pointer{"id"}, code: pointer{"code"}}
	all := in.Under("answer", "{id: /data/id}")
	if all == nil {
		return at
	}
	at.id, at.code = readPointer(all, "id", at.id), readPointer(all, "code", at.code)
	return at
}

func readPointer(in *provider.Settings, name string, otherwise pointer) pointer {
	v := in.Any(name)
	if v == nil {
		return otherwise
	}
	text, _ := v.(string)
	p, ok := parsePointer(text)
	if !ok {
		in.Fail(name, "must be a JSON pointer, such as /data/id")
	}
	return p
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
