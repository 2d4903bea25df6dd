package recipient

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Mask returns a key as logs and screens may show it: enough to recognise one's
// own test recipient, not enough to reach or identify a person. A phone keeps
// its first three characters and last two digits, an address its first letter
// and its domain, a URL its host, a token its first four characters if it is
// long.
func Mask(key string) string {
	if key == "" {
		return ""
	}
	if strings.HasPrefix(key, "http://") || strings.HasPrefix(key, "https://") {
		if u, err := url.Parse(key); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host + "/…"
		}
		return "…"
	}
	if len(key) >= 8 && len(key) <= 1+maxDigits && key[0] == '+' && bare(key) {
		return key[:3] + strings.Repeat("*", len(key)-5) + key[len(key)-2:]
	}
	if at := strings.LastIndexByte(key, '@'); at > 0 {
		_, n := utf8.DecodeRuneInString(key)
		if n == at { // a name of one letter
			n = 0
		}
		return key[:n] + "***" + key[at:]
	}
	if len(key) >= 16 && utf8.RuneCountInString(key) == len(key) {
		return key[:4] + "***"
	}
	return "***"
}

var mailboxScope = regexp.MustCompile(`\bmailbox=[^,"]+`)

// MaskScopes masks the mailboxes in the scopes that a text has: a mailbox is its
// recipient's, and need not have the same text.
func MaskScopes(text string) string {
	return mailboxScope.ReplaceAllStringFunc(text, func(s string) string { return "mailbox=" + Mask(s[len("mailbox="):]) })
}
