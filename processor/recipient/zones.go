package recipient

import (
	"time"

	"github.com/nyaruka/phonenumbers"

	"github.com/weirhq/weir/schemas"
)

// Zones returns the time zones in which the holder of a canonical phone number
// may be, by the number's area where its plan has areas, and by its country
// elsewhere. There are none for other recipients, and none where the library
// knows none.
func Zones(key string) []*time.Location {
	if len(key) == 0 || key[0] != '+' {
		return nil
	}
	number, err := phonenumbers.Parse(key, "")
	if err != nil {
		return nil
	}
	names, err := phonenumbers.GetTimezonesForNumber(number)
	if err != nil {
		return nil
	}
	var zones []*time.Location
	for _, name := range names {
		if l, err := schemas.Zone(name); err == nil { // the library says "Etc/Unknown" where it knows none
			zones = append(zones, l)
		}
	}
	return zones
}
