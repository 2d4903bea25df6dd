package smpp

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Data codings (SMPP v3.4, 5.2.19).
const (
	codingDefault = 0x00 // the centre's default alphabet
	codingLatin1  = 0x03
	codingUCS2    = 0x08
)

// The GSM 7-bit alphabet (3GPP TS 23.038, 6.2.1 and 6.2.1.1): the place of a
// character is its septet. The escape stands at 0x1B. These are the characters
// that schemas.Segments counts; a property test holds both together.
const (
	gsmEscape = 0x1b
	gsmBasic  = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)

var gsmExtended = map[rune]byte{
	'\f': 0x0a, '^': 0x14, '{': 0x28, '}': 0x29, '\\': 0x2f, '[': 0x3c, '~': 0x3d, ']': 0x3e, '|': 0x40, '€': 0x65,
}

var gsmOf, gsmChar = func() (of map[rune]byte, char map[byte]rune) {
	of, char = make(map[rune]byte, 128), make(map[byte]rune, 128)
	septet := byte(0)
	for _, c := range gsmBasic {
		if c != gsmEscape {
			of[c], char[septet] = septet, c
		}
		septet++
	}
	return of, char
}()

// alphabet is how a centre reads data_coding 0.
type alphabet string

const (
	alphabetGSM    alphabet = "gsm7"   // one septet of the GSM alphabet in each octet
	alphabetLatin1 alphabet = "latin1" // text is sent as Latin-1, with data_coding 3; the centre makes septets of it
)

// encoding is how a text travels: its characters' octets and what each takes of
// the 140 octets of a short message.
type encoding struct {
	coding       byte
	single, part int // characters' widths in one message; in a part
	char         func(b []byte, c rune) []byte
	width        func(c rune) int
}

func gsmWidth(c rune) int {
	if _, ok := gsmExtended[c]; ok {
		return 2
	}
	return 1
}

func gsmAppend(b []byte, c rune) []byte {
	if x, ok := gsmExtended[c]; ok {
		return append(b, gsmEscape, x)
	}
	return append(b, gsmOf[c])
}

func inGSM(c rune) bool {
	_, basic := gsmOf[c]
	_, extended := gsmExtended[c]
	return basic || extended
}

// encodingOf chooses how text travels when each part has a header of header
// octets. UCS-2 is big-endian UTF-16, as every phone reads it.
func encodingOf(text string, a alphabet, header int) encoding {
	fits := inGSM
	gsm := encoding{coding: codingDefault, single: 160, part: (140 - header) * 8 / 7, char: gsmAppend, width: gsmWidth}
	if a == alphabetLatin1 {
		fits = func(c rune) bool { return c <= 0xff && inGSM(c) }
		gsm.coding = codingLatin1
		gsm.char = func(b []byte, c rune) []byte { return append(b, byte(c)) }
	}
	if strings.IndexFunc(text, func(c rune) bool { return !fits(c) }) < 0 {
		return gsm
	}
	return encoding{coding: codingUCS2, single: 70, part: (140 - header) / 2, width: utf16.RuneLen, char: func(b []byte, c rune) []byte {
		for _, u := range utf16.AppendRune(nil, c) {
			b = binary.BigEndian.AppendUint16(b, u)
		}
		return b
	}}
}

// Lengths of the headers of concatenated parts (3GPP TS 23.040, 9.2.3.24.1 and
// 9.2.3.24.8), with the octet that says how long they are.
const (
	header8  = 6 // the reference has 8 bits
	header16 = 7 // 16 bits
)

// split cuts text into the short messages that carry it, each with its header if
// there is more than one. A part ends before a character that it cannot hold
// whole. With an 8-bit reference and the GSM alphabet there are as many as
// schemas.Segments counts.
func split(text string, a alphabet, header int, reference uint16) (parts [][]byte, coding byte) {
	e := encodingOf(text, a, header)
	total := 0
	for _, c := range text {
		total += e.width(c)
	}
	limit := e.single
	if total > limit {
		limit = e.part
	}
	part, left := []byte{}, limit
	for _, c := range text {
		w := e.width(c)
		if w > left {
			parts = append(parts, part)
			part, left = []byte{}, limit
		}
		part = e.char(part, c)
		left -= w
	}
	parts = append(parts, part)
	if total > e.single {
		for i := range parts {
			parts[i] = append(udh(header, reference, len(parts), i+1), parts[i]...)
		}
	}
	return parts, e.coding
}

func udh(header int, reference uint16, total, number int) []byte {
	if header == header16 {
		return []byte{6, 0x08, 4, byte(reference >> 8), byte(reference), byte(total), byte(number)}
	}
	return []byte{5, 0x00, 3, byte(reference), byte(total), byte(number)}
}

// number returns which part of how many a user data header says that this is: 1
// when it says nothing of it. rest is what follows the header.
func number(message []byte) (n int, rest []byte) {
	if len(message) == 0 || int(message[0])+1 > len(message) {
		return 1, nil
	}
	h, rest := message[1:message[0]+1], message[message[0]+1:]
	for len(h) >= 2 && len(h) >= 2+int(h[1]) {
		switch v := h[2 : 2+h[1]]; {
		case h[0] == 0x00 && len(v) == 3:
			return int(v[2]), rest
		case h[0] == 0x08 && len(v) == 4:
			return int(v[3]), rest
		}
		h = h[2+h[1]:]
	}
	return 1, rest
}

// decode reads what somebody wrote. Octets that the coding does not have are left
// out; a coding that is no text's gives nothing.
func decode(message []byte, coding byte, a alphabet) string {
	var b strings.Builder
	switch {
	case coding == codingUCS2:
		units := make([]uint16, 0, len(message)/2)
		for ; len(message) >= 2; message = message[2:] {
			units = append(units, binary.BigEndian.Uint16(message))
		}
		return string(utf16.Decode(units))
	case coding == codingLatin1, coding == codingDefault && a == alphabetLatin1:
		for _, c := range message {
			b.WriteRune(rune(c))
		}
	case coding == 0x01: // IA5, which is ASCII
		for _, c := range message {
			if c < utf8.RuneSelf {
				b.WriteByte(c)
			}
		}
	case coding == codingDefault, coding&0xf4 == 0xf0: // 0xF0 to 0xF3: with a message class
		for i := 0; i < len(message); i++ {
			if message[i] == gsmEscape && i+1 < len(message) {
				i++
				for c, x := range gsmExtended {
					if x == message[i] {
						b.WriteRune(c)
					}
				}
				continue
			}
			if c, ok := gsmChar[message[i]]; ok {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}
