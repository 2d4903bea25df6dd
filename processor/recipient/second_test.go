package recipient

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
	"github.com/weirhq/weir/deploy/local"
	"github.com/weirhq/weir/schemas"
)

// TestSecondPhone compares keys, countries and refusals of phone numbers, and whether they
// are in an assigned range, with testdata/Second.java, which reads them with Google's own library, of the version whose
// numbering plans the Go library has.
func TestSecondPhone(t *testing.T) {
	numbers, flags := 20_000, []string{"-XX:TieredStopAtLevel=1"} // which starts sooner
	if os.Getenv("WEIR_CHAOS") != "" {
		numbers, flags = 5_000_000, nil
	}
	lib, err := local.EnsureLibphonenumber(t.Context(), "", os.Stderr)
	if local.IsMissingTool(err) && os.Getenv("CI") == "" {
		t.Skipf("NOT COMPARED with Google's libphonenumber: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	java, err := local.Java(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	rnd := rand.New(rand.NewPCG(15, 1))
	draw := newNumbers()
	type spelling struct{ region, text string }
	all := make([]spelling, numbers)
	var lines bytes.Buffer
	for i := range all {
		region, text := draw.number(rnd)
		all[i] = spelling{region, text}
		if region == "" {
			region = "-"
		}
		fmt.Fprintln(&lines, region, base64.StdEncoding.EncodeToString([]byte(text)))
	}
	second := exec.CommandContext(t.Context(), java, append(flags, "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-cp", filepath.Join(lib, "*"), "testdata/Second.java")...)
	second.Stdin, second.Stderr = &lines, os.Stderr
	out, err := second.Output()
	if err != nil {
		t.Fatal(err)
	}

	answers := bufio.NewScanner(bytes.NewReader(out))
	accepted, countries, differences := 0, map[string]bool{}, 0
	for _, s := range all {
		if !answers.Scan() {
			t.Fatal("the second reader answers too little")
		}
		got := "-"
		if r, err := Canonical(schemas.ChannelSMS, s.text, s.region); err == nil {
			accepted++
			countries[r.Country] = true
			got = r.Key + " " + r.Country
			if r.Country == "" {
				got += "-"
			}
			if n, err := phonenumbers.Parse(r.Key, noRegion); err != nil || !phonenumbers.IsValidNumber(n) {
				got += " unassigned"
			}
		} else if e := (*Error)(nil); !errors.As(err, &e) || e.Detail == "" {
			t.Fatalf("%q: %v", s.text, err)
		}
		if got != answers.Text() {
			if differences++; differences <= 50 {
				t.Errorf("%q in %q: %s; Google's library says %s", s.text, s.region, got, answers.Text())
			}
		}
	}
	if accepted < numbers/5 || accepted > numbers*9/10 || len(countries) < 200 {
		t.Errorf("%d of %d are accepted, of %d countries", accepted, numbers, len(countries))
	}
	t.Logf("%d spellings, %d accepted, %d countries, %d differences from libphonenumber %s", numbers, accepted, len(countries), differences, local.LibphonenumberVersion)
}

// numbers draws spellings of phone numbers from the library's plans.
type numbers struct {
	plans    []*phonenumbers.PhoneMetadata
	codes    []int
	patterns map[string]*syntax.Regexp
}

func newNumbers() *numbers {
	n := &numbers{patterns: map[string]*syntax.Regexp{}}
	for _, id := range slices.Sorted(maps.Keys(metadata())) {
		n.plans = append(n.plans, metadata()[id])
	}
	n.codes = slices.Sorted(maps.Keys(phonenumbers.GetSupportedCallingCodes()))
	return n
}

// number draws a number of a region's plan, or digits under its calling code, as they are
// written abroad, at home, with wrong prefixes, in other characters, or with an edit.
func (n *numbers) number(rnd *rand.Rand) (region, text string) {
	digits := func(most int) string {
		var b strings.Builder
		for range rnd.IntN(most + 1) {
			b.WriteByte('0' + byte(rnd.IntN(10)))
		}
		return b.String()
	}
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	plan := n.plans[rnd.IntN(len(n.plans))]
	if rnd.IntN(20) == 0 {
		return pick("", plan.GetId()), pick("+", "", "00", "0") + digits(18)
	}
	types := []*phonenumbers.PhoneNumberDesc{plan.GetMobile(), plan.GetFixedLine(), plan.GetMobile(), plan.GetGeneralDesc(), plan.GetPremiumRate(), plan.GetTollFree(),
		plan.GetSharedCost(), plan.GetVoip(), plan.GetPersonalNumber(), plan.GetPager(), plan.GetUan(), plan.GetVoicemail()}
	of := types[rnd.IntN(len(types))].GetNationalNumberPattern()
	if of == "" || of == none {
		of = plan.GetGeneralDesc().GetNationalNumberPattern()
	}
	national := n.matching(rnd, of)
	switch rnd.IntN(8) {
	case 0:
		national = digits(14)
	case 1:
		if national != "" {
			national = national[:rnd.IntN(len(national))] + digits(4)
		}
	}
	code := fmt.Sprint(plan.GetCountryCode())
	abroad := func() string {
		if rnd.IntN(30) == 0 {
			code = fmt.Sprint(n.codes[rnd.IntN(len(n.codes))])
		}
		return code + pick("", "", "", "", "0", plan.GetNationalPrefix(), code) + national
	}
	switch rnd.IntN(3) {
	case 0: // at home
		region = plan.GetId()
		text = pick("", "", plan.GetNationalPrefix(), "0", "00", n.matching(rnd, plan.GetNationalPrefixForParsing()), code) + national
	case 1: // from home to abroad
		at := n.plans[rnd.IntN(len(n.plans))]
		region = at.GetId()
		text = n.matching(rnd, at.GetInternationalPrefix()) + abroad()
	default:
		region = pick("", "", "", "CN", "zz", plan.GetId())
		text = "+" + abroad()
	}
	if rnd.IntN(40) == 0 {
		region = pick("", "AQ", "001", "us", "XX")
	}
	if rnd.IntN(4) == 0 {
		text = spell(rnd, text)
	}
	return region, text
}

// matching draws a text that a pattern of the library matches.
func (n *numbers) matching(rnd *rand.Rand, pattern string) string {
	tree, ok := n.patterns[pattern]
	if !ok {
		tree, _ = syntax.Parse(pattern, syntax.Perl)
		n.patterns[pattern] = tree
	}
	var b strings.Builder
	var walk func(r *syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		times := 1
		switch r.Op {
		case syntax.OpLiteral:
			b.WriteString(string(r.Rune))
			return
		case syntax.OpCharClass:
			i := 2 * rnd.IntN(len(r.Rune)/2)
			b.WriteRune(r.Rune[i] + rnd.Int32N(r.Rune[i+1]-r.Rune[i]+1))
			return
		case syntax.OpAlternate:
			walk(r.Sub[rnd.IntN(len(r.Sub))])
			return
		case syntax.OpQuest:
			times = rnd.IntN(2)
		case syntax.OpStar, syntax.OpPlus:
			times = 1 + rnd.IntN(2)
		case syntax.OpRepeat:
			times = r.Min + rnd.IntN(max(r.Max, r.Min+1)-r.Min+1)
		}
		for range times {
			for _, sub := range r.Sub {
				walk(sub)
			}
		}
	}
	walk(tree)
	return b.String()
}

// spell writes a number with other characters between and instead of its digits, and now
// and then with what no number has.
func spell(rnd *rand.Rand, text string) string {
	between := []rune("  -.()[]\u00a0\u200b\u2011\u2013\u2212\u3000\u30fc\uff0d\uff08\uff09\u202d\ufeff")
	wrong := []string{";ext=5", " ext. 12", "x7", "#", "*", ",", "/", "+", "\uff0b", "\t", "\n", "a", "ABC", "~", "\u00b7", "\u2044", "\ufffd", "\x00", "\u00b2", "\u2167", " or 5"}
	zeros := []rune{'\uff10', '\u0660', '\u06f0', '\u0966', '\u09e6', '\u0e50', '\U0001d7ce'}
	zero := zeros[rnd.IntN(len(zeros))]
	var b strings.Builder
	for _, r := range text {
		for rnd.IntN(5) == 0 {
			b.WriteRune(between[rnd.IntN(len(between))])
		}
		switch {
		case rnd.IntN(150) == 0:
			b.WriteString(wrong[rnd.IntN(len(wrong))])
		case r == '+' && rnd.IntN(3) == 0:
			r = '\uff0b'
		case '0' <= r && r <= '9' && rnd.IntN(4) == 0:
			r += zero - '0'
		}
		b.WriteRune(r)
	}
	switch rnd.IntN(10) {
	case 0:
		b.WriteString(wrong[rnd.IntN(len(wrong))])
	case 1:
		b.WriteString([]string{" ", "\t", "\n", "\u00a0", "\u2003", "\u0085", "\r\n"}[rnd.IntN(7)])
	}
	return b.String()
}
