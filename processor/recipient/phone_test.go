package recipient

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/nyaruka/phonenumbers"
	"github.com/weirhq/weir/schemas"
)

// The long run compares a million spellings: go test -spellings=1000000.
var spellings = flag.Int("spellings", 8_000, "generated spellings to compare with the library")

func TestPhone(t *testing.T) {
	const one = "+8613800000000"
	for _, tt := range []struct{ to, region, key, country string }{
		{"+8613800000000", "", one, "CN"},
		{"+86 0 138 0000 0000", "", one, "CN"},
		{"+86 (0)138-0000-0000", "", one, "CN"},
		{"+86 0 0 138 0000 0000", "", one, "CN"},
		{"+86 138 0000 0000", "US", one, "CN"},
		{"138 0000 0000", "CN", one, "CN"},
		{"138 0000 0000", "cn", one, "CN"},
		{"0138 0000 0000", "CN", one, "CN"},
		{"86 138 0000 0000", "CN", one, "CN"},
		{"0086 138 0000 0000", "CN", one, "CN"},
		{"011 86 138 0000 0000", "US", one, "CN"},
		{"＋８６　１３８００００００００", "", one, "CN"},
		{"+٨٦١٣٨٠٠٠٠٠٠٠٠", "", one, "CN"},
		{"+86𝟏𝟑𝟖𝟎𝟎𝟎𝟎𝟎𝟎𝟎𝟎", "", one, "CN"},
		{"\u202d+86 138\u00a00000\u200b0000\u202c", "", one, "CN"},
		{"  (+86) 138.0000.0000\n", "", one, "CN"},
		{"+86-138‑0000–0000", "", one, "CN"},
		{"+44 (0)20 7946 0958", "", "+442079460958", "GB"},
		{"020 7946 0958", "GB", "+442079460958", "GB"},
		{"+39 02 1234 5678", "", "+390212345678", "IT"}, // Italy's zero is part of the number
		{"(415) 555-2671", "US", "+14155552671", "US"},
		{"1 415 555 2671", "US", "+14155552671", "US"},
		{"+1 416 555 0100", "", "+14165550100", "CA"},
		{"+7 701 000 0000", "", "+77010000000", "KZ"},
		{"+7 495 123 45 67", "", "+74951234567", "RU"},
		{"8 495 123 45 67", "RU", "+74951234567", "RU"},
		{"+54 9 11 2345 6789", "", "+5491123456789", "AR"},
		{"+800 1234 5678", "", "+80012345678", ""}, // of no country
		{"+65 9123 4567", "", "+6591234567", "SG"},
		// In no range that the library knows, and not refused for that.
		{"+86 199 9999 9999", "", "+8619999999999", "CN"},
		{"+86 129 9999 9999", "", "+8612999999999", "CN"},
		{"+1 555 555 5555", "", "+15555555555", "US"},
		{"+15005550006", "", "+15005550006", "US"},
	} {
		t.Run(tt.to+" "+tt.region, func(t *testing.T) {
			for range 2 { // from the library, and from the cache
				for _, c := range []schemas.Channel{schemas.ChannelSMS, schemas.ChannelVoice} {
					r, err := Canonical(c, tt.to, tt.region)
					if err != nil || r.Key != tt.key || r.Country != tt.country {
						t.Errorf("got %+v, %v, want %s %s", r, err, tt.key, tt.country)
					}
				}
			}
		})
	}
}

