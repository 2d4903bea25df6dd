package sink

import (
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// nanp is the calling code that many countries share. Its next three digits,
// the area, name the country.
const nanp = 1

// countries finds the country of a phone number. Most calling codes are one
// country's, which takes no parsing; the areas of +1 are remembered; what is
// left (+7, +44, …) takes the library's 13 µs. Not for concurrent use.
type countries struct {
	areas map[string]string // of +1
}

// of returns the ISO 3166 country of a number in E.164, or "" where it has none.
func (c *countries) of(e164 string) string {
	digits, ok := strings.CutPrefix(e164, "+")
	if !ok || len(digits) < 7 {
		return ""
	}
	code := 0
	for i := range 3 {
		d := digits[i]
		if d < '0' || d > '9' {
			return ""
		}
		code = 10*code + int(d-'0')
		// Calling codes are prefix-free.
		switch regions := phonenumbers.GetRegionCodesForCountryCode(code); {
		case len(regions) == 0:
			continue
		case len(regions) == 1:
			if regions[0] == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY {
				return ""
			}
			return regions[0]
		case code != nanp:
			return regionOf(e164)
		}
		area := digits[:4]
		if known, ok := c.areas[area]; ok {
			return known
		}
		region := regionOf(e164)
		if region != "" { // an impossible number says nothing about its area
			if c.areas == nil {
				c.areas = make(map[string]string)
			}
			c.areas[area] = region
		}
		return region
	}
	return ""
}

func regionOf(e164 string) string {
	n, err := phonenumbers.Parse(e164, "")
	if err != nil {
		return ""
	}
	return phonenumbers.GetRegionCodeForNumber(n)
}
