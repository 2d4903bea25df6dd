package schemas

import "unicode/utf16"

// Lengths of a short message (3GPP TS 23.038 and 23.040): 140 octets, of which
// the header of a concatenated part takes 6. Septets for the GSM 7-bit
// alphabet, UTF-16 code units for UCS-2.
const (
	gsmSingle = 160
	gsmPart   = 153
	ucsSingle = 70
	ucsPart   = 67
)

// gsmBasic is the GSM 7-bit default alphabet (3GPP TS 23.038, 6.2.1) without
// the escape; gsmExtended (6.2.1.1) is what costs an escape and a septet.
const (
	gsmBasic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑ\u00dc\u00a7¿abcdefghijklmnopqrstuvwxyzäöñüà"
	gsmExtended = "\f^{}\\[~]|€"
)

// gsmSeptets holds how many septets a character takes; all of them are below
// U+20AD, and 0 is a character that the alphabet lacks.
var gsmSeptets = func() (t [0x20ad]uint8) {
	for _, c := range gsmBasic {
		t[c] = 1
	}
	for _, c := range gsmExtended {
		t[c] = 2
	}
	return t
}()

// Segments returns the number of short messages that text takes: one of 160
// septets or parts of 153 in the GSM 7-bit alphabet, one of 70 or parts of 67
// UTF-16 units where it has any other character. A part ends before an escaped
// character or a surrogate pair that it cannot hold whole. Empty text is one.
// National language shift tables are not used.
func Segments(text string) int {
	gsm := true
	total := 0
	for _, c := range text {
		if int(c) >= len(gsmSeptets) || gsmSeptets[c] == 0 {
			gsm = false
			break
		}
		total += int(gsmSeptets[c])
	}
	single, part := gsmSingle, gsmPart
	width := func(c rune) int { return int(gsmSeptets[c]) }
	if !gsm {
		single, part = ucsSingle, ucsPart
		width = utf16.RuneLen
		total = 0
		for _, c := range text {
			total += width(c)
		}
	}
	if total <= single {
		return 1
	}
	parts, left := 1, part
	for _, c := range text {
		w := width(c)
		if w > left {
			parts++
			left = part
		}
		left -= w
	}
	return parts
}