func TestBadPhone(t *testing.T) {
	for _, tt := range []struct{ name, to, region, says string }{
		{"too short for its country", "+86 138 0000", "", "as long as a mobile"},
		{"shorter than any of its country", "+86 138", "", "too short"},
		{"too long for its country", "+86 138 0000 0000 00", "", "too long"},
		{"of a code without mobiles", "+878 0108 6471 3084", "", "as long as a mobile"}, // +878 10… alone is assigned
		{"of a code without mobiles of this length", "+290 1151", "", "as long as a mobile"},
		{"no such code", "+999 1234 5678", "", "no country"},
		{"no such code, zero", "+0 138 0000 0000", "", "no country"},
		{"no region", "138 0000 0000", "", "default_region"},
		{"no region: what to add", "07700900800", "", "write it with both, such as +44"},
		{"unknown region", "138 0000 0000", "XX", "default_region"},
		{"area code missing", "555-2671", "US", "area code"},
		{"more than any number", "+86123456789012345678", "", "too long"},
		{"letters", "1-800-FLOWERS", "US", "not a phone number"},
		{"an extension", "+1 415 555 2671 ext. 5", "", "not a phone number"},
		{"an extension by x", "+1 415 555 2671x5", "", "not a phone number"},
		{"an extension by comma", "+1 415 555 2671,5", "", "not a phone number"},
		{"a URI", "tel:+14155552671", "", "not a phone number"},
		{"a service code", "*100#", "CN", "not a phone number"},
		{"two numbers", "13800000000/13900000000", "CN", "not a phone number"},
		{"two lines", "13800000000\n13900000000", "CN", "not a phone number"},
		{"two plus signs", "++8613800000000", "", "not a phone number"},
		{"plus in the middle", "86+13800000000", "CN", "not a phone number"},
		{"an address", "bob@example.com", "CN", "not a phone number"},
		{"only a plus", "+", "", "not a phone number"},
		{"only spaces", "   ", "CN", "not a phone number"},
		{"only punctuation", "(-)", "CN", "not a phone number"},
		{"one digit", "1", "CN", "too short"},
		{"a plus and a digit", "+8", "", "too short"},
		{"zeros", "0000000000", "CN", "only zeros"},
		{"zeros and a plus", "+0000000000", "", ""},
		{"not UTF-8", "+86138\xff0000000", "", "not a phone number"},
		{"a null byte", "+86138\x000000000", "", "not a phone number"},
		{"very long", strings.Repeat("1", 129), "CN", "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Canonical(schemas.ChannelSMS, tt.to, tt.region)
			var e *Error
			if !errors.As(err, &e) || e.Reason != ReasonPhone || e.Code() != "bad_recipient_phone" || r != (Recipient{}) {
				t.Fatalf("got %+v, %v", r, err)
			}
			if !strings.Contains(e.Detail, tt.says) {
				t.Errorf("says %q, want %q in it", e.Detail, tt.says)
			}
			if len(tt.to) > 8 && strings.Contains(e.Detail, tt.to) {
				t.Errorf("%q holds the recipient", e.Detail)
			}
		})
	}
}

// library is what the library alone says of a number that begins with +.
func library(text string) (Recipient, error) {
	n, err := phonenumbers.Parse(text, "ZZ")
	if err != nil {
		return Recipient{}, err
	}
	if why := phonenumbers.IsPossibleNumberWithReason(n); why != phonenumbers.IS_POSSIBLE {
		return Recipient{}, fmt.Errorf("impossible: %d", why)
	}
	return Recipient{Key: phonenumbers.Format(n, phonenumbers.E164), Country: country(n)}, nil
}

// A number written in any way has the key and the country that the library gives
// its E.164 form; and a key's key is itself.
func TestNumbers(t *testing.T) {
	for region, want := range map[string]bool{"CN": true, "cn": true, "GB": true, "XX": false, "UK": false, "ZZ": false, "AQ": false, "001": false, "": false, "China": false} {
		if got := Numbers(region); got != want {
			t.Errorf("%q: %v, want %v", region, got, want)
		}
	}
}

func TestSpellings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, uint64(*spellings)))
	var regions []string
	for r := range phonenumbers.GetSupportedRegions() {
		if ex := phonenumbers.GetExampleNumberForType(r, phonenumbers.MOBILE); ex != nil && phonenumbers.IsValidNumber(ex) {
			regions = append(regions, r)
		}
	}
	if len(regions) < 150 {
		t.Fatalf("only %d regions have example numbers", len(regions))
	}
	tried := 0
	for tried < *spellings {
		region := regions[rng.IntN(len(regions))]
		if rng.IntN(3) == 0 {
			region = "CN"
		}
		ex := phonenumbers.GetExampleNumberForType(region, phonenumbers.MOBILE)
		e164 := []byte(phonenumbers.Format(ex, phonenumbers.E164))
		for i := len(e164) - 4; i < len(e164); i++ {
			e164[i] = '0' + byte(rng.IntN(10))
		}
		n, err := phonenumbers.Parse(string(e164), "ZZ")
		if err != nil || !phonenumbers.IsValidNumber(n) {
			continue
		}
		tried++
		want := Recipient{Key: string(e164), Country: phonenumbers.GetRegionCodeForNumber(n)}
		text, in := string(e164), ""
		switch rng.IntN(5) {
		case 0:
			text = phonenumbers.Format(n, phonenumbers.INTERNATIONAL)
		case 1: // as it is written at home
			text, in = phonenumbers.Format(n, phonenumbers.NATIONAL), want.Country
			if back, err := phonenumbers.Parse(text, in); err != nil || phonenumbers.Format(back, phonenumbers.E164) != want.Key {
				continue // the library does not read its own national form
			}
		case 2:
			if region == "CN" { // a trunk zero where none belongs
				text = "+86" + strings.Repeat("0", 1+rng.IntN(2)) + text[3:]
			}
		case 3:
			if region == "CN" {
				text, in = "0086"+text[3:], "CN"
			}
		}
		text = garnish(rng, text)
		got, err := Canonical(schemas.ChannelSMS, text, in)
		if err != nil || got != want {
			t.Fatalf("%q in %q: got %+v, %v, want %+v", text, in, got, err, want)
		}
		again, err := Canonical(schemas.ChannelSMS, got.Key, "")
		if err != nil || again != got {
			t.Fatalf("%s: its key is %+v, %v", got.Key, again, err)
		}
	}
}

