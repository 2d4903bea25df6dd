package recipient

import (
	"slices"
	"sync"

	"github.com/nyaruka/phonenumbers"
)

// mobileLengths are the lengths of mobile numbers, without the calling code, by
// calling code: all that the library knows of a plan's future.
var mobileLengths = sync.OnceValue(func() map[int32][]int32 {
	lengths := map[int32][]int32{}
	for _, m := range metadata() {
		own := m.GetMobile().GetPossibleLength()
		if len(own) == 0 { // as in libphonenumber: none of its own are the plan's
			own = m.GetGeneralDesc().GetPossibleLength()
		}
		for _, n := range own { // -1 is: no such numbers
			if n > 0 && !slices.Contains(lengths[m.GetCountryCode()], n) {
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
