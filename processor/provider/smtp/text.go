package smtp

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// unxtext undoes xtext; what is none stays as it is.
func unxtext(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '+' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// basic reads the value of HTTP's basic authentication (RFC 7617).
func basic(s string) (user, password string) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", ""
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password
}
