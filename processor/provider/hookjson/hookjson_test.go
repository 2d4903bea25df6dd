package hookjson_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hookjson"
)

type item struct {
	ID hookjson.Text `json:"id"`
}

func TestEach(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []string
		log        string // what stands in it; empty: nothing is logged
		refused    bool
	}{
		{"one", `[{"id":"a"}]`, []string{"a"}, "", false},
		{"an object", ` {"id":"a"} `, []string{"a"}, "", false},
		{"types", `[{"id":12345678901234567890},{"id":true},{"id":null},{"id":1.50},{}]`, []string{"12345678901234567890", "true", "", "1.50", ""}, "", false},
		{"unknown fields", `[{"new":{"x":[1]},"id":"a"}]`, []string{"a"}, "", false},
		{"one tells nothing", `[{"id":"quiet"},{"id":"a"}]`, []string{"a"}, "", false},
		{"all tell nothing", `[{"id":"quiet"}]`, nil, "", false},
		{"none", `[]`, nil, "", false},
		{"some are not read", `[5,{"id":"a"},{"id":["s3cret"]},null,{"id":"bad"}]`, []string{"a"}, `"unread":4,"of":5,"first":"not an object`, false},
		{"one is not read and one tells nothing", `[{"id":"bad"},{"id":"quiet"}]`, nil, `"unread":1,"of":2,"first":"bad"`, false},
		{"none is read", `["s3cret",{"id":{}}]`, nil, `"unread":2`, true},
		{"an object that is not read", `{"id":["s3cret"]}`, nil, `"unread":1`, true},
		{"half an object", `{"id":`, nil, `"unread":1`, true},
		{"nothing", ``, nil, "", true},
		{"null", `null`, nil, "", true},
		{"text", `"s3cret"`, nil, "", true},
		{"half", `[{"id":"a"}`, nil, "", true},
		{"two", `[][]`, nil, "", true},
		{"a form", `id=a`, nil, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			got, err := hookjson.Each([]byte(tt.body), slog.New(slog.NewJSONHandler(&log, nil)), func(i item) (string, bool, error) {
				if i.ID == "bad" {
					return "", true, errors.New("bad")
				}
				return string(i.ID), i.ID != "quiet", nil
			})
			if !slices.Equal(got, tt.want) || errors.Is(err, provider.ErrHook) != tt.refused || err != nil && !tt.refused {
				t.Errorf("%q, %v", got, err)
			}
			if s := log.String(); !strings.Contains(s, tt.log) || tt.log == "" && s != "" || strings.Contains(s, "s3cret") {
				t.Errorf("it was said: %s", s)
			}
		})
	}
}
