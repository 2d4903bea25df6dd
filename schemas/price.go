package schemas

import (
	"math/big"
	"regexp"
	"strings"
)

// PriceDecimals is the scale of money: a price of a message, its column in ClickHouse
// (Decimal(18, 6)) and an amount of the policy have at most so many digits after the
// point.
const PriceDecimals = 6

// recordedDecimals is how many a Decimal of a recorded policy has at most: earlier
// versions took so many.
const recordedDecimals = 9

// priceForm is what the column holds.
var priceForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$`)

// PriceFits reports whether ClickHouse's tables hold a price with every digit of it.
func PriceFits(price string) bool { return priceForm.MatchString(price) }

// Of returns what a provider bills for a message of so many segments, as
// decimal text without needless zeros; empty when it has no price. A message
// of a channel without segments is one. It is exact, unless the price Rounds.
func (p *Price) Of(segments int) string {
	if p == nil {
		return ""
	}
	sum := new(big.Int).Mul(scaled(p.PerSegment), big.NewInt(int64(max(segments, 1))))
	sum.Add(sum, scaled(p.PerMessage))
	// The nearest, and the higher of two.
	const unit = 1000 // 10^(recordedDecimals-PriceDecimals)
	sum.Quo(sum.Add(sum, big.NewInt(unit/2)), big.NewInt(unit))
	text := sum.String()
	if n := PriceDecimals + 1 - len(text); n > 0 {
		text = strings.Repeat("0", n) + text
	}
	whole, part := text[:len(text)-PriceDecimals], strings.TrimRight(text[len(text)-PriceDecimals:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

// Rounds reports whether an amount has more decimals than a price: an earlier version
// took it. What Of returns is then rounded.
func (p *Price) Rounds() bool {
	fine := func(d Decimal) bool {
		_, part, _ := strings.Cut(string(d), ".")
		return len(strings.TrimRight(part, "0")) > PriceDecimals
	}
	return p != nil && (fine(p.PerSegment) || fine(p.PerMessage))
}

// scaled returns d in billionths. apply has refused what is no decimal.
func scaled(d Decimal) *big.Int {
	whole, part, _ := strings.Cut(string(d), ".")
	if len(part) > recordedDecimals {
		part = part[:recordedDecimals]
	}
	n, ok := new(big.Int).SetString(whole+part+strings.Repeat("0", recordedDecimals-len(part)), 10)
	if !ok {
		return new(big.Int)
	}
	return n
}
