package schemas

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSegments(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	tests := []struct {
		name string
		text string
		want int
	}{
		{"empty", "", 1},
		{"one", "a", 1},
		{"160 septets", a(160), 1},
		{"161 septets", a(161), 2},
		{"two parts, full", a(306), 2},
		{"and one more", a(307), 3},
		{"the whole alphabet", gsmBasic, 1},
		{"the extension takes two", strings.Repeat("€", 80), 1},
		{"so 81 are too many", strings.Repeat("€", 81), 2},
		{"an escape is not split", a(152) + "€" + a(152), 3}, // 153 + 153 would fit if it were: 152 | € and 151 | 1
		{"it fits by one less", a(151) + "€" + a(152), 2},
		{"form feed is in the extension", strings.Repeat("\f", 81), 2},
		{"ç is not in the alphabet, Ç is", strings.Repeat("ç", 71), 2},
		{"Ç", strings.Repeat("Ç", 160), 1},
		{"backtick is not", "`" + a(69), 1},
		{"backtick, 71", "`" + a(70), 2},
		{"tab is not", "\t" + a(70), 2},
		{"Chinese, 70", strings.Repeat("中", 70), 1},
		{"Chinese, 71", strings.Repeat("中", 71), 2},
		{"Chinese, 134", strings.Repeat("中", 134), 2},
		{"Chinese, 135", strings.Repeat("中", 135), 3},
		{"pairs take two", strings.Repeat("😀", 35), 1},
		{"36 pairs", strings.Repeat("😀", 36), 2},
		{"a pair is not split", strings.Repeat("😀", 67), 3}, // 33 a part
		{"one Chinese character makes all UCS-2", a(100) + "中", 2},
		{"€ in UCS-2 takes one", "中" + strings.Repeat("€", 69), 1},
		{"not UTF-8", "\xff" + a(70), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Segments(tt.text); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

func TestGSMAlphabetHas128Septets(t *testing.T) {
	if n := utf8.RuneCountInString(gsmBasic); n != 127 { // and the escape
		t.Errorf("%d characters, want 127", n)
	}
	seen := map[rune]bool{}
	for _, c := range gsmBasic + gsmExtended {
		if seen[c] {
			t.Errorf("%q stands twice", c)
		}
		seen[c] = true
	}
}

func TestSegmentsNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(genText().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "times"))
		more := text + genText().Draw(t, "more")
		if Segments(more) < Segments(text) || Segments(text) < 1 {
			t.Fatalf("%d, then %d", Segments(text), Segments(more))
		}
	})
}