// garnish writes a number as people do.
func garnish(rng *rand.Rand, text string) string {
	if rng.IntN(3) == 0 {
		return text
	}
	seps := []rune(" -.()\u00a0\u2011\u200b\u3000")
	var b strings.Builder
	for i, r := range text {
		if i > 0 && rng.IntN(6) == 0 {
			b.WriteRune(seps[rng.IntN(len(seps))])
		}
		if r >= '0' && r <= '9' && rng.IntN(20) == 0 {
			r += '０' - '0'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Any text either has a key whose key is itself, or is refused with a reason,
// the same at the second asking; nothing panics.
func FuzzPhone(f *testing.F) {
	for _, s := range []string{"+8613800000000", "+86 0 138 0000 0000", "138 0000 0000", "0000", "+", "+8617900138000", "+39 06 1", "+5402345678", "+521", "00862", "+00"} {
		f.Add(s, "CN")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, region string) {
		fixpoint(t, schemas.ChannelSMS, text, region)
	})
}

func fixpoint(t interface {
	Helper()
	Fatalf(string, ...any)
}, c schemas.Channel, text, region string) {
	t.Helper()
	r, err := Canonical(c, text, region)
	r2, err2 := Canonical(c, text, region)
	if r != r2 || (err == nil) != (err2 == nil) {
		t.Fatalf("%q: %+v %v, then %+v %v", text, r, err, r2, err2)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Reason == "" || e.Detail == "" {
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	again, err := Canonical(c, r.Key, "")
	if err != nil || again != (Recipient{Key: r.Key, Country: r.Country}) {
		t.Fatalf("%q: key %+v, whose key is %+v, %v", text, r, again, err)
	}
}

// Random digits, most of which are no valid number, in every region.
func TestKeysAreStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	regions := []string{""}
	for r := range phonenumbers.GetSupportedRegions() {
		regions = append(regions, r)
	}
	accepted := 0
	for range *spellings / 2 {
		var b strings.Builder
		if rng.IntN(2) == 0 {
			b.WriteByte('+')
		}
		for range rng.IntN(17) {
			b.WriteByte("0123456789001"[rng.IntN(13)])
		}
		region := regions[rng.IntN(len(regions))]
		fixpoint(t, schemas.ChannelSMS, b.String(), region)
		if _, err := Canonical(schemas.ChannelSMS, b.String(), region); err == nil {
			accepted++
		}
	}
	if accepted < *spellings/100 {
		t.Errorf("only %d were accepted: the test compares nothing", accepted)
	}
}

// A cache that takes one number for another would send to the wrong person.
func TestCacheCollisions(t *testing.T) {
	c := &cache{seed: recent.seed}
	want := Recipient{Key: "+1", Country: "US"}
	c.put("1", "US", want)
	if got, ok := c.get("1", "US"); !ok || got != want {
		t.Fatal("lost")
	}
	for i := range 300_000 {
		if _, ok := c.get(fmt.Sprint(i+10), "US"); ok {
			t.Fatalf("%d is taken for 1", i)
		}
	}
	for _, region := range []string{"CA", "", "USA"} {
		c.slot("1", region).Store(c.slot("1", "US").Load())
		if _, ok := c.get("1", region); ok {
			t.Fatalf("1 in %q is taken for 1 in US", region)
		}
	}
}

func TestDigitsOfEveryScript(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.Is(unicode.Nd, r) {
			continue
		}
		if want := phonenumbers.NormalizeDigitsOnly(string(r)); len(want) == 1 && want[0] <= '9' && want != string('0'+digit(r)) {
			t.Errorf("%U is %d, the library says %q", r, digit(r), want)
		}
		if next := r + 1; unicode.Is(unicode.Nd, next) && digit(next) != (digit(r)+1)%10 {
			t.Errorf("%U is %d and %U %d", r, digit(r), next, digit(next))
		}
	}
}

// MetadataVersion stands in the meta record of every partition: with another
// library, keys may be others.
func TestMetadataVersionIsTheModule(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`github\.com/(nyaruka/phonenumbers v\S+)`).FindSubmatch(mod)
	if m == nil || string(m[1]) != MetadataVersion {
		t.Errorf("go.mod has %q, MetadataVersion is %q", m, MetadataVersion)
	}
}

func BenchmarkPhone(b *testing.B) {
	for _, bb := range []struct{ name, to string }{
		{"CN", "+8613800000000"}, {"US", "+14155552671"}, {"GB", "+447911123456"}, {"IT", "+393123456789"}, {"BR", "+5511961234567"},
		{"cached", "+86 138 0000 0000"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			if _, err := Canonical(schemas.ChannelSMS, bb.to, ""); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Canonical(schemas.ChannelSMS, bb.to, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			if _, why := parse("+8613800000000", noRegion); why != "" {
				b.Fatal(why)
			}
		}
	})
}
