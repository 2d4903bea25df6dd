package optout

import (
	"strings"
	"testing"
)

// TestEveryWord: each word is what its language says, however it is written, and no
// text that has more in it is one.
func TestEveryWord(t *testing.T) {
	whose := make(map[string]Word)
	n := 0
	for _, l := range languages {
		for word, list := range map[Word][]string{Stop: l.Stop, Start: l.Start, Help: l.Help} {
			if len(list) == 0 {
				t.Errorf("%s has no word for %s", l.Name, word)
			}
			for _, text := range list {
				n++
				if other, twice := whose[fold(text)]; twice && other != word {
					t.Errorf("%q is %s, and in another language %s", text, word, other)
				}
				whose[fold(text)] = word
				for _, written := range []string{text, strings.ToLower(text), strings.ToUpper(text), "  " + text + "\n", text + "!", "«" + text + ".»", text + " 🙏", wide(text)} {
					if got := Read(written); got != word {
						t.Errorf("%s: %q is %s, want %s", l.Name, written, got, word)
					}
				}
				for _, more := range []string{"don't " + text + " sending", text + " xyz", "please " + text, text + "x"} {
					if got := Read(more); got != Other {
						t.Errorf("%s: %q is %s", l.Name, more, got)
					}
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d words", n)
	}
}

// wide is a text in full-width letters, as keyboards for Chinese and Japanese write them.
func wide(text string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r <= '~' {
			return r - ' ' + '\uff00'
		}
		return r
	}, text)
}

func TestRead(t *testing.T) {
	for text, want := range map[string]Word{
		"don't stop sending": Other, "Don’t stop": Other, "stop it": Other, "stopp!!!": Stop, "ＳＴＯＰ": Stop, "s.t.o.p": Other,
		"回复TD退订": Other, "td": Stop, "ｔｄ": Stop, "退订。": Stop, "【退订】": Stop, "不退订": Other, "R": Stop, "r": Stop, "RR": Other,
		"arret": Stop, "Arrêt": Stop, "ARRE\u0302T": Stop, "désabonner": Stop, "beeindigen": Stop, "stop\u200b": Stop, "\ufeffSTOP": Stop,
		"opt-out": Stop, "opt  out": Stop, "ストップ": Stop, "ｽﾄｯﾌﾟ": Stop, "수신거부": Stop, "일시중지": Other, "стоп": Stop, "إِيقَاف": Stop,
		"yes": Other, "": Other, "   ": Other, "?": Other, "help": Help, "start": Start, "Ajuda": Help, "\xff\xfe": Other, "iptal": Stop, "İPTAL": Stop,
		strings.Repeat(" ", 300) + "stop": Other,
	} {
		if got := Read(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("stop")
	f.Add("ｽﾄｯﾌﾟ")
	f.Add("don't stop")
	f.Fuzz(func(t *testing.T, text string) {
		if w := Read(text); w != Other && (Read(" "+text+" ") != w && len(text) < maxBytes-2 || Read(text+"x yz") != Other) {
			t.Errorf("%q is %s, and what is around it changes that", text, w)
		}
	})
}
