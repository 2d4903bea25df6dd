package recipient

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestOtherChannels(t *testing.T) {
	long := strings.Repeat("a", 70)
	for _, tt := range []struct {
		name    string
		channel schemas.Channel
		to, key string
		reason  Reason
	}{
		{"e-mail", "email", "bob@example.com", "bob@example.com", ""},
		{"capitals", "email", "Bob.Smith+x@EXAMPLE.Com", "bob.smith+x@example.com", ""},
		{"capitals of other scripts", "email", "ΆΝΝΑ.Ünal@example.com", "άννα.ünal@example.com", ""},
		{"a letter and its accent apart", "email", "Zoe\u0308@example.com", "zo\u00eb@example.com", ""},
		{"sharp s is not ss", "email", "STRAßE@example.com", "straße@example.com", ""},
		{"long once it is folded", "email", strings.Repeat("\u023a", 32) + "@example.com", "", ReasonEmail},
		{"IDN", "email", "bob@Bücher.example", "bob@xn--bcher-kva.example", ""},
		{"IDN in ASCII and capitals", "email", "bob@XN--BCHER-KVA.example", "bob@xn--bcher-kva.example", ""},
		{"full-width dot of an IDN", "email", "bob@例え。テスト", "bob@xn--r8jz45g.xn--zckzah", ""},
		{"UTF-8 local part", "email", "用户@example.com", "用户@example.com", ""},
		{"spaces around", "email", " bob@example.com\n", "bob@example.com", ""},
		{"subdomain with hyphens", "email", "b@r3---sn.mail-1.example.com", "b@r3---sn.mail-1.example.com", ""},
		{"display name", "email", "Bob <bob@example.com>", "", ReasonEmail},
		{"angle brackets", "email", "<bob@example.com>", "", ReasonEmail},
		{"two addresses", "email", "bob@example.com, eve@example.com", "", ReasonEmail},
		{"a comment", "email", "bob(x)@example.com", "", ReasonEmail},
		{"quoted local part", "email", `"bob smith"@example.com`, "", ReasonEmail},
		{"a line's end and a header", "email", "bob@example.com\r\nBcc: eve@example.com", "", ReasonEmail},
		{"no domain", "email", "bob@", "", ReasonEmail},
		{"no local part", "email", "@example.org", "", ReasonEmail},
		{"no at", "email", "bob", "", ReasonEmail},
		{"a dotless domain", "email", "bob@localhost", "", ReasonEmail},
		{"an address literal", "email", "bob@[127.0.0.1]", "", ReasonEmail},
		{"two dots", "email", "bob@example..com", "", ReasonEmail},
		{"dot at the end", "email", "bob@example.com.", "", ReasonEmail},
		{"a label that begins with a hyphen", "email", "bob@-x.com", "", ReasonEmail},
		{"long local part", "email", long + "@example.org", "", ReasonEmail},
		{"long label", "email", "bob@" + long + ".com", "", ReasonEmail},
		{"long", "email", "bob@" + strings.Repeat("abcdefghi.", 26) + "com", "", ReasonEmail},

		{"token", "push", "fMEP0:APA91b-_x", "fMEP0:APA91b-_x", ""},
		{"token is not changed", "push", "AbC+86 1", "AbC+86 1", ""},
		{"user of another script", "push", "用户42", "用户42", ""},
		{"control character", "push", "a\x00b", "", ReasonPush},
		{"line's end", "push", "a\nb", "", ReasonPush},
		{"space at the end", "push", "a ", "", ReasonPush},
		{"not UTF-8", "push", "a\xff", "", ReasonPush},
		{"long token", "push", strings.Repeat("a", 1025), "", ReasonPush},

		{"URL", "webhook", "https://example.com/hook?x=1&y=%2F", "https://example.com/hook?x=1&y=%2F", ""},
		{"capitals", "webhook", "HTTPS://Example.COM/Hook", "https://example.com/Hook", ""},
		{"no path", "webhook", "https://example.com", "https://example.com/", ""},
		{"no path but a query", "webhook", "https://example.com?a=1", "https://example.com/?a=1", ""},
		{"own port", "webhook", "https://example.com:443/x", "https://example.com/x", ""},
		{"own port, with a zero", "webhook", "http://example.com:080/x", "http://example.com/x", ""},
		{"other port", "webhook", "http://example.com:443/x", "http://example.com:443/x", ""},
		{"empty port", "webhook", "http://example.com:/x", "http://example.com/x", ""},
		{"fragment", "webhook", "https://example.com/x#part", "https://example.com/x", ""},
		{"dot at the host's end", "webhook", "https://example.com./x", "https://example.com/x", ""},
		{"IDN host", "webhook", "https://Bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC", ""},
		{"IPv6", "webhook", "http://[2001:DB8::1]:8080/x", "http://[2001:db8::1]:8080/x", ""},
		{"IPv4", "webhook", "http://192.0.2.1/x", "http://192.0.2.1/x", ""},
		{"escaped slash stays", "webhook", "https://example.com/a%2Fb", "https://example.com/a%2Fb", ""},
		{"another scheme", "webhook", "ftp://example.com/", "", ReasonWebhook},
		{"javascript", "webhook", "javascript:alert(1)", "", ReasonWebhook},
		{"no scheme", "webhook", "example.com/hook", "", ReasonWebhook},
		{"opaque", "webhook", "https:example.com", "", ReasonWebhook},
		{"no host", "webhook", "https:///x", "", ReasonWebhook},
		{"password", "webhook", "https://u:secret@example.com/", "", ReasonWebhook},
		{"port too large", "webhook", "https://example.com:70000/", "", ReasonWebhook},
		{"a space", "webhook", "https://example.com/a b", "", ReasonWebhook},
		{"a line's end", "webhook", "https://example.com/a\r\nHost: x", "", ReasonWebhook},
		{"a zone", "webhook", "http://[fe80::1%25eth0]/", "", ReasonWebhook},
		{"a host with an underscore resolves", "webhook", "https://a_b.example.com/", "https://a_b.example.com/", ""},
		{"a host with other characters", "webhook", "https://a!b.example.com/", "", ReasonWebhook},
		{"long URL", "webhook", "https://example.com/" + strings.Repeat("a", 2048), "", ReasonWebhook},

		{"nothing", "sms", "", "", ReasonMissing},
		{"no such channel", "pigeon", "x", "", ReasonUnknownChannel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fixpoint(t, tt.channel, tt.to, "")
			r, err := Canonical(tt.channel, tt.to, "")
			if tt.reason == "" {
				if err != nil || r.Key != tt.key || r.Country != "" {
					t.Errorf("got %+v, %v, want %s", r, err, tt.key)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Reason != tt.reason || r != (Recipient{}) {
				t.Fatalf("got %+v, %v, want %s", r, err, tt.reason)
			}
			if len(tt.to) > 4 && strings.Contains(e.Detail, tt.to) || strings.Contains(e.Detail, "secret") {
				t.Errorf("%q holds the recipient", e.Detail)
			}
		})
	}
}

// A key ignores the case of letters, and what is delivered to does not.
func TestSpelling(t *testing.T) {
	for to, want := range map[string]Recipient{
		"ann@example.com":            {Key: "ann@example.com"},
		" Ann@EXAMPLE.com ":          {Key: "ann@example.com", Spelled: "Ann@example.com"},
		"ANN@Bücher.example":         {Key: "ann@xn--bcher-kva.example", Spelled: "ANN@xn--bcher-kva.example"},
		"\u212aim@example.com":       {Key: "kim@example.com", Spelled: "\u212aim@example.com"},
		"o'Neil-B_9%x@a-b.Example.z": {Key: "o'neil-b_9%x@a-b.example.z", Spelled: "o'Neil-B_9%x@a-b.example.z"},
	} {
		got, err := Canonical(schemas.ChannelEmail, to, "")
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", to, got, err, want)
		}
		again, err := Canonical(schemas.ChannelEmail, got.Address(), "")
		if err != nil || again != want {
			t.Errorf("%q, as it is delivered to: %+v, %v, want %+v", to, again, err, want)
		}
		if f := Fold(got.Address()); f != want.Key {
			t.Errorf("Fold(%q) = %q, want %q", got.Address(), f, want.Key)
		}
	}
	for _, other := range []string{"", "+8613800000000", "Token:A@B", "https://Example.com/A@b.Example.com", "@", "A@", "Ann <Ann@example.com>"} {
		if f := Fold(other); f != other {
			t.Errorf("Fold(%q) = %q: it is no address", other, f)
		}
	}
}

