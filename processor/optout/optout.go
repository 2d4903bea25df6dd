// Package optout reads what a recipient's message asks for: to be left alone, to
// hear again, or help. It is PURE: a text in, a word out.
//
// Only a message that is nothing but such a word counts, whatever its case, width,
// accents, spaces around it and punctuation: "Stop!" is a STOP, "don't stop sending" is
// not. What is in doubt asks for nothing, since a START by mistake lifts what
// somebody asked for; that is why YES, which Twilio takes for a START, is none here.
//
// words.go has the words with their sources.
package optout

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Word is what a message asks for.
type Word string

const (
	Stop  Word = "stop"  // send nothing more
	Start Word = "start" // send again
	Help  Word = "help"  // who are you? Nobody is suppressed by it
	Other Word = "other" // anything else
)

// maxBytes is more than any word takes, however it is decorated. What is longer is
// no word, and is not read.
const maxBytes = 200

// Read returns what a text asks for.
func Read(text string) Word {
	if len(text) > maxBytes {
		return Other
	}
	if w, ok := words[fold(text)]; ok {
		return w
	}
	return Other
}

// fold leaves of a text what tells words apart: letters, marks that are letters of
// their script, digits and single spaces, in small letters of usual width, without
// accents (stop, ARRÊT and ＳＴＯＰ are as they are spelled on any keyboard).
func fold(text string) string {
	var b strings.Builder
	space := false
	for _, r := range norm.NFKD.String(strings.ToLower(norm.NFKC.String(text))) {
		switch {
		case unicode.Is(unicode.Mn, r) && !unicode.In(r, unicode.Devanagari, unicode.Thai, unicode.Bengali) && !voiced(r):
			// an accent, or a vowel sign that Arabic and Hebrew may leave out
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		case r == '\u200b' || r == '\u200c' || r == '\u200d' || r == '\ufeff' || r == '\'' || r == '’': // nothing stands there
		default: // spaces, punctuation, emoji
			space = true
		}
	}
	return norm.NFC.String(b.String())
}

// voiced reports whether r is the voicing mark of kana, which makes another letter.
func voiced(r rune) bool { return r == '\u3099' || r == '\u309a' }
