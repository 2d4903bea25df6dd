package smpp

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/processor/provider/smpp/smpptest"
	"github.com/weirhq/weir/schemas"
)

func genText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		alphabet := rapid.SampledFrom([][]rune{
			[]rune("abc @£é\n"), []rune("ab€[]{}^|~\\\f"), []rune("aç中"), []rune("中文"), []rune("😀👩中a"), []rune("\ufffdabcΔ"),
		}).Draw(t, "alphabet")
		s := rapid.StringOfN(rapid.SampledFrom(alphabet), 0, 900, -1).Draw(t, "text")
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			s += "\xff"
		}
		return s
	})
}

// TestPartsAreThoseThatAreCounted: a text is sent in as many short messages as
// schemas.Segments says, each within 140 octets of a phone's, and a phone that puts
// them together shows the text.
func TestPartsAreThoseThatAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := genText().Draw(t, "text")
		reference := rapid.Uint16().Draw(t, "reference")
		header := rapid.SampledFrom([]int{header8, header16}).Draw(t, "header")
		a := rapid.SampledFrom([]alphabet{alphabetGSM, alphabetLatin1}).Draw(t, "alphabet")
		parts, coding := split(text, a, header, reference)
		if n := schemas.Segments(text); header == header8 && (a == alphabetGSM || coding == codingLatin1) && len(parts) != n || len(parts) < n {
			t.Fatalf("%d parts, and %d are counted", len(parts), n)
		}
		var shown strings.Builder
		for i, p := range parts {
			octets := len(p)
			if coding != codingUCS2 { // septets, but for the header, which is padded to whole ones
				h := 0
				if len(parts) > 1 {
					h = header
				}
				septets := len(p) - h
				if coding == codingLatin1 {
					septets = 0
					for _, c := range smpptest.Text(p[h:], coding) {
						septets += gsmWidth(c)
					}
				}
				octets = ((h*8+6)/7*7 + septets*7 + 7) / 8
			}
			if octets > 140 {
				t.Fatalf("part %d has %d octets", i+1, octets)
			}
			if len(parts) > 1 {
				want := []byte{5, 0, 3, byte(reference), byte(len(parts)), byte(i + 1)}
				if header == header16 {
					want = []byte{6, 8, 4, byte(reference >> 8), byte(reference), byte(len(parts)), byte(i + 1)}
				}
				if !bytes.HasPrefix(p, want) {
					t.Fatalf("part %d begins with % x, want % x", i+1, p[:7], want)
				}
				if n, _ := number(p); n != i+1 {
					t.Fatalf("part %d says that it is part %d", i+1, n)
				}
				p = p[header:]
			}
			text := smpptest.Text(p, coding)
			if strings.ContainsRune(text, utf8.RuneError) && !strings.Contains(text, "\ufffd") {
				t.Fatalf("part %d cuts a character", i+1)
			}
			shown.WriteString(text)
			if coding == codingDefault || coding == codingLatin1 {
				if got := decode(p, coding, a); got != text {
					t.Fatalf("it is read as %q, and a phone shows %q", got, text)
				}
			}
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); shown.String() != want {
			t.Fatalf("a phone shows\n%q\nof\n%q", shown.String(), want)
		}
	})
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		alphabet   alphabet
		coding     byte
		parts      []string // in hex
	}{
		{"nothing", "", alphabetGSM, 0, []string{""}},
		// 3GPP TS 23.038, 6.2.1 and 6.2.1.1.
		{"the ends of the alphabet", "@à€", alphabetGSM, 0, []string{"007f1b65"}},
		{"UCS-2", "a中😀", alphabetGSM, 8, []string{"0061 4e2d d83d de00"}},
		{"Latin-1", "aéà[", alphabetLatin1, 3, []string{"61e9e05b"}},
		{"the euro is not in Latin-1", "a€", alphabetLatin1, 8, []string{"0061 20ac"}},
		{"ç is in Latin-1, and not in what phones get", "ç", alphabetLatin1, 8, []string{"00e7"}},
		{"two parts", strings.Repeat("a", 161), alphabetGSM, 0, []string{"050003cd0201" + strings.Repeat("61", 153), "050003cd0202" + strings.Repeat("61", 8)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts, coding := split(tt.text, tt.alphabet, header8, 0xabcd)
			if coding != tt.coding || len(parts) != len(tt.parts) {
				t.Fatalf("%d parts in coding %d, want %d in %d", len(parts), coding, len(tt.parts), tt.coding)
			}
			for i, p := range tt.parts {
				if !bytes.Equal(parts[i], unhex(t, p)) {
					t.Errorf("part %d: % x", i+1, parts[i])
				}
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, octets string
		coding       byte
		want         string
	}{
		{"GSM", "53 54 4f 50 1b65 1b", 0, "STOP€"},
		{"GSM with a class", "53 54", 0xf1, "ST"},
		{"ASCII", "53 54 ff", 1, "ST"},
		{"Latin-1", "53 e9", 3, "Sé"},
		{"UCS-2, and half a character", "0053 4e2d d83d", 8, "S中\ufffd"},
		{"an odd octet", "0053 4e", 8, "S"},
		{"binary", "53 54", 4, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decode(unhex(t, tt.octets), tt.coding, alphabetGSM); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