// Folding what is folded changes nothing, for every character alone and beside
// others that it may compose with.
func TestFoldOnce(t *testing.T) {
	for r := rune(1); r <= 0x1ffff; r++ { // what lies beyond has no case
		for _, s := range []string{string(r), string(r) + "\u0301", string(r) + "\u0345"} {
			if once := fold(s); fold(once) != once {
				t.Fatalf("%+q folds to %+q, and that to %+q", s, once, fold(once))
			}
		}
	}
}

func FuzzOtherChannels(f *testing.F) {
	for _, s := range []string{"bob@example.com", "Ǆ\u0345İ@example.com", "bob@Bücher.example", "https://Example.com:443?x#y", "http://[::1]/%2f/../ü", "token", "a@b。c", "https://ß.example/", "http://a/?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []schemas.Channel{schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook} {
			fixpoint(t, c, text, "")
		}
	})
}

func TestMask(t *testing.T) {
	for key, want := range map[string]string{
		"+8613800000042":                   "+86*********42",
		"+14155552671":                     "+14*******71",
		"+123456":                          "***",
		"bob@example.com":                  "b***@example.com",
		"b@example.com":                    "***@example.com",
		"用户@example.com":                   "用***@example.com",
		"https://example.com/secret/x?k=1": "https://example.com/…",
		"https://example.com/u@v":          "https://example.com/…",
		"fMEP0vJqTo2:APA91bH-token":        "fMEP***",
		"user42":                           "***",
		"用户用户用户用户":                         "***",
		"":                                 "",
	} {
		if got := Mask(key); got != want {
			t.Errorf("Mask(%q) = %q, want %q", key, got, want)
		}
	}
}
