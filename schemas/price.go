package schemas

import (
	"math/big"
	"strings"
)

// priceDigits is how many digits after the point a Decimal has at most.
const priceDigits = 9

// Of returns what a provider bills for a message of so many segments, as
// decimal text without needless zeros; empty when it has no price. A message
// of a channel without segments is one.
func (p *Price) Of(segments int) string {
	if p == nil {
		return ""
	}
	sum := new(big.Int).Mul(scaled(p.PerSegment), big.NewInt(int64(max(segments, 1))))
	sum.Add(sum, scaled(p.PerMessage))
	text := sum.String()
	if n := priceDigits + 1 - len(text); n > 0 {
		text = strings.Repeat("0", n) + text
	}
	whole, part := text[:len(text)-priceDigits], strings.TrimRight(text[len(text)-priceDigits:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

// scaled returns d in billionths. apply has refused what is no decimal.
func scaled(d Decimal) *big.Int {
	whole, part, _ := strings.Cut(string(d), ".")
	if len(part) > priceDigits {
		part = part[:priceDigits]
	}
	n, ok := new(big.Int).SetString(whole+part+strings.Repeat("0", priceDigits-len(part)), 10)
	if !ok {
		return new(big.Int)
	}
	return n
}
