package schemas

import (
	"strings"
	"testing"
)

func TestNewSecretHasItsForm(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range []bool{false, true} {
		for range 200 {
			token, err := NewSecret(test)
			if err != nil {
				t.Fatal(err)
			}
			isTest, ok := IsSecret(token)
			if !ok || isTest != test || len(token) != 53 {
				t.Fatalf("of %d bytes: form %v, test %v; want 53, true, %v", len(token), ok, isTest, test)
			}
			if seen[token] {
				t.Fatal("the same secret twice")
			}
			seen[token] = true
			if h := HashSecret(token); !hashForm.MatchString(h) || strings.Contains(h, token[10:]) {
				t.Fatalf("hash %s", h)
			}
		}
	}
}

func TestIsSecret(t *testing.T) {
	digits := strings.Repeat("aB3", 14) + "z"
	for _, c := range []struct {
		name, token string
		test, ok    bool
	}{
		{"live", LivePrefix + digits, false, true},
		{"test", TestPrefix + digits, true, true},
		{"without a prefix", digits, false, false},
		{"of another prefix", "weir_prod_" + digits, false, false},
		{"both prefixes", LivePrefix + TestPrefix + digits[10:], false, false},
		{"short", LivePrefix + digits[1:], false, false},
		{"long", LivePrefix + digits + "0", false, false},
		{"no digit", LivePrefix + digits[1:] + "-", false, false},
		{"not ASCII", LivePrefix + digits[2:] + "é", false, false},
		{"a space before it", " " + LivePrefix + digits, false, false},
		{"in capitals", strings.ToUpper(LivePrefix) + digits, false, false},
		{"nothing", "", false, false},
	} {
		if test, ok := IsSecret(c.token); test != c.test || ok != c.ok {
			t.Errorf("%s: test %v, ok %v; want %v, %v", c.name, test, ok, c.test, c.ok)
		}
	}
}

func TestHashSecret(t *testing.T) {
	// echo -n abc | sha256sum, FIPS 180-2 appendix B.1.
	const abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := HashSecret("abc"); got != abc {
		t.Errorf("hash %s", got)
	}
}
