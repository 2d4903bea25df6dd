package recipient

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nyaruka/phonenumbers"
)

// MetadataVersion names the numbering plans that phone keys were made with. The
// library embeds them and gives them no version of their own, so its own stands
// for them; a test holds it to go.mod.
const MetadataVersion = "nyaruka/phonenumbers v1.8.1"

// maxDigits is the length of the longest number (E.164, section 6.2.1).
const maxDigits = 15

// noRegion is what the library calls a region it does not know: a number that
// begins with + is read without one, so that it means the same to every tenant.
const noRegion = "ZZ"

// phone canonicalises in four steps, each a superset of the one before: what is
// provably canonical already, what was seen lately, the library, a refusal.
func phone(to, defaultRegion string) (Recipient, error) {
	digits, why := clean(to)
	if why != "" {
		return Recipient{}, fail(ReasonPhone, "%s", why)
	}
	if country, ok := plain(digits); ok {
		return Recipient{Key: strings.Clone(digits), Country: country}, nil
	}
	region := noRegion
	if digits[0] != '+' {
		if defaultRegion == "" {
			return Recipient{}, fail(ReasonPhone, "the number has no + and country code: write it with both, such as +44 7700 900800, or set the tenant's default_region in the policy, such as default_region: GB")
		}
		region = defaultRegion
	}
	if r, ok := recent.get(digits, region); ok {
		return r, nil
	}
	r, why := parse(digits, region)
	if why != "" {
		return Recipient{}, fail(ReasonPhone, "%s", why)
	}
	recent.put(digits, region, r)
	return r, nil
}

// Numbers reports whether a number without + can be read in a region, such as CN or
// cn: whether Weir knows a country of this name (ISO 3166-1 alpha-2) that has numbers.
func Numbers(region string) bool {
	return phonenumbers.GetSupportedRegions()[strings.ToUpper(region)]
}

// clean returns a spelling's digits in ASCII, after a + if it has one. It drops
// white space, the punctuation that people write within numbers, and Unicode's
// invisible marks, which come with numbers copied from address books. Letters,
// extensions and lists of numbers are refused rather than guessed at: the
// library would read 1-800-FLOWERS, and would drop what follows "ext.".
func clean(to string) (digits, why string) {
	const notNumber = "the recipient is not a phone number: write it as +8613800000000"
	if len(to) > maxPhone {
		return "", "the recipient is too long to be a phone number"
	}
	if bare(to) {
		return to, ""
	}
	to = strings.TrimSpace(to) // within a number a tab or a line's end stands between two cells or lines: refused
	var b strings.Builder
	b.Grow(len(to))
	for _, r := range to {
		switch {
		case r >= '0' && r <= '9':
			b.WriteByte(byte(r))
		case r == '+' || r == '\uFF0B':
			if b.Len() > 0 {
				return "", notNumber
			}
			b.WriteByte('+')
		case r == utf8.RuneError:
			return "", notNumber
		case strings.ContainsRune(punctuation, r) || unicode.IsSpace(r) && !unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
		case unicode.Is(unicode.Nd, r):
			b.WriteByte('0' + byte(digit(r)))
		default:
			return "", notNumber
		}
	}
	digits = b.String()
	if digits == "" || digits == "+" {
		return "", notNumber
	}
	return digits, ""
}

// punctuation is what stands within a number without meaning: hyphens and
// dashes, dots, brackets and their full-width forms.
const punctuation = "-.()[]\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u30FC\uFF0D\uFF0E\uFF08\uFF09\uFF3B\uFF3D\u2053"

// bare reports whether clean has nothing to do.
func bare(to string) bool {
	i := 0
	if to[0] == '+' {
		i = 1
	}
	if i == len(to) {
		return false
	}
	for ; i < len(to); i++ {
		if to[i] < '0' || to[i] > '9' {
			return false
		}
	}
	return true
}

// digit returns the value of a decimal digit of any script. Unicode assigns them
// in runs of ten that begin with zero, some of which adjoin.
func digit(r rune) rune {
	for _, run := range unicode.Nd.R16 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return (r - rune(run.Lo)) % 10
		}
	}
	for _, run := range unicode.Nd.R32 {
		if rune(run.Lo) <= r && r <= rune(run.Hi) {
			return (r - rune(run.Lo)) % 10
		}
	}
	return 0
}

// parse asks the library. The library strips a trunk prefix once, so that its
// answer to its own answer may differ (+86 0 0 138…): it is asked until it
// stays, or two spellings of one key would be two keys.
func parse(digits, region string) (r Recipient, why string) {
	const impossible = "the phone number is impossible: "
	if strings.Trim(digits, "0") == "" { // the library fails on some of these
		return r, impossible + "it has only zeros"
	}
	for range 4 {
		n, err := phonenumbers.Parse(digits, strings.ToUpper(region))
		switch err {
		case nil:
		case phonenumbers.ErrInvalidCountryCode:
			if region != noRegion {
				return r, "the number has no + and country code, and default_region is no known country"
			}
			return r, impossible + "no country has this code"
		case phonenumbers.ErrNumTooLong:
			return r, impossible + "it is too long"
		default:
			return r, impossible + "it is too short"
		}
		switch phonenumbers.IsPossibleNumberWithReason(n) {
		case phonenumbers.IS_POSSIBLE:
		case phonenumbers.INVALID_COUNTRY_CODE:
			return r, impossible + "no country has this code"
		case phonenumbers.TOO_SHORT:
			return r, impossible + "it is too short for its country"
		case phonenumbers.TOO_LONG:
			return r, impossible + "it is too long for its country"
		case phonenumbers.IS_POSSIBLE_LOCAL_ONLY:
			return r, impossible + "its area code is missing"
		default:
			return r, impossible + "its country has no numbers of this length"
		}
		key := phonenumbers.Format(n, phonenumbers.E164)
		if len(key) > 1+maxDigits {
			return r, impossible + "it is too long"
		}
		if key == digits {
			if !phonenumbers.IsValidNumber(n) && !unassigned(n) {
				return r, impossible + "it is in no range that is assigned, nor as long as a mobile number of its country"
			}
			return Recipient{Key: strings.Clone(key), Country: country(n)}, ""
		}
		digits, region = key, noRegion
	}
	return r, impossible + "it begins with too many prefixes"
}

// country returns where a number belongs, or "" where it belongs to no country
// (+800, +883 …).
func country(n *phonenumbers.PhoneNumber) string {
	c := phonenumbers.GetRegionCodeForNumber(n)
	if c == "" || c == noRegion {
		c = phonenumbers.GetRegionCodeForCountryCode(int(n.GetCountryCode()))
	}
	if len(c) != 2 || c == noRegion {
		return ""
	}
	return c
}
