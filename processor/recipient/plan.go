package recipient

import (
	"slices"
	"sync"

	"github.com/nyaruka/phonenumbers"
)

// none is the library's pattern of a kind of numbers that a plan does not have.
const none = "NA"

// mobileLengths are the lengths of mobile numbers, without the calling code, by
// calling code: all that the library knows of a plan's future. Codes without mobile
// numbers, such as +800, have none.
var mobileLengths = sync.OnceValue(func() map[int32][]int32 {
	lengths := map[int32][]int32{}
	for _, m := range metadata() {
		if p := m.GetMobile().GetNationalNumberPattern(); p == "" || p == none {
			continue // the library leaves the lengths empty here, too
		}
		own := m.GetMobile().GetPossibleLength()
		if len(own) == 0 { // as in libphonenumber: none of its own are the plan's
			own = m.GetGeneralDesc().GetPossibleLength()
		}
		for _, n := range own {
			if !slices.Contains(lengths[m.GetCountryCode()], n) {
				lengths[m.GetCountryCode()] = append(lengths[m.GetCountryCode()], n)
			}
		}
	}
	return lengths
})

// unassigned reports whether a number that the library does not know as assigned
// has the length of a mobile number, so that it may be of a range that is newer
// than the library.
func unassigned(n *phonenumbers.PhoneNumber) bool {
	nsn := phonenumbers.GetNationalSignificantNumber(n)
	return slices.Contains(mobileLengths()[n.GetCountryCode()], int32(len(nsn)))
}
