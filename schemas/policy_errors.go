package schemas

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is where a value stands in a file, both from 1; zero when there is
// no file, as for a policy that came as JSON.
type Position struct {
	Line, Column int
}

// PolicyError is one mistake in a policy.
type PolicyError struct {
	File         string
	Line, Column int
	Path         string // limits[0].allow[1]; empty for the file as a whole
	Message      string // what is allowed, with an example; never a secret's value
}

func (e PolicyError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	} else if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Code is what programs branch on: ReasonUnknownField, ReasonRequired, or
// ReasonBadValue for all else.
func (e PolicyError) Code() string {
	for _, c := range []struct{ begins, code string }{
		{"there is no field", ReasonUnknownField}, {"is not a setting", ReasonUnknownField}, {"is missing", ReasonRequired},
	} {
		if strings.HasPrefix(e.Message, c.begins) {
			return c.code
		}
	}
	return ReasonBadValue
}

// PolicyErrors are all mistakes of a policy, by position. Error gives one line
// for each.
type PolicyErrors []PolicyError

func (e PolicyErrors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// maxPolicyErrors bounds what a hostile file can make Weir print.
const maxPolicyErrors = 1000

// sorted returns the errors by position, or nil if there are none, so that a
// nil error stays nil.
func (e PolicyErrors) sorted() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b PolicyError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(e) > maxPolicyErrors {
		last := e[maxPolicyErrors-1]
		last.Path, last.Message = "", fmt.Sprintf("and %d more mistakes from here on", len(e)-maxPolicyErrors+1)
		e = append(e[:maxPolicyErrors-1:maxPolicyErrors-1], last)
	}
	return e
}

// covers reports whether what stands at path could not be read, or something
// within or around it: it is told once.
func (e PolicyErrors) covers(path string) bool {
	return slices.ContainsFunc(e, func(broken PolicyError) bool {
		return broken.Path == "" || within(broken.Path, path) || within(path, broken.Path)
	})
}

// childPath is the path of a mapping's value.
func childPath(path, key string) string {
	switch {
	case strings.ContainsAny(key, ".[]\" \n\t") && !strings.HasPrefix(key, metadataPrefix):
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// TemplateProviderPath is the path of what the i-th template says of a provider.
func TemplateProviderPath(i int, provider string) string {
	return childPath(itemPath("templates", i)+".providers", provider)
}

// ProviderSettingPath is the path of a setting of the i-th provider, such as url or
// sign.secret.
func ProviderSettingPath(i int, setting string) string {
	return itemPath("providers", i) + ".settings." + setting
}

// itemPath is the path of a list's value.
func itemPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// within reports whether path is outer or stands under it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nearest returns the candidate that word was probably meant to be, if any is
// within two edits.
func nearest(word string, candidates []string) string {
	best, distance := "", 3
	for _, c := range candidates {
		if d := edits(word, c); d < distance && d < len(c) {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance, of words too long to matter a large one.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// orList writes "a, b or c".
func orList[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
