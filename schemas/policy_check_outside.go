package schemas

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	envForm      = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	secretKey    = regexp.MustCompile(`(?i)(secret|token|passw|passphrase|credential|private|apikey|authorization|(^|[_.-])key$)`)
	variableOnly = regexp.MustCompile(`^\{\{[^{}]*\}\}$`) // of a message's, in a request of type http
	notSecretKey = regexp.MustCompile(`(?i)[_.-](id|url|uri|name|header|file|path)$`)
)

func secretName(k string) bool { return secretKey.MatchString(k) && !notSecretKey.MatchString(k) }

const secretHint = `write where it comes from, such as "${API_KEY}" or file:/run/secrets/key`

// setting checks a value of settings; secret is whether a name on the way to it
// looks like a secret's.
func (c *checker) setting(path string, v any, secret bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c.setting(childPath(path, k), v[k], secret || secretName(k))
		}
	case []any:
		for i := range v {
			c.setting(itemPath(path, i), v[i], secret)
		}
	case string:
		c.environment(path, v)
		u, err := url.Parse(v)
		password := false
		if err == nil && u.User != nil {
			p, set := u.User.Password()
			password = set && !fromOutside(p)
		}
		switch {
		case secret && !fromOutside(v) && !variableOnly.MatchString(v):
			c.failf(path, "is a secret in plain text: %s", secretHint)
		case password:
			c.failf(path, "has a password in plain text: %s", secretHint)
		}
	case float64, int, int64:
		if secret {
			c.failf(path, "is a secret in plain text: %s", secretHint)
		}
	}
}

// fromOutside reports whether a value holds a reference to the environment or
// a file rather than a secret.
func fromOutside(v string) bool {
	name, file := strings.CutPrefix(v, "file:")
	return file && name != "" || envForm.MatchString(v)
}

// environment checks that every ${ of a value is a reference.
func (c *checker) environment(path, v string) {
	if strings.Contains(envForm.ReplaceAllString(v, ""), "${") {
		c.failf(path, "has a ${ that is no reference: write ${NAME} with letters, digits and _, such as ${API_KEY}")
	}
	if v == "file:" {
		c.failf(path, "names no file: write file: and a path, such as file:/run/secrets/key")
	}
}

// address checks an http or https URL, which may come from the environment.
func (c *checker) address(path, v string) {
	if fromOutside(v) {
		c.environment(path, v)
		return
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		c.failf(path, "is not an address: write http or https and a host, such as \"https://example.com/hook\"")
	}
}
